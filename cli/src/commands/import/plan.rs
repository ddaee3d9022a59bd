//! Bridges with their ports, before they are written: names, members of bonds, and whether a bridge has flow tables.

use super::database::{Database, Row};
use super::names::Names;
use std::collections::{BTreeSet, HashMap};

/// Types of interfaces that are tunnels of linerate.
pub(super) const TUNNELS: [&str; 6] = ["vxlan", "geneve", "gre", "ip6gre", "erspan", "gtpu"];

/// A port of a bridge, or a bond.
pub(super) struct PortPlan<'a> {
    pub(super) row: &'a Row,
    /// Name of the port, or of the bond.
    pub(super) name: String,
    /// Interfaces with the names of their ports.
    pub(super) interfaces: Vec<(&'a Row, String)>,
}

impl PortPlan<'_> {
    /// Whether it has several interfaces.
    pub(super) fn is_bond(&self) -> bool {
        self.interfaces.len() > 1
    }
}

/// A bridge.
pub(super) struct BridgePlan<'a> {
    pub(super) row: &'a Row,
    pub(super) name: String,
    pub(super) controllers: Vec<&'a Row>,
    pub(super) ports: Vec<PortPlan<'a>>,
    pub(super) has_flow_tables: bool,
}

impl BridgePlan<'_> {
    /// VLANs that ports of the bridge name.
    pub(super) fn vlans(&self) -> BTreeSet<i64> {
        let columns = |port: &PortPlan<'_>| [port.row.integers("tag"), port.row.integers("trunks")].concat();
        self.ports.iter().flat_map(columns).filter(|vlan| (1..=4094).contains(vlan)).collect()
    }

    /// Name of the port that has the name of the bridge: its interface of the host.
    pub(super) fn local(&self) -> Option<&str> {
        let mut ports = self.ports.iter();
        ports.find(|port| port.row.text("name") == self.row.text("name")).map(|port| port.name.as_str())
    }

    /// Whether the bridge runs a spanning tree that can be translated.
    pub(super) fn has_tree(&self) -> bool {
        (self.row.flag("stp_enable") || self.row.flag("rstp_enable")) && !self.has_flow_tables
    }

    /// Whether the bridge has multicast snooping that can be translated.
    pub(super) fn has_snooping(&self) -> bool {
        self.row.flag("mcast_snooping_enable") && !self.has_flow_tables
    }
}

/// All bridges, and the bridge and the name of each port by its identifier.
pub(super) struct Plan<'a> {
    pub(super) switch: Option<&'a Row>,
    pub(super) bridges: Vec<BridgePlan<'a>>,
    ports: HashMap<&'a str, (usize, String)>,
    interfaces: HashMap<&'a str, String>,
}

impl<'a> Plan<'a> {
    pub(super) fn new(database: &'a Database) -> Self {
        let switch = database.table("Open_vSwitch").next();
        let mut rows = switch.map(|row| database.referred(row, "bridges", "Bridge")).unwrap_or_default();
        rows.sort_by_key(|row| row.text("name"));
        let (mut names, mut port_names) = (Names::default(), Names::default());
        let bridges: Vec<_> =
            rows.into_iter().map(|row| bridge(database, row, &mut names, &mut port_names)).collect();
        let numbered = bridges.iter().enumerate();
        let ports = numbered.flat_map(|(at, bridge)| {
            bridge.ports.iter().map(move |port| (port.row.uuid.as_str(), (at, port.name.clone())))
        });
        let interfaces = bridges.iter().flat_map(|bridge| &bridge.ports).flat_map(|port| &port.interfaces);
        let interfaces = interfaces.map(|(row, name)| (row.text("name"), name.clone()));
        Self { switch, ports: ports.collect(), interfaces: interfaces.collect(), bridges }
    }

    /// Name of a port or bond if it is on this bridge.
    pub(super) fn port_on(&self, bridge: usize, port: &Row) -> Option<&str> {
        let (own, name) = self.ports.get(port.uuid.as_str())?;
        (*own == bridge).then_some(name)
    }

    /// Name of the port that is made from an interface.
    pub(super) fn port_of(&self, interface: &str) -> Option<&str> {
        self.interfaces.get(interface).map(String::as_str)
    }
}

fn bridge<'a>(
    database: &'a Database,
    row: &'a Row,
    names: &mut Names,
    port_names: &mut Names,
) -> BridgePlan<'a> {
    let mut ports: Vec<_> = database
        .referred(row, "ports", "Port")
        .into_iter()
        .map(|row| (row, database.referred(row, "interfaces", "Interface")))
        .collect();
    // In the order of their numbers, which linerate gives by the order of the file.
    ports.sort_by_key(|(row, interfaces)| (place(interfaces), row.text("name")));
    let ports: Vec<_> =
        ports.into_iter().map(|(row, interfaces)| port(row, interfaces, port_names)).collect();
    let controllers = database.referred(row, "controller", "Controller");
    let interfaces = || ports.iter().flat_map(|port| &port.interfaces);
    let has_tunnel = interfaces().any(|(row, _)| TUNNELS.contains(&row.text("type")));
    let has_flow_tables = has_tunnel || !controllers.is_empty() || row.text("fail_mode") == "secure";
    BridgePlan { row, name: names.take(row.text("name")), controllers, ports, has_flow_tables }
}

/// The number of a port; one without a number is last.
fn place(interfaces: &[&Row]) -> i64 {
    let numbers = interfaces.iter().filter_map(|row| number(row)).map(|(_, number)| number);
    numbers.min().unwrap_or(i64::MAX)
}

/// The number of an interface in Open vSwitch, with its column: the one that it has, or else the requested one.
pub(super) fn number(interface: &Row) -> Option<(&'static str, i64)> {
    let numbers = ["ofport", "ofport_request"].map(|column| (column, interface.integer(column)));
    // A port that Open vSwitch could not add has the number -1.
    numbers.into_iter().find_map(|(column, number)| Some((column, number.filter(|number| *number > 0)?)))
}

fn port<'a>(row: &'a Row, mut interfaces: Vec<&'a Row>, names: &mut Names) -> PortPlan<'a> {
    interfaces.sort_by_key(|row| row.text("name"));
    let is_bond = interfaces.len() > 1;
    let interfaces: Vec<_> = interfaces.into_iter().map(|row| (row, names.take(row.text("name")))).collect();
    let only = interfaces.first().filter(|_| !is_bond).map(|(_, name)| name.clone());
    PortPlan { row, name: only.unwrap_or_else(|| names.take(row.text("name"))), interfaces }
}
