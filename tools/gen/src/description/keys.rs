//! Keys of a stream, for help and reference. A test compares them with the fields that are read.

use super::{Description, Outer};
use serde::Serialize;

/// A key of a stream or of its tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Name in a file.
    pub name: &'static str,
    /// Type, and permitted values.
    pub values: &'static str,
    /// Value if the key is absent.
    pub default: String,
    /// Meaning.
    pub about: &'static str,
}

/// Name, values and meaning of a key, and a text for its default if that is not a value.
type Row = (&'static str, &'static str, &'static str, &'static str);

const STREAM: [Row; 17] = [
    ("name", "string", "its number", "Name of the stream in results."),
    (
        "rate",
        "`\"10kpps\"`, `\"2.5Gbit/s\"`, `\"2.5Gbit/s-wire\"`, `\"20% of 10GbE\"` or `\"max\"`",
        "its share of `--rate`",
        "Rate in packets, in bits of frames, or in bits on the wire of a link.",
    ),
    (
        "size",
        "60 to 9212, a list, `\"imix\"` or `{ mix = [[64, 7], [570, 4]] }`",
        "",
        "Bytes of a frame without its checksum.",
    ),
    ("source_mac", "MAC address", "", "MAC address of the sender."),
    ("destination_mac", "MAC address", "", "MAC address of the receiver."),
    (
        "vlan",
        "list of at most 4 integers",
        "none",
        "VLAN tags, outermost first; all but the last are service tags.",
    ),
    ("mpls", "list of at most 4 integers", "none", "MPLS labels, outermost first."),
    ("source", "IPv4 or IPv6 address", "", "IP address of the sender."),
    ("destination", "IPv4 or IPv6 address", "", "IP address of the receiver, of the same version."),
    ("transport", "`\"udp\"`, `\"tcp\"` or `\"none\"`", "", "Protocol above IP."),
    ("source_port", "integer", "", "Port of the sender, for UDP and TCP."),
    ("destination_port", "integer", "", "Port of the receiver, for UDP and TCP."),
    ("checksums", "boolean", "", "Whether checksums of UDP and TCP are computed."),
    (
        "flows",
        "1 to 16777216",
        "",
        "Number of flows. They differ in the source port, and above 32768 flows also in the source address.",
    ),
    (
        "vxlan",
        "table",
        "none",
        "Headers of a VXLAN tunnel around the frame; tags and labels are outside of the tunnel.",
    ),
    ("vary", "table of patterns", "none", "Fields that vary from frame to frame, each with its pattern."),
    (
        "pcap",
        "string",
        "none",
        "Capture file with the frames to send, with a tag at the end of their payloads. Of the other keys, only `name` \
         and `rate` can be set with it.",
    ),
];

const TUNNEL: [Row; 6] = [
    ("vni", "integer", "", "VXLAN network identifier."),
    ("source_mac", "MAC address", "", "MAC address of the sending end of the tunnel."),
    ("destination_mac", "MAC address", "", "MAC address of the receiving end."),
    ("source", "IPv4 or IPv6 address", "", "IP address of the sending end."),
    ("destination", "IPv4 or IPv6 address", "", "IP address of the receiving end."),
    ("source_port", "integer", "", "UDP port of the sending end."),
];

/// Shapes of a pattern, and their meaning.
pub const PATTERNS: [(&str, &str); 3] = [
    (
        "{ count = 4, from = 1, step = 2 }",
        "Four values, from 1 (default: the value of the field) in steps of 2 (default: 1).",
    ),
    ("{ random = 1, below = 64 }", "Random values below 64 (default: all values) from seed 1."),
    (
        "{ list = [0, 46] }",
        "These values in turn. `from` and `list` of address fields accept strings, such as `[\"198.18.0.1\"]`.",
    ),
];

/// Fields of `vary`, and the frames that have them.
pub const FIELDS: [(&str, &str); 6] = [
    ("`source_mac`, `destination_mac`", "All."),
    (
        "`vlan`, `vlan_2`, `vlan_3`, `vlan_4`, `mpls`, `mpls_2`, `mpls_3`, `mpls_4`",
        "Those with this many tags or labels.",
    ),
    ("`source`, `destination`, `dscp`, `ttl`", "IP; of an IPv6 address, the lower 64 bits vary."),
    ("`identification`, `flow_label`", "IPv4, and IPv6."),
    ("`source_port`, `destination_port`, `tcp_sequence`", "UDP and TCP, and TCP alone."),
    (
        "`vni`, `outer_source_mac`, `outer_destination_mac`, `outer_source`, `outer_destination`, `outer_dscp`, \
         `outer_ttl`, `outer_identification`, `outer_flow_label`, `outer_source_port`",
        "Those in a VXLAN tunnel.",
    ),
];

impl Description {
    /// Keys of a stream, in the order of the reference.
    pub fn keys() -> Vec<Key> {
        keys(&STREAM, &Self::default())
    }
}

impl Outer {
    /// Keys of the table `vxlan`.
    pub fn keys() -> Vec<Key> {
        keys(&TUNNEL, &Self::default())
    }
}

/// The keys with the defaults of `of`. JSON writes strings, numbers and booleans as a file does.
fn keys(rows: &[Row], of: &impl Serialize) -> Vec<Key> {
    let defaults = serde_json::to_value(of).unwrap_or_default();
    let default = |name: &str| defaults.get(name).map_or_else(String::new, |value| format!("`{value}`"));
    let key = |&(name, values, default_text, about): &Row| {
        let default = if default_text.is_empty() { default(name) } else { default_text.to_owned() };
        Key { name, values, default, about }
    };
    rows.iter().map(key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn names(keys: &[Key]) -> BTreeSet<String> {
        keys.iter().map(|key| key.name.to_owned()).collect()
    }

    fn fields(of: &impl Serialize) -> BTreeSet<String> {
        serde_json::to_value(of).unwrap().as_object().unwrap().keys().cloned().collect()
    }

    #[test]
    fn keys_are_the_fields_that_are_read() {
        let (rate, pcap, vxlan) = (Some(String::new()), Some("a".into()), Some(Outer::default()));
        let whole = Description { rate, pcap, vxlan, ..Description::default() };
        assert_eq!(names(&Description::keys()), fields(&whole));
        assert_eq!(names(&Outer::keys()), fields(&Outer::default()));
    }

    #[test]
    fn defaults_are_those_of_the_program() {
        let default =
            |name: &str| Description::keys().into_iter().find(|key| key.name == name).unwrap().default;
        let shown = ["size", "source_mac", "destination", "transport", "flows", "checksums"].map(default);
        assert_eq!(
            shown,
            ["`64`", "`\"02:00:00:00:00:01\"`", "`\"198.19.0.1\"`", "`\"udp\"`", "`1`", "`true`"]
        );
    }
}
