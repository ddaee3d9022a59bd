//! `[[flow]]` and `[[acl]]`: flows of OpenFlow bridges that need no controller. Reading, and their conversion to
//! changes of flow tables; `config` validates them against bridges and ports.

pub(crate) mod acl;

use super::openflow::{TunnelOption, added};
use super::reader::fields::Fields;
use super::reader::node::{Node, Value};
use super::reader::notes::{Findings, Section};
use super::reader::shape::Shape;
use acl::AclRule;
use flow::tables::Modification;
use flow::text::{PortNames, TextError, parse_flow};
use flow::{ChangeError, FlowCommand, FlowMod, PortNo};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// A flow, as an example.
const EXAMPLE: &str = "priority=10,in_port=red,ip,actions=output:blue";

/// The flows of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct FileFlows {
    pub(crate) flows: Vec<FlowSettings>,
    pub(crate) acl: Vec<AclRule>,
}

impl FileFlows {
    /// Whether the file has none.
    pub(crate) fn is_empty(&self) -> bool {
        self.flows.is_empty() && self.acl.is_empty()
    }

    /// Reads the sections.
    pub(crate) fn read(flows: &[Node], acl: &[Node], notes: &mut Findings) -> Self {
        let flows = flows.iter().enumerate().map(|(i, node)| FlowSettings::read(node, i, notes)).collect();
        let acl = acl.iter().enumerate().map(|(i, node)| AclRule::read(node, i, notes)).collect();
        Self { flows, acl }
    }

    /// The sections with their bridges.
    pub(crate) fn bridges(&self) -> impl Iterator<Item = (Section, &str)> {
        let flows = self.flows.iter().enumerate().map(|(i, flow)| (Section::Flow(i), flow.bridge.as_str()));
        let acl = self.acl.iter().enumerate().map(|(i, rule)| (Section::Acl(i), rule.bridge.as_str()));
        flows.chain(acl)
    }

    /// As [`FileFlows::bridges`], to be completed.
    pub(crate) fn bridges_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let acl = self.acl.iter_mut().map(|rule| &mut rule.bridge);
        self.flows.iter_mut().map(|flow| &mut flow.bridge).chain(acl)
    }
}

/// `[[flow]]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct FlowSettings {
    pub(crate) bridge: String,
    /// Flows, in the syntax of `ovs-ofctl add-flow`.
    pub(crate) flow: Vec<String>,
}

impl FlowSettings {
    fn read(node: &Node, index: usize, notes: &mut Findings) -> Self {
        let section = Section::Flow(index);
        notes.call(section, format!("flow {index}"));
        let mut fields = Fields::open(node, section, notes);
        let bridge = fields.text("bridge").unwrap_or_default().to_owned();
        let flow = read_texts(&mut fields, index);
        fields.finish();
        Self { bridge, flow }
    }
}

/// `flow`: a text, or a list of texts. Each has its own line in errors.
fn read_texts(fields: &mut Fields<'_, '_>, index: usize) -> Vec<String> {
    fields.accepts("flow", || Shape::Text);
    fields.accepts("flow", || Shape::list(Shape::Text));
    let nodes = match fields.node("flow") {
        Some(Node { value: Value::List(list), .. }) => list.as_slice(),
        Some(node) => std::slice::from_ref(node),
        None => {
            let remedy = fields.notes.example("flow", &format!("\"{EXAMPLE}\""));
            fields.wrong::<()>("flow", "`flow` is missing", remedy);
            &[]
        }
    };
    let mut texts = Vec::new();
    for (i, node) in nodes.iter().enumerate() {
        let section = Section::FlowText(index, i);
        fields.notes.call(section, format!("flow {index}"));
        fields.notes.written((section, ""), node.line);
        let Value::Text(text) = &node.value else {
            let remedy = format!("write flow = \"{EXAMPLE}\", or a list of such texts");
            let reason = format!("`flow` has {}, not a string", node.kind());
            fields.notes.wrong((section, ""), reason, remedy);
            // Keeps the positions of the others.
            texts.push(String::new());
            continue;
        };
        texts.push(text.clone());
    }
    texts
}

impl fmt::Display for FlowSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.flow.as_slice() {
            [only] => write!(f, "flow {only}"),
            flows => write!(f, "{} flows", flows.len()),
        }
    }
}

/// Ports of a bridge in the order of the file, which is that of their numbers, from 1. The local port has none of
/// these.
pub(crate) struct FilePorts<'a> {
    numbered: Vec<&'a str>,
    local: Option<&'a str>,
}

