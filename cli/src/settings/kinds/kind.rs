//! What each kind of port implements.

use super::claim::Claim;
use crate::settings::access::Access;
use crate::settings::reader::fields::Fields;
use crate::settings::reader::validation::{PortCommon, Validation};
use ::port::PortControl;
use ::port::pcap::Recording;
use console::Diagnostic;
use std::fmt::{self, Display};
use std::path::Path;
use std::sync::Arc;

/// The file that a port plays, as read; `None` for ports that play none.
pub(crate) type Loaded = Option<Arc<Recording>>;

/// A kind of port. A value is the settings of one port of this kind; its `Display` follows the kind's name wherever the
/// port is described, such as `server at /tmp/a.sock`.
pub(crate) trait Kind: fmt::Display + Sized {
    /// The value of `kind` in a file: the name of the variant in `PortKind`, in lower case with dashes.
    const NAME: &'static str;
    /// A description in one line, for `--help`.
    const ABOUT: &'static str;
    /// Every key that [`Kind::read`] reads. Written on a port of another kind they are an error.
    const KEYS: &'static [&'static str];
    /// Lines of valid `[[port]]` sections of this kind, without name and kind.
    #[cfg(test)]
    const EXAMPLES: &'static [&'static str];

    /// Reads the kind's own keys: types, ranges and defaults.
    fn read(fields: &mut Fields<'_, '_>) -> Self;

    /// Validates the settings against this machine.
    fn validate(&self, validation: &mut Validation<'_>);

    /// The resources of this machine that only one port can use.
    fn claims(&self) -> Vec<Claim<'_>> {
        Vec::new()
    }

    /// The access to the socket that the port creates, to be completed by the switch's.
    fn access_mut(&mut self) -> Option<&mut Access> {
        None
    }

    /// Where the port leads to, in a few characters: the path of a socket, the name of an interface.
    fn place(&self) -> String;

    /// Why such a port cannot both send and receive if the ports called `names` are the only ones, and the remedy; `None`
    /// if it can, or if that is known only when it runs.
    fn one_way(&self, _names: &[&str]) -> Option<(&'static str, &'static str)> {
        None
    }

    /// The file that the port plays, with the key that names it. It is read before the port is opened.
    fn plays(&self) -> Option<(&'static str, &Path)> {
        None
    }

    /// Opens the port; `loaded` is the content of [`Kind::plays`].
    fn open(&self, port: PortCommon<'_>, loaded: Loaded) -> Result<Box<dyn PortControl>, OpenError>;
}

/// Why a port could not be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OpenError {
    /// It is refused.
    Refused(Diagnostic),
    /// Another process uses the resource and may be about to release it.
    Busy(Diagnostic),
}

impl OpenError {
    /// The port called `name` is refused with an error of a library.
    pub(crate) fn refused(name: &str, error: &dyn Display) -> Self {
        Self::Refused(diagnostic(name, error))
    }

    /// As [`OpenError::refused`], for a resource in use.
    pub(crate) fn busy(name: &str, error: &dyn Display) -> Self {
        Self::Busy(diagnostic(name, error))
    }

    /// The error without its class.
    pub(crate) fn into_diagnostic(self) -> Diagnostic {
        match self {
            Self::Refused(error) | Self::Busy(error) => error,
        }
    }
}

fn diagnostic(name: &str, error: &dyn Display) -> Diagnostic {
    let remedy = "correct the port's section, or remove the port";
    Diagnostic::of_error(format!("port \"{name}\""), error, remedy).as_bad_input()
}

/// The default of a flag, for serde.
pub(super) fn yes() -> bool {
    true
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
pub(super) fn is_yes(yes: &bool) -> bool {
    *yes
}
