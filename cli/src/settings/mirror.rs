//! `[[mirror]]`: copies of the packets of some ports. `config` validates it against bridges and ports.

use super::reader::fields::Fields;
use super::reader::node::{Node, Value};
use super::reader::notes::{Findings, Section, shortened};
use super::reader::shape::Shape;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::RangeInclusive;
use utoipa::ToSchema;

/// IEEE 802.1Q section 9.6: 0 and 4095 are reserved.
const VLAN: RangeInclusive<i128> = 1..=4094;
/// From an Ethernet header on.
const SNAP_LENGTH: RangeInclusive<i128> = 14..=65_535;

/// `[[mirror]]`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
#[schema(as = Mirror)]
pub(crate) struct MirrorSettings {
    /// Name, unique among mirrors.
    pub(crate) name: String,
    /// Bridge of all ports; the only bridge, if there is one.
    pub(crate) bridge: String,
    /// Ports whose received packets are copied.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) source_ports: Vec<String>,
    /// Ports whose sent packets are copied.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) destination_ports: Vec<String>,
    /// Whether received and sent packets of all ports are copied.
    pub(crate) all: bool,
    /// VLANs of the packets that are copied; without any, all are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) vlans: Vec<u16>,
    /// Port to which copies are sent. Other packets are not sent to it, and received ones are dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output_port: Option<String>,
    /// VLAN to whose ports copies are sent, in place of `output_port`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output_vlan: Option<u16>,
    /// Maximum bytes of a copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) snap_length: Option<u16>,
}

impl MirrorSettings {
    /// Reads a section.
    pub(crate) fn read(node: &Node, index: usize, notes: &mut Findings) -> Self {
        let section = Section::Mirror(index);
        notes.call(section, format!("mirror {index}"));
        let mut fields = Fields::open(node, section, notes);
        let name = fields.required("name", "probe").to_owned();
        if !name.is_empty() {
            fields.notes.call(section, format!("mirror \"{}\"", shortened(&name)));
        }
        let mirror = Self {
            name,
            bridge: fields.text("bridge").unwrap_or_default().to_owned(),
            source_ports: fields.texts("source_ports", "names of ports"),
            destination_ports: fields.texts("destination_ports", "names of ports"),
            all: fields.flag("all").unwrap_or_default(),
            vlans: read_vlans(&mut fields),
            output_port: fields.text("output_port").map(str::to_owned),
            output_vlan: fields.number("output_vlan", VLAN, "as a VLAN"),
            snap_length: fields.number("snap_length", SNAP_LENGTH, "bytes"),
        };
        fields.finish();
        mirror
    }

    /// The ports that it names, with their keys.
    pub(crate) fn ports(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let sources = self.source_ports.iter().map(|name| ("source_ports", name.as_str()));
        let destinations = self.destination_ports.iter().map(|name| ("destination_ports", name.as_str()));
        sources.chain(destinations).chain(self.output_port.iter().map(|name| ("output_port", name.as_str())))
    }
}

fn read_vlans(fields: &mut Fields<'_, '_>) -> Vec<u16> {
    fields.accepts("vlans", || Shape::list(Shape::Integer(VLAN)));
    let Some(node) = fields.node("vlans") else { return Vec::new() };
    let read = |node: &Node| match node.value {
        Value::Integer(vlan) if VLAN.contains(&vlan) => u16::try_from(vlan).ok(),
        _ => None,
    };
    let vlans = match &node.value {
        Value::List(list) => list.iter().map(read).collect(),
        _ => None,
    };
    vlans.unwrap_or_else(|| {
        let remedy = "write a list such as vlans = [10, 20]".to_owned();
        fields.wrong::<()>("vlans", "`vlans` is not a list of VLANs from 1 to 4094", remedy);
        Vec::new()
    })
}

