//! `kind = "patch"`: a port connected to another port of this switch, which is also a patch port.

use super::kind::{Kind, Loaded, OpenError};
use crate::settings::reader::fields::Fields;
use crate::settings::reader::key::{Key, required};
use crate::settings::reader::validation::PortCommon;
use crate::settings::reader::validation::Validation;
use ::port::PortControl;
use ::port::memif::Options;
use ::port::patch::{self as port_kind, Exchange};
use ::port::virtio_user::MAX_MEMORY;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::LazyLock;

/// Connects the patch ports of this process, which runs one switch.
static EXCHANGE: LazyLock<Exchange> = LazyLock::new(Exchange::default);

/// Settings of a patch port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Patch {
    /// Name of the peer port.
    pub(crate) peer: String,
}

impl Kind for Patch {
    const NAME: &'static str = "patch";
    const ABOUT: &'static str = "Patch cable to another port of this switch";
    const KEYS: &'static [Key] = &[required("peer", "Name of the peer port, which is also a patch port.")];
    #[cfg(test)]
    const EXAMPLES: &'static [&'static str] = &["peer = \"other\""];

    fn read(fields: &mut Fields<'_, '_>) -> Self {
        Self { peer: fields.required("peer", "other").to_owned() }
    }

    /// Conflicts between two ends are validated in `config` and reported for the later port. A port may be added
    /// before its peer, because ports are added to a running switch one at a time.
    fn validate(&self, validation: &mut Validation<'_>) {
        validation.no_mtu();
        let own = validation.port();
        if Self::options(own).memory() > MAX_MEMORY {
            validation.wrong(
                "",
                "its rings and buffers need more memory than a port may share",
                "lower `queue_pairs`",
            );
        }
        if self.peer == own.name {
            validation.wrong("peer", "`peer` is the port itself", "name the port at the other end");
        }
    }

    fn place(&self) -> String {
        self.peer.clone()
    }

    fn one_way(&self, names: &[&str]) -> Option<(&'static str, &'static str)> {
        let alone = !names.contains(&&*self.peer);
        let remedy = "add the port that `peer` names, or name a port of another kind";
        alone.then_some(("the `peer` of this patch port is not among these ports", remedy))
    }

    fn open(&self, port: PortCommon<'_>, _: Loaded) -> Result<Box<dyn PortControl>, OpenError> {
        let made = port_kind::Patch::new(port.name, &self.peer, Self::options(port), &EXCHANGE);
        Ok(Box::new(made.map_err(|error| OpenError::refused(port.name, &error))?))
    }
}

impl Patch {
    /// Converts the settings to options of the port crate.
    fn options(port: PortCommon<'_>) -> Options {
        Options { queue_pairs: port.queue_pairs, ..Options::default() }
    }
}

impl fmt::Display for Patch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "with {}", self.peer)
    }
}