impl<'a> FilePorts<'a> {
    /// Ports of these names, of which `local` is the local one.
    pub(crate) fn new(names: impl Iterator<Item = &'a str>, local: Option<&'a str>) -> Self {
        Self { numbered: names.filter(|name| Some(*name) != local).collect(), local }
    }
}

impl PortNames for FilePorts<'_> {
    fn number(&self, name: &str) -> Option<PortNo> {
        if self.local == Some(name) {
            return Some(PortNo::LOCAL);
        }
        let place = self.numbered.iter().position(|other| *other == name)?;
        Some(PortNo(place as u32 + 1))
    }

    fn name(&self, number: PortNo) -> Option<&str> {
        self.numbered.get(number.0.checked_sub(1)? as usize).copied()
    }
}

/// A flow that a bridge cannot have, and where it is written.
pub(crate) struct BadFlow {
    pub(crate) section: Section,
    pub(crate) reason: String,
}

/// The changes that bind `options` to fields and add the flows of a bridge: those of its access list, whose connections
/// are in `zone`, then those of `[[flow]]`.
///
/// # Errors
/// With all flows that cannot be read, or with the first one that a new bridge refuses.
pub(crate) fn changes(
    file: &FileFlows,
    bridge: &str,
    ports: &FilePorts<'_>,
    (zone, options): (u16, &[TunnelOption]),
) -> Result<Vec<Modification>, Vec<BadFlow>> {
    let (mut changes, mut sections, mut bad) = (Vec::new(), Vec::new(), Vec::new());
    // They were validated when they were read.
    changes.extend((!options.is_empty()).then(|| Modification::Options(added(options))));
    let first = changes.len();
    for (section, text) in texts(file, bridge, ports, zone) {
        match parse_flow(&text, Some(FlowCommand::Add), ports) {
            Ok(flow) => {
                changes.push(Modification::Flow(Box::new(flow)));
                sections.push(section);
            }
            Err(error) => bad.push(BadFlow { section, reason: error.to_string() }),
        }
    }
    if !bad.is_empty() {
        return Err(bad);
    }
    let refused = |error: ChangeError| {
        let (i, reason) = match &error {
            ChangeError::Invalid(i, reason) => (*i, reason.to_string()),
            ChangeError::Bridge(_) => (0, error.to_string()),
        };
        i.checked_sub(first)
            .and_then(|i| sections.get(i))
            .map(|section| BadFlow { section: *section, reason })
            .into_iter()
            .collect()
    };
    flow::check_changes(&changes).map_err(refused).map(|()| changes)
}

/// The changes of a running bridge from the flows of one file to those of another one, each with the ports of the
/// bridge, and the zone of the connections of the access list.
///
/// # Errors
/// If a flow names a port that does not run.
pub(crate) fn differences<P: PortNames>(
    bridge: &str,
    old: (&FileFlows, &P, u16),
    new: (&FileFlows, &P, u16),
) -> Result<Vec<Modification>, TextError> {
    let flows = |(file, ports, zone): (&FileFlows, &P, u16)| -> Result<BTreeMap<String, FlowMod>, TextError> {
        let texts = texts(file, bridge, ports, zone).into_iter();
        texts
            .map(|(_, text)| parse_flow(&text, Some(FlowCommand::Add), ports).map(|flow| (text, flow)))
            .collect()
    };
    let (old, new) = (flows(old)?, flows(new)?);
    let removed = old.iter().filter(|(text, flow)| new.get(*text) != Some(flow)).map(|(_, flow)| {
        let delete = FlowMod::new(FlowCommand::DeleteStrict, &flow.matching, flow.priority);
        FlowMod { table: flow.table, ..delete }
    });
    let added = new.iter().filter(|(text, flow)| old.get(*text) != Some(flow)).map(|(_, flow)| flow.clone());
    Ok(removed.chain(added).map(|change| Modification::Flow(Box::new(change))).collect())
}

