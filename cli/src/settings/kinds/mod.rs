//! Kinds of ports: one file per kind, each with an implementation of [`kind::Kind`].
//!
//! Other modules call the methods of a port's kind and do not match on it: `config` reads and validates its keys and
//! claims, tables print its place, and the data plane opens it. A kind does not depend on the keys of another kind.
//! Nothing here processes packets.
//!
//! To add a kind, add a file that implements `Kind`, its `mod` line and its line in `kinds!`.

pub(crate) mod af_packet;
pub(crate) mod af_xdp;
pub(crate) mod claim;
pub(crate) mod grant;
pub(crate) mod granted;
pub(crate) mod interface;
pub(crate) mod kind;
pub(crate) mod memif;
pub(crate) mod null;
pub(crate) mod patch;
pub(crate) mod pcap;
pub(crate) mod socket;
pub(crate) mod stream;
pub(crate) mod tap;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod tunnel;
pub(crate) mod vhost_user;
pub(crate) mod virtio_user;

use super::access::Access;
use super::reader::fields::Fields;
use super::reader::key::Key;
use super::reader::validation::{PortCommon, Validation};
use ::port::PortControl;
use claim::Claim;
use console::words::one_of;
use kind::{Kind, Loaded, OpenError};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// Constants of one kind, for the reader of a section.
struct Form {
    name: &'static str,
    about: &'static str,
    keys: &'static [Key],
    #[cfg(test)]
    examples: &'static [&'static str],
    read: fn(&mut Fields<'_, '_>) -> PortKind,
}

/// Defines the enum of all kinds and its dispatch. The first kind is the default. The kind after the semicolon is not
/// read from a section.
macro_rules! kinds {
    ($($(#[$attribute:meta])* $variant:ident($settings:ty)),+ $(,)?; $made:ident($made_settings:ty)) => {
        /// Kind of a port, with its settings.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(tag = "kind", rename_all = "kebab-case")]
        pub(crate) enum PortKind {
            $($(#[$attribute])* #[allow(missing_docs, reason = "its type says it")] $variant($settings),)+
            #[allow(missing_docs, reason = "its type says it")] $made($made_settings),
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
            /// Value of `kind` in a file.
            pub(crate) fn name(&self) -> &'static str {
                match self { $(Self::$variant(_) => <$settings>::NAME,)+ Self::$made(_) => <$made_settings>::NAME }
            }

            /// See [`Kind::validate`].
            pub(crate) fn validate(&self, validation: &mut Validation<'_>) {
                match self { $(Self::$variant(own) => own.validate(validation),)+ Self::$made(own) => own.validate(validation) }
            }

            /// See [`Kind::claims`].
            pub(crate) fn claims(&self) -> Vec<Claim<'_>> {
                match self { $(Self::$variant(own) => own.claims(),)+ Self::$made(own) => own.claims() }
            }

            /// See [`Kind::access_mut`].
            pub(crate) fn access_mut(&mut self) -> Option<&mut Access> {
                match self { $(Self::$variant(own) => own.access_mut(),)+ Self::$made(own) => own.access_mut() }
            }

            /// See [`Kind::place`].
            pub(crate) fn place(&self) -> String {
                match self { $(Self::$variant(own) => own.place(),)+ Self::$made(own) => own.place() }
            }

            /// See [`Kind::socket`].
            pub(crate) fn socket(&self) -> Option<(&Path, bool)> {
                match self { $(Self::$variant(own) => own.socket(),)+ Self::$made(own) => own.socket() }
            }

            /// See [`Kind::one_way`].
            pub(crate) fn one_way(&self, names: &[&str]) -> Option<(&'static str, &'static str)> {
                match self { $(Self::$variant(own) => own.one_way(names),)+ Self::$made(own) => own.one_way(names) }
            }

            /// See [`Kind::plays`].
            pub(crate) fn plays(&self) -> Option<(&'static str, &Path)> {
                match self { $(Self::$variant(own) => own.plays(),)+ Self::$made(own) => own.plays() }
            }

            /// See [`Kind::files`].
            pub(crate) fn files(&self) -> Vec<(&'static str, &Path)> {
                match self { $(Self::$variant(own) => own.files(),)+ Self::$made(own) => own.files() }
            }

            /// See [`Kind::namespaces`].
            pub(crate) fn namespaces(&self) -> Vec<(&'static str, &str)> {
                match self { $(Self::$variant(own) => own.namespaces(),)+ Self::$made(own) => own.namespaces() }
            }

            /// See [`Kind::has_fast_path`].
            pub(crate) fn has_fast_path(&self) -> bool {
                match self { $(Self::$variant(own) => own.has_fast_path(),)+ Self::$made(own) => own.has_fast_path() }
            }

            /// See [`Kind::successor`].
            pub(crate) fn successor(&self, port: PortCommon<'_>) -> Option<Result<Box<dyn PortControl>, OpenError>> {
                match self { $(Self::$variant(own) => own.successor(port),)+ Self::$made(own) => own.successor(port) }
            }

            /// See [`Kind::open`].
            pub(crate) fn open(
                &self,
                port: PortCommon<'_>,
                loaded: Loaded,
            ) -> Result<Box<dyn PortControl>, OpenError> {
                match self { $(Self::$variant(own) => own.open(port, loaded),)+ Self::$made(own) => own.open(port, loaded) }
            }

            /// Text printed after the kind's name; may be empty.
            fn details(&self) -> String {
                match self { $(Self::$variant(own) => own.to_string(),)+ Self::$made(own) => own.to_string() }
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
    Tunnel(tunnel::Tunnel),
    Grant(grant::Grant);
    Granted(granted::Granted)
}

/// Replaces a kind that could not be read.
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

/// Name and description of every kind.
pub(crate) fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    FORMS.iter().map(|form| (form.name, form.about))
}

/// Name, description and keys of every kind.
pub(crate) fn keys() -> impl Iterator<Item = (&'static str, &'static str, &'static [Key])> {
    FORMS.iter().map(|form| (form.name, form.about, form.keys))
}

/// Reads `kind` and the keys of that kind.
pub(crate) fn read(fields: &mut Fields<'_, '_>) -> PortKind {
    let words: Vec<(&str, &Form)> = FORMS.iter().map(|form| (form.name, form)).collect();
    let chosen = fields.choice("kind", &words);
    if fields.is_spoiled("kind") {
        // Without a valid kind, the keys of all kinds are accepted.
        FORMS.iter().flat_map(|form| form.keys).for_each(|key| fields.allow(key.name));
        return PortKind::default();
    }
    let form = chosen.unwrap_or(&FORMS[0]);
    let kind = (form.read)(fields);
    refuse_others(form, fields);
    kind
}

/// Rejects keys of other kinds. The error names the kinds that have them.
fn refuse_others(own: &Form, fields: &mut Fields<'_, '_>) {
    let has = |form: &Form, key: &str| form.keys.iter().any(|own| own.name == key);
    for Key { name: key, .. } in FORMS.iter().flat_map(|form| form.keys).filter(|key| !has(own, key.name)) {
        let owners = FORMS.iter().filter(|form| has(form, key));
        let owners: Vec<&str> = owners.map(|form| form.name).collect();
        let reason = format!("`{key}` is not a key of a port of kind \"{}\"", own.name);
        fields.foreign(key, reason, &format!("remove it, or write kind = {}", one_of(&owners)));
    }
}
