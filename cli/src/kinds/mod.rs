//! The kinds of port: one file for each, all of the same inner shape, [`Kind`].
//!
//! The rooms around ask a port's kind and never which one it is: `config` for its keys, its errors and its claims,
//! the tables for its place, `snippet` for its other end, the switch for the port that runs. Nothing here knows
//! another kind's keys, and no packet passes through.
//!
//! A new kind is a file here that implements [`Kind`], its `mod` line and its line in `kinds!`.

mod af_packet;
mod af_xdp;
mod claim;
mod interface;
mod loaded;
mod memif;
mod null;
mod patch;
mod pcap;
mod socket;
mod stream;
mod tap;
#[cfg(test)]
mod tests;
pub(crate) mod vhost_user;
pub(crate) mod virtio_user;

pub(crate) use claim::Claim;
pub(crate) use interface::InterfaceSettings;
pub(crate) use loaded::{Loaded, Loading, load};
pub(crate) use socket::{Mode, SocketSettings};

use crate::args::GuestKind;
use crate::config::{Fields, Validation, one_of};
use crate::data_plane::DataPlaneError;
use crate::topology::PortSettings;
use ::port::PortControl;
use console::Diagnostic;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// What a kind of port has of its own. A value is what one port of this kind is asked for; its `Display` is what
/// stands behind the kind's name where people read about the port, such as `server at /tmp/a.sock`.
pub(crate) trait Kind: fmt::Display + Sized {
    /// The word behind `kind =`: the name of the variant in [`PortKind`], in lower case with dashes.
    const NAME: &'static str;
    /// What such a port is, in a line for `--help`.
    const ABOUT: &'static str;
    /// Every key that [`Kind::read`] may ask for. Written on a port of another kind they are an error.
    const KEYS: &'static [&'static str];
    /// Lines of `[[port]]` sections of this kind that are in order, without name and kind.
    #[cfg(test)]
    const EXAMPLES: &'static [&'static str];

    /// Reads the keys of its own: types, ranges and defaults.
    fn read(fields: &mut Fields<'_, '_>) -> Self;

    /// Judges what was read against this machine and the other ports.
    fn validate(&self, validation: &mut Validation<'_>);

    /// What of this machine the port takes for itself, which no other port may take as well.
    fn claims(&self) -> Vec<Claim<'_>> {
        Vec::new()
    }

    /// Where the port leads to, in a few characters: a socket's path, an interface's name.
    fn place(&self) -> String;

    /// What to paste to make `other` the other end.
    fn snippet(&self, port: &PortSettings, _other: GuestKind) -> Result<String, Diagnostic> {
        let reason = format!("a port of kind \"{}\" needs no other end that could be pasted", Self::NAME);
        let remedy = "ask for a port that guests or switches plug into, such as one of kind \"vhost-user\"";
        Err(Diagnostic::bad(format!("port \"{}\"", port.name), reason, remedy))
    }

    /// Why such a port cannot both send and receive where `ports` are all that there are, and what to do; nothing where it
    /// can, or where that is seen only when it runs.
    fn one_way(&self, _ports: &[PortSettings]) -> Option<(&'static str, &'static str)> {
        None
    }

    /// The file that the port plays, with the key that names it. It is read before the port is made.
    fn plays(&self) -> Option<(&'static str, &Path)> {
        None
    }

    /// Makes the port that runs, of what was read of [`Kind::plays`].
    fn plug(&self, port: &PortSettings, loaded: Loaded) -> Result<Box<dyn PortControl>, DataPlaneError>;
}

/// What a flag of a port is that says nothing of it, for serde.
fn yes() -> bool {
    true
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde calls")]
fn is_yes(yes: &bool) -> bool {
    *yes
}

/// One kind, as the reader of a section sees it.
struct Form {
    name: &'static str,
    about: &'static str,
    keys: &'static [&'static str],
    #[cfg(test)]
    examples: &'static [&'static str],
    read: fn(&mut Fields<'_, '_>) -> PortKind,
}

