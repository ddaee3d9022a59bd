//! Existing kernel interface: the keys `interface` and `netns`, shared by all kinds that open one.

use super::claim::Claim;
use crate::settings::reader::fields::Fields;
use crate::settings::reader::key::{Key, optional, required};
use crate::settings::reader::validation::Validation;
use ::port::interface::Place;
use ::port::netns::Namespace;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Name of the interface.
pub(super) const INTERFACE: Key = required("interface", "Name of the kernel interface.");
/// Its network namespace.
pub(super) const NETNS: Key = optional(
    "netns",
    "the namespace of the switch",
    "Network namespace of the interface: a name under `/run/netns`, or an absolute path.",
);

/// Name and network namespace of an interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InterfaceSettings {
    pub(crate) interface: String,
    /// A name under `/run/netns` or an absolute path; `None`: the namespace of the switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) netns: Option<String>,
}

impl InterfaceSettings {
    /// Reads both keys.
    pub(crate) fn read(fields: &mut Fields<'_, '_>) -> Self {
        Self {
            interface: fields.required("interface", "eth0").to_owned(),
            netns: fields.text("netns").map(str::to_owned),
        }
    }

    /// Converts the settings to a place of the port crate.
    pub(crate) fn there(&self) -> Place {
        Place { interface: self.interface.clone(), netns: self.netns.clone().map(Namespace::new) }
    }

    /// Rejects invalid names. Whether namespace and interface exist is not validated: the port checks it repeatedly
    /// at run time.
    pub(crate) fn validate(&self, validation: &mut Validation<'_>) {
        let place = self.there();
        if place.check().is_err() && !validation.is_spoiled("interface") {
            let reason = format!("`interface` is \"{}\", which is not a valid name", self.interface);
            validation.wrong(
                "interface",
                reason,
                "write a name of 1 to 15 bytes without slash, colon and space",
            );
        }
    }

    /// The interface, which only one port may use.
    pub(crate) fn claims(&self) -> Vec<Claim<'_>> {
        vec![Claim::named("interface", "interface", self.place())]
    }

    /// The namespace of the interface.
    pub(crate) fn namespaces(&self) -> Vec<(&'static str, &str)> {
        self.netns.iter().map(|name| ("netns", name.as_str())).collect()
    }

    /// Display name for tables.
    pub(crate) fn place(&self) -> String {
        let short = |netns: &String| netns.strip_prefix("/run/netns/").unwrap_or(netns).to_owned();
        let name = &self.interface;
        self.netns.as_ref().map_or_else(|| name.clone(), |netns| format!("{}/{name}", short(netns)))
    }
}

impl fmt::Display for InterfaceSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.interface)?;
        match &self.netns {
            Some(netns) => write!(f, " in network namespace {netns}"),
            None => Ok(()),
        }
    }
}