/// The texts of all flows of a bridge, with their places.
fn texts(file: &FileFlows, bridge: &str, ports: &dyn PortNames, zone: u16) -> Vec<(Section, String)> {
    let FileFlows { flows, acl } = file;
    let rules = || acl.iter().enumerate().filter(|(_, rule)| rule.bridge == bridge);
    let stateful = rules().find(|(_, rule)| rule.stateful);
    let tracking =
        stateful.into_iter().flat_map(|(i, _)| acl::tracking(i, zone).map(|text| (Section::Acl(i), text)));
    let rules = rules().enumerate().flat_map(|(place, (i, rule))| {
        let texts = rule.flows(place, i, ports, zone);
        texts.into_iter().map(move |text| (Section::Acl(i), text))
    });
    let own = flows.iter().enumerate().filter(|(_, flow)| flow.bridge == bridge);
    let own = own.flat_map(|(i, flow)| {
        flow.flow.iter().enumerate().map(move |(j, text)| (Section::FlowText(i, j), text.clone()))
    });
    tracking.chain(rules).chain(own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Host;
    use crate::settings::config;
    use crate::settings::topology::Topology;

    const BRIDGES: &str = "[[bridge]]\nname = \"br0\"\npipeline = \"openflow\"\n\
        [[port]]\nname = \"red\"\nkind = \"null\"\n[[port]]\nname = \"blue\"\nkind = \"null\"\n";

    /// The errors of a file, as line and text.
    fn errors(text: &str) -> Vec<(Option<u32>, String)> {
        let found = config::parse(&format!("{BRIDGES}{text}"), &Host::of(&[0], &[0]), None).unwrap_err();
        let text =
            |error: &console::Diagnostic| format!("{}: {}; {}", error.place, error.reason, error.remedy);
        found.iter().map(|error| (error.line, text(error))).collect()
    }

    fn read(text: &str) -> Topology {
        config::parse(&format!("{BRIDGES}{text}"), &Host::of(&[0], &[0]), None)
            .unwrap_or_else(|e| panic!("{e:?} in\n{text}"))
    }

    #[test]
    fn flows_name_ports_in_the_order_of_the_file() {
        let text = "[[flow]]\nflow = \"in_port=blue,actions=output:red\"\n\
            [[flow]]\nbridge = \"br0\"\nflow = [\"priority=1,arp,actions=NORMAL\", \"priority=0,actions=drop\"]\n";
        let changes = read(text).flow_changes("br0").map_err(|_| "refused").unwrap();
        let Modification::Flow(first) = &changes[0] else { panic!() };
        assert_eq!(first.matching.exact(flow::Field::InPort), Some(2));
        assert_eq!(changes.len(), 3);
    }

    #[test]
    fn the_local_port_has_no_number_of_its_own() {
        let text = format!(
            "{}local = \"red\"\n[[port]]\nname = \"red\"\nkind = \"null\"\n[[port]]\nname = \"blue\"\nkind = \"null\"\n\
             [[flow]]\nflow = \"in_port=red,actions=output:blue\"\n",
            "[[bridge]]\nname = \"br0\"\npipeline = \"openflow\"\n"
        );
        let topology = config::parse(&text, &Host::of(&[0], &[0]), None).unwrap();
        let changes = topology.flow_changes("br0").map_err(|_| "refused").unwrap();
        let Modification::Flow(flow) = &changes[0] else { panic!() };
        assert_eq!(flow.matching.exact(flow::Field::InPort), Some(PortNo::LOCAL.0.into()));
        let output = flow::Action::Output { port: PortNo(1), max_len: 0 };
        assert_eq!(flow.instructions.apply, [output]);
    }

    #[test]
    fn each_bad_flow_is_an_error_at_its_line() {
        let text = "[[flow]]\nflow = [\n\"priority=1,actions=NORMAL\",\n\"in_port=green,actions=drop\",\n\
            \"actions=nonsense\",\n]\n[[flow]]\nflow = 5\n[[flow]]\n";
        let found = errors(text);
        let lines: Vec<_> = found.iter().map(|(line, _)| line.unwrap() - 9).collect();
        assert_eq!(lines, [4, 5, 8, 9], "{found:?}");
        assert!(found[0].1.contains("flow 0: ") && found[0].1.contains("green"), "{found:?}");
        assert!(found[2].1.contains("not a string") && found[3].1.contains("`flow` is missing"), "{found:?}");
    }

    #[test]
    fn a_flow_that_a_bridge_refuses_is_an_error() {
        let found = errors("[[flow]]\nflow = [\"actions=drop\",\n\"actions=group:7\"]\n");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].0 == Some(12) && found[0].1.contains("group"), "{found:?}");
    }

    #[test]
    fn only_openflow_bridges_have_flows() {
        let bridge = "[[bridge]]\nname = \"other\"\n";
        for (name, wanted) in [("other", "does not have flow tables"), ("bro", "there is no bridge \"bro\"")]
        {
            let text = format!("{bridge}[[flow]]\nbridge = \"{name}\"\nflow = \"actions=drop\"\n");
            let found = errors(&text.replace("[[bridge]]", "\n[[bridge]]"));
            assert!(found.iter().any(|(_, text)| text.contains(wanted)), "{found:?}");
        }
    }
}