/// Makes the enum of all kinds and its dispatch. The first kind is what a port is that says nothing of its kind.
macro_rules! kinds {
    ($($(#[$attribute:meta])* $variant:ident($settings:ty)),+ $(,)?) => {
        /// The kinds of port that exist, each with what belongs to it.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(tag = "kind", rename_all = "kebab-case")]
        pub(crate) enum PortKind {
            $($(#[$attribute])* #[allow(missing_docs, reason = "its type says it")] $variant($settings)),+
        }

        const FORMS: &[Form] = &[$(Form {
            name: <$settings>::NAME,
            about: <$settings>::ABOUT,
            keys: <$settings>::KEYS,
            #[cfg(test)]
            examples: <$settings>::EXAMPLES,
            read: |fields| PortKind::$variant(<$settings>::read(fields)),
        }),+];

        impl PortKind {
            /// The word behind `kind =`.
            pub(crate) fn name(&self) -> &'static str {
                match self { $(Self::$variant(_) => <$settings>::NAME),+ }
            }

            /// See [`Kind::validate`].
            pub(crate) fn validate(&self, validation: &mut Validation<'_>) {
                match self { $(Self::$variant(own) => own.validate(validation)),+ }
            }

            /// See [`Kind::claims`].
            pub(crate) fn claims(&self) -> Vec<Claim<'_>> {
                match self { $(Self::$variant(own) => own.claims()),+ }
            }

            /// See [`Kind::place`].
            pub(crate) fn place(&self) -> String {
                match self { $(Self::$variant(own) => own.place()),+ }
            }

            /// See [`Kind::snippet`].
            pub(crate) fn snippet(&self, port: &PortSettings, other: GuestKind) -> Result<String, Diagnostic> {
                match self { $(Self::$variant(own) => own.snippet(port, other)),+ }
            }

            /// See [`Kind::one_way`].
            pub(crate) fn one_way(&self, ports: &[PortSettings]) -> Option<(&'static str, &'static str)> {
                match self { $(Self::$variant(own) => own.one_way(ports)),+ }
            }

            /// See [`Kind::plays`].
            pub(crate) fn plays(&self) -> Option<(&'static str, &Path)> {
                match self { $(Self::$variant(own) => own.plays()),+ }
            }

            /// See [`Kind::plug`].
            pub(crate) fn plug(
                &self,
                port: &PortSettings,
                loaded: Loaded,
            ) -> Result<Box<dyn PortControl>, DataPlaneError> {
                match self { $(Self::$variant(own) => own.plug(port, loaded)),+ }
            }

            /// What stands behind the kind's name; may be empty.
            fn details(&self) -> String {
                match self { $(Self::$variant(own) => own.to_string()),+ }
            }
        }
    };
}

kinds! {
    VhostUser(vhost_user::VhostUser),
    VirtioUser(virtio_user::VirtioUser),
    Null(null::Null),
    Pcap(pcap::Pcap),
    Stream(stream::Stream),
    Tap(tap::Tap),
    Memif(memif::Memif),
    Patch(patch::Patch),
    #[serde(rename = "af_xdp")]
    AfXdp(af_xdp::AfXdp),
    #[serde(rename = "af_packet")]
    AfPacket(af_packet::AfPacket),
}

/// Stands in for a kind that could not be read.
impl Default for PortKind {
    fn default() -> Self {
        Self::VhostUser(vhost_user::VhostUser::default())
    }
}

impl fmt::Display for PortKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        let details = self.details();
        if details.is_empty() { Ok(()) } else { write!(f, " {details}") }
    }
}

/// Every kind: its name, and what it is in a line.
pub(crate) fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    FORMS.iter().map(|form| (form.name, form.about))
}

/// `kind = "virtio-user"` and what belongs to it.
pub(crate) fn read(fields: &mut Fields<'_, '_>) -> PortKind {
    let words: Vec<(&str, &Form)> = FORMS.iter().map(|form| (form.name, form)).collect();
    let chosen = fields.choice("kind", &words);
    if fields.is_spoiled("kind") {
        // The keys of a port of unknown kind are unknown.
        FORMS.iter().flat_map(|form| form.keys).for_each(|key| fields.allow(key));
        return PortKind::default();
    }
    let form = chosen.unwrap_or(&FORMS[0]);
    let kind = (form.read)(fields);
    refuse_others(form, fields);
    kind
}

/// Names the kinds to which a key belongs that this one does not have.
fn refuse_others(own: &Form, fields: &mut Fields<'_, '_>) {
    for key in FORMS.iter().flat_map(|form| form.keys).filter(|key| !own.keys.contains(key)) {
        let owners = FORMS.iter().filter(|form| form.keys.contains(key));
        let owners: Vec<&str> = owners.map(|form| form.name).collect();
        let reason = format!("`{key}` is nothing that a port of kind \"{}\" has", own.name);
        fields.foreign(key, reason, &format!("remove it, or write kind = {}", one_of(&owners)));
    }
}
