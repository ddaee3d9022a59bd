//! `kind = "patch"`: one of two ports of this switch that are each other's peer, as two ends of a cable are.

use super::{Kind, Loaded, PortKind};
use crate::config::{Fields, Validation};
use crate::data_plane::DataPlaneError;
use crate::topology::PortSettings;
use ::port::PortControl;
use ::port::memif::Options;
use ::port::patch::{self as port_kind, Exchange};
use ::port::virtio_user::MAX_MEMORY;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::LazyLock;

/// Where the pairs of this process meet: it runs one switch.
static EXCHANGE: LazyLock<Exchange> = LazyLock::new(Exchange::default);

/// What an end of a pair is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Patch {
    /// The port at the other end.
    pub(crate) peer: String,
}

impl Kind for Patch {
    const NAME: &'static str = "patch";
    const ABOUT: &'static str = "It is joined to another port of this switch, as two ends of a cable are";
    const KEYS: &'static [&'static str] = &["peer"];
    #[cfg(test)]
    const EXAMPLES: &'static [&'static str] = &["peer = \"other\""];

    fn read(fields: &mut Fields<'_, '_>) -> Self {
        Self { peer: fields.required("peer", "other").to_owned() }
    }

    /// What two ends say against each other is told at the later one. An end may come before its peer does, as it must
    /// where ports are added one by one.
    fn validate(&self, validation: &mut Validation<'_>) {
        validation.no_mtu();
        let own = validation.port();
        if Self::options(own).memory() > MAX_MEMORY {
            validation.wrong(
                "",
                "its rings and buffers would take more than a port may share",
                "lower `queue_pairs`",
            );
        }
        if self.peer == own.name {
            validation.wrong("peer", "`peer` is the port itself", "name the port at the other end");
        }
        if let Some((reason, remedy)) = validation.earlier().iter().find_map(|other| self.against(own, other))
        {
            validation.wrong("peer", reason, remedy);
        }
    }

    fn place(&self) -> String {
        self.peer.clone()
    }

    fn one_way(&self, ports: &[PortSettings]) -> Option<(&'static str, &'static str)> {
        let alone = !ports.iter().any(|port| port.name == self.peer);
        let remedy = "add the port that `peer` names, or name a port of another kind";
        alone.then_some(("the `peer` of this patch is none of these ports, so it leads nowhere", remedy))
    }

    fn plug(&self, port: &PortSettings, _: Loaded) -> Result<Box<dyn PortControl>, DataPlaneError> {
        let made = port_kind::Patch::new(&port.name, &self.peer, Self::options(port), &EXCHANGE);
        Ok(Box::new(made.map_err(DataPlaneError::said)?))
    }
}

impl Patch {
    /// The settings in the words of the room that makes the port.
    fn options(port: &PortSettings) -> Options {
        Options { queue_pairs: port.queue_pairs, ..Options::default() }
    }

    /// What is wrong between the pair's end `own` and the port `other` that stands before it.
    fn against(&self, own: &PortSettings, other: &PortSettings) -> Option<(String, String)> {
        let (there, here) = (&other.name, &own.name);
        let names_us = matches!(&other.kind, PortKind::Patch(pair) if pair.peer == *here);
        match (self.peer == *there, names_us) {
            (false, true) => Some((
                format!("port \"{there}\" is paired with this one, and this one with \"{}\"", self.peer),
                format!("write peer = \"{there}\", or change that one's"),
            )),
            (true, false) => Some((
                format!("port \"{there}\" is not paired with this one"),
                format!("write kind = \"patch\" and peer = \"{here}\" there"),
            )),
            (true, true) if other.bridge == own.bridge => Some((
                format!("both ends are on bridge \"{}\", where frames would go round for ever", own.bridge),
                "put one end on another bridge".into(),
            )),
            (false, false) | (true, true) => None,
        }
    }
}

impl fmt::Display for Patch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "with {}", self.peer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(name: &str, peer: &str, bridge: &str) -> PortSettings {
        let kind = PortKind::Patch(Patch { peer: peer.into() });
        PortSettings { bridge: bridge.into(), ..PortSettings::named(name, kind) }
    }

    /// What the second of two ends says of the first.
    fn said(first: &PortSettings, second: &PortSettings) -> Option<String> {
        let PortKind::Patch(pair) = &second.kind else { return None };
        pair.against(second, first).map(|(reason, remedy)| format!("{reason} ({remedy})"))
    }

    #[test]
    fn two_ends_name_each_other_and_lie_on_different_bridges() {
        assert_eq!(said(&end("a", "b", "one"), &end("b", "a", "two")), None);
        assert_eq!(said(&end("a", "b", "one"), &end("c", "d", "one")), None);
        let told = |first: &PortSettings, second: &PortSettings| said(first, second).unwrap();
        let loops = told(&end("a", "b", "one"), &end("b", "a", "one"));
        assert!(loops.starts_with("both ends are on bridge \"one\""), "{loops}");
        let spurned = told(&end("a", "c", "one"), &end("b", "a", "two"));
        assert_eq!(
            spurned,
            "port \"a\" is not paired with this one (write kind = \"patch\" and peer = \"b\" there)"
        );
        let elsewhere = told(&end("a", "b", "one"), &end("b", "c", "two"));
        assert!(elsewhere.contains("(write peer = \"a\", or change that one's)"), "{elsewhere}");
    }
}
