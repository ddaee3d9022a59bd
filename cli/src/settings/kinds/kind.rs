//! Interface of a kind of port.

use super::claim::Claim;
use crate::remedy;
use crate::settings::access::Access;
use crate::settings::reader::fields::Fields;
use crate::settings::reader::key::Key;
use crate::settings::reader::validation::{PortCommon, Validation};
use ::port::PortControl;
use ::port::Remedy;
use ::port::pcap::Recording;
use console::Diagnostic;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Loaded content of the capture that a port replays; `None` for ports without one.
pub(crate) type Loaded = Option<Arc<Recording>>;

/// A kind of port. A value holds the settings of one port of this kind. Its `Display` is printed after the kind's
/// name in descriptions of the port, such as `server at /tmp/a.sock`.
pub(crate) trait Kind: fmt::Display + Sized {
    /// The value of `kind` in a file: the name of the variant in `PortKind`, in lower case with dashes.
    const NAME: &'static str;
    /// A description in one line, for `--help`.
    const ABOUT: &'static str;
    /// All keys that [`Kind::read`] reads. They are errors on ports of other kinds.
    const KEYS: &'static [Key];
    /// Lines of valid `[[port]]` sections of this kind, without name and kind.
    #[cfg(test)]
    const EXAMPLES: &'static [&'static str];

    /// Reads the kind's own keys: types, ranges and defaults.
    fn read(fields: &mut Fields<'_, '_>) -> Self;

    /// Validates the settings against this machine.
    fn validate(&self, validation: &mut Validation<'_>);

    /// Resources of this machine that only one port can use.
    fn claims(&self) -> Vec<Claim<'_>> {
        Vec::new()
    }

    /// Access to the socket that the port creates. Unset values are inherited from the switch.
    fn access_mut(&mut self) -> Option<&mut Access> {
        None
    }

    /// Path of the Unix socket over which the port finds its peer, and whether the switch creates it. `None` without
    /// one in the file system.
    fn socket(&self) -> Option<(&Path, bool)> {
        None
    }

    /// Short description of the peer or resource: the path of a socket, the name of an interface.
    fn place(&self) -> String;

    /// Reason and remedy if the port cannot both send and receive when the ports `names` are the only ones. `None` if
    /// it can, or if this is known only at run time.
    fn one_way(&self, _names: &[&str]) -> Option<(&'static str, &'static str)> {
        None
    }

    /// The capture that the port replays, with its key. It is read before the port is opened.
    fn plays(&self) -> Option<(&'static str, &Path)> {
        None
    }

    /// Files that the port reads, writes or connects to, each with its key.
    fn files(&self) -> Vec<(&'static str, &Path)> {
        self.socket().map(|(path, _)| ("socket", path)).into_iter().chain(self.plays()).collect()
    }

    /// Network namespaces that the port enters, each with its key.
    fn namespaces(&self) -> Vec<(&'static str, &str)> {
        Vec::new()
    }

    /// Whether the kernel forwards frames between the port and others of which this is true.
    fn has_fast_path(&self) -> bool {
        false
    }

    /// Creates the port so that it continues that of another process; `None` if there is nothing to continue.
    fn successor(&self, _port: PortCommon<'_>) -> Option<Result<Box<dyn PortControl>, OpenError>> {
        None
    }

    /// Opens the port; `loaded` is the content of [`Kind::plays`].
    fn open(&self, port: PortCommon<'_>, loaded: Loaded) -> Result<Box<dyn PortControl>, OpenError>;
}

/// Why a port could not be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OpenError {
    /// The port cannot be opened.
    Refused(Diagnostic),
    /// Another process uses the resource and may be about to release it.
    Busy(Diagnostic),
}

/// The result of [`Kind::successor`] for the port `name`, which is `made`.
pub(super) fn succeeding<P: PortControl + 'static, E: Remedy>(
    name: &str,
    made: Result<P, E>,
) -> Result<Box<dyn PortControl>, OpenError> {
    let boxed = made.map(|port| Box::new(port) as Box<dyn PortControl>);
    boxed.map_err(|error| OpenError::refused(name, &error))
}

impl OpenError {
    /// A permanent error of the port `name`, from an error of a library.
    pub(crate) fn refused(name: &str, error: &dyn Remedy) -> Self {
        Self::Refused(diagnostic(name, error))
    }

    /// As [`OpenError::refused`], for a resource in use.
    pub(crate) fn busy(name: &str, error: &dyn Remedy) -> Self {
        Self::Busy(diagnostic(name, error))
    }

    /// Returns the error without its class.
    pub(crate) fn into_diagnostic(self) -> Diagnostic {
        match self {
            Self::Refused(error) | Self::Busy(error) => error,
        }
    }
}

fn diagnostic(name: &str, error: &dyn Remedy) -> Diagnostic {
    let default = "correct the port's section, or remove the port";
    remedy::invalid(format!("port \"{name}\""), error, default)
}

/// Default of a flag, for serde.
pub(super) fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
pub(super) fn is_yes(yes: &bool) -> bool {
    *yes
}