impl fmt::Display for MirrorSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mirror {}:", self.name)?;
        if self.all {
            f.write_str(" packets of all ports")?;
        } else {
            for (what, ports) in [("received", &self.source_ports), ("sent", &self.destination_ports)] {
                if !ports.is_empty() {
                    write!(f, " {what} by {},", ports.join(" "))?;
                }
            }
        }
        if !self.vlans.is_empty() {
            let vlans: Vec<_> = self.vlans.iter().map(ToString::to_string).collect();
            write!(f, " of VLANs {}", vlans.join(" "))?;
        }
        match (&self.output_port, self.output_vlan) {
            (Some(port), _) => write!(f, " to port {port}")?,
            (None, Some(vlan)) => write!(f, " to VLAN {vlan}")?,
            (None, None) => {}
        }
        self.snap_length.map_or(Ok(()), |length| write!(f, ", at most {length} bytes"))
    }
}

#[cfg(test)]
mod tests {
    use crate::host::Host;
    use crate::settings::config;
    use crate::settings::topology::Topology;

    const PORTS: &str =
        "[[port]]\nname = \"red\"\nkind = \"null\"\n[[port]]\nname = \"probe\"\nkind = \"null\"\n";

    fn read(text: &str) -> Result<Topology, Vec<console::Diagnostic>> {
        config::parse(&format!("{PORTS}[[mirror]]\n{text}"), &Host::of(&[0], &[0]), None)
    }

    #[test]
    fn a_mirror_is_read_with_all_keys() {
        let text = "name = \"m\"\nsource_ports = [\"red\"]\ndestination_ports = [\"red\"]\nvlans = [1, 4094]\n\
            output_port = \"probe\"\nsnap_length = 14\n";
        let topology = read(text).unwrap_or_else(|e| panic!("{e:?}"));
        let mirror = &topology.mirrors[0];
        assert_eq!((mirror.bridge.as_str(), &mirror.vlans[..]), ("main", &[1, 4094][..]));
        let expected =
            "mirror m: received by red, sent by red, of VLANs 1 4094 to port probe, at most 14 bytes";
        assert_eq!(mirror.to_string(), expected);
        assert!(topology.to_string().contains(expected));
        let text = "name = \"m\"\nall = true\noutput_vlan = 99\n";
        let topology = read(text).unwrap_or_else(|e| panic!("{e:?}"));
        assert_eq!(topology.mirrors[0].to_string(), "mirror m: packets of all ports to VLAN 99");
    }

    #[test]
    fn each_wrong_value_is_an_error() {
        for (text, wanted) in [
            ("all = true\noutput_vlan = 9\n", "`name` is missing"),
            ("name = \"m\"\noutput_vlan = 9\n", "selects no packets"),
            ("name = \"m\"\nall = true\n", "no output"),
            ("name = \"m\"\nall = true\noutput_vlan = 9\noutput_port = \"probe\"\n", "two outputs"),
            ("name = \"m\"\nall = true\noutput_vlan = 4095\n", "invalid value 4095"),
            ("name = \"m\"\nall = true\noutput_vlan = 9\nsnap_length = 13\n", "invalid value 13"),
            ("name = \"m\"\nall = true\noutput_vlan = 9\nvlans = [0]\n", "not a list of VLANs"),
            ("name = \"m\"\nall = true\noutput_port = \"blue\"\n", "there is no port \"blue\""),
            ("name = \"m\"\nsource_ports = [\"probe\"]\noutput_port = \"probe\"\n", "reserved for copies"),
            ("name = \"m\"\nbridge = \"x\"\nall = true\noutput_vlan = 9\n", "there is no bridge \"x\""),
            ("name = \"m\"\nall = true\noutput_vlan = 9\nsource_port = [\"red\"]\n", "source_port"),
        ] {
            let errors = read(text).unwrap_err();
            assert!(errors.iter().any(|error| error.reason.contains(wanted)), "{text}: {errors:?}");
        }
        let two = "name = \"m\"\nall = true\noutput_vlan = 9\n[[mirror]]\nname = \"m\"\nall = true\noutput_vlan = 8\n";
        let errors = read(two).unwrap_err();
        assert!(errors.iter().any(|error| error.reason.contains("already")), "{errors:?}");
    }
}
