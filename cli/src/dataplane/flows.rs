//! Flows of OpenFlow bridges: text of the control API and numbers of the flow tables.

mod file;
mod measure;
mod options;
pub(in crate::dataplane) mod saved;
mod trace;

use super::connections::{self, ConnectionFilter, ConnectionLimits, ConnectionReport};
use super::controllers::{Controllers, LivePorts, LiveQueues, Plane};
use super::interface::DataPlaneError;
use super::report::{FlowEntry, FlowFilter, OpenflowReport};
use super::state::Continued;
use super::tunnels::{self, TunnelEntry};
use crate::settings::MAX_PORTS;
use crate::settings::conntrack::ConntrackSettings;
use crate::settings::openflow::OpenflowSettings;
use crate::settings::topology::{BridgeSettings, Topology};
use conntrack::{Restoration, SavedChanges, SavedExpectation, Tracker};
use console::Diagnostic;
use engine::Injector;
use file::FlowsOfFile;
use flow::tables::{Flow, Modification};
use flow::text::{PortNames, TextError, parse_flow, parse_match, show};
use flow::{FlowCommand, FlowSwitch, PortNo, TableId};
use port::{Now, Pipelines, PortId};
use saved::Handed;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::Notify;
use tracing::warn;

/// Names of ports whose numbers are remembered at most.
const MAX_NUMBERS: usize = 16 * MAX_PORTS;

/// OpenFlow bridges, and the connections to their controllers.
pub(super) struct Flows {
    switch: Arc<FlowSwitch>,
    bridges: Vec<String>,
    /// Names of local ports, by bridge.
    local: BTreeMap<String, String>,
    /// Last number of each port, by bridge and name.
    numbers: Mutex<BTreeMap<(String, String), PortNo>>,
    /// Flows of the file that each bridge has.
    of_file: Mutex<BTreeMap<String, FlowsOfFile>>,
    /// Flows that are handed over or taken over, by bridge.
    handed: Mutex<BTreeMap<String, Handed>>,
    restoration: Mutex<Restoration>,
    start: Instant,
    /// Wakes the thread of the controllers.
    events: Arc<Notify>,
    controllers: Mutex<Option<Controllers>>,
}

impl Flows {
    /// The OpenFlow bridges of `topology`, over the learning bridges `normal`. Returns `None` if there are none.
    pub(super) fn new(
        topology: &Topology,
        normal: Arc<dyn Pipelines>,
        continued: &Continued,
    ) -> Result<Option<Self>, Diagnostic> {
        let bridges = &topology.bridges;
        let settings: Vec<_> = openflow(bridges).collect();
        if settings.is_empty() {
            return Ok(None);
        }
        let switch = Arc::new(FlowSwitch::with_connections(normal, &topology.conntrack.config()));
        for (name, settings) in &settings {
            let (place, remedy) = (format!("bridge \"{name}\""), "correct this [[bridge]] section");
            switch.add_bridge(name).map_err(|e| Diagnostic::failed(&place, e, remedy))?;
            let limited = switch.limit_flows(name, settings.max_flows);
            limited.map_err(|e| Diagnostic::failed(&place, e, remedy))?;
        }
        let local =
            bridges.iter().filter_map(|bridge| Some((bridge.name.clone(), bridge.local()?.to_owned())));
        let local = local.collect();
        let bridges = settings.into_iter().map(|(name, _)| name).collect();
        let now = Instant::now();
        Ok(Some(Self {
            switch,
            bridges,
            local,
            numbers: Mutex::new(numbers(continued)),
            of_file: Mutex::default(),
            handed: Mutex::default(),
            restoration: Mutex::default(),
            start: now.checked_sub(continued.age()).unwrap_or(now),
            events: Arc::default(),
            controllers: Mutex::default(),
        }))
    }

    /// Connects the bridges to their controllers, and from now on removes expired flows. `live` reads the ports of the
    /// engine, `queues` those of a port.
    pub(super) fn start_controllers(
        &self,
        bridges: &[BridgeSettings],
        live: LivePorts,
        queues: LiveQueues,
    ) -> Result<(), Diagnostic> {
        let (switch, start, events) = (self.switch.clone(), self.start, self.events.clone());
        let plane = Plane { switch, start, events, live, queues };
        *self.controllers() = Some(Controllers::start(openflow(bridges), plane)?);
        Ok(())
    }

    /// Closes the connections to controllers.
    pub(super) fn stop_controllers(&self) {
        *self.controllers() = None;
    }

    /// Whether the thread of the controllers runs.
    pub(super) fn has_controllers(&self) -> bool {
        self.controllers().is_some()
    }

    /// A poisoned lock is valid: the connections are replaced in one step.
    fn controllers(&self) -> MutexGuard<'_, Option<Controllers>> {
        self.controllers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Names of the bridges.
    pub(super) fn bridges(&self) -> impl Iterator<Item = &str> {
        self.bridges.iter().map(String::as_str)
    }

    /// OpenFlow state of a bridge; `None` for a learning bridge.
    pub(super) fn report(&self, bridge: &str) -> Option<OpenflowReport> {
        self.controllers().as_ref()?.report(bridge)
    }

    /// The bridges with their ports.
    pub(super) fn switch(&self) -> Arc<FlowSwitch> {
        self.switch.clone()
    }

    /// Sets whether a port that is no new one can send.
    pub(super) fn set_live(&self, id: PortId, is_live: bool) {
        self.switch.set_link(id, is_live);
    }

    /// The pipelines of the workers.
    pub(super) fn pipelines(&self) -> Arc<dyn Pipelines> {
        self.switch.clone()
    }

    /// Sets whether a port of an OpenFlow bridge is the output of a mirror.
    pub(super) fn set_reserved(&self, port: PortId, is_reserved: bool) {
        self.switch.set_reserved(port, is_reserved);
    }

    /// Sends packet-outs through the engine. Must be called before packet-outs.
    pub(super) fn connect(&self, injector: Injector) {
        self.switch.connect(move |port, frame, stage| injector.inject_at(port, frame, stage));
    }

    /// Adds a port to its bridge, if that is an OpenFlow bridge. The port has not started yet. A port that was removed
    /// has its number again, unless another port took it, so that flows that name it remain valid.
    pub(super) fn add_port(&self, id: PortId, bridge: &str, name: &str) -> Result<(), flow::AddPortError> {
        if self.bridges.iter().any(|other| other == bridge) {
            let is_local = self.local.get(bridge).is_some_and(|local| local == name);
            if is_local {
                self.switch.add_port(id, bridge, Some(PortNo::LOCAL))?;
            } else {
                self.add_numbered(id, bridge, name)?;
            }
            self.switch.set_live(id, false);
        }
        Ok(())
    }

    fn add_numbered(&self, id: PortId, bridge: &str, name: &str) -> Result<(), flow::AddPortError> {
        // A poisoned lock is valid: an entry changes in one step.
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (bridge.to_owned(), name.to_owned());
        let before =
            numbers.get(&key).and_then(|number| self.switch.add_port(id, bridge, Some(*number)).ok());
        let number = before.map_or_else(|| self.switch.add_port(id, bridge, None), Ok)?;
        if numbers.len() >= MAX_NUMBERS {
            numbers.clear();
        }
        numbers.insert(key, number);
        Ok(())
    }

    /// Makes a port of an OpenFlow bridge a tunnel.
    pub(super) fn add_tunnel(&self, id: PortId, tunnel: tunnel::Tunnel) -> Result<(), tunnel::Ambiguous> {
        self.switch.add_tunnel(id, tunnel)
    }

    /// Gives bridges their addresses. Must be called before the controllers are started, which serve them.
    pub(super) fn set_underlay(&self, topology: &Topology) -> Result<(), Diagnostic> {
        tunnels::set_underlay(&self.switch, topology, self.now())
    }

    /// All tunnels.
    pub(super) fn tunnels(&self, name: impl Fn(PortId) -> Option<String>) -> Vec<TunnelEntry> {
        tunnels::list(&self.switch, name)
    }

    /// Removes a port, if it is on an OpenFlow bridge.
    pub(super) fn remove_port(&self, id: PortId) {
        self.switch.remove_port(id);
    }

    /// The flows that match a filter, by bridge, table and priority: at most its limit, and the number of all of them.
    pub(super) fn list(
        &self,
        wanted: &FlowFilter,
        names: &Names,
    ) -> Result<(usize, Vec<FlowEntry>), DataPlaneError> {
        let flows = self.selected(wanted, names)?;
        let shown = flows.iter().take(wanted.limit.unwrap_or(usize::MAX));
        Ok((flows.len(), shown.map(|(bridge, flow)| self.entry(bridge, flow, names)).collect()))
    }

    /// The flows that match a filter, by bridge, table and priority, each with the name of its bridge.
    fn selected(&self, wanted: &FlowFilter, names: &Names) -> Result<Vec<(&str, Flow)>, DataPlaneError> {
        let matching = wanted.flow.as_deref().map(|text| parse_match(text, names)).transpose();
        let matching = matching.map_err(|e| bad("flow", &e))?;
        let mut selected = Vec::new();
        for bridge in self.named(wanted.bridge.as_deref())? {
            let tables = self.switch.tables(bridge).map_err(|e| refused(bridge, &e))?;
            let matching = matching.map(|matching| tables.options().normal(&matching)).transpose();
            let matching = matching.map_err(|e| refused(bridge, &e))?;
            for table in TableId::each() {
                let is_wanted =
                    |flow: &&Flow| matching.is_none_or(|matching| matching.covers(&flow.entry().matching()));
                let mut flows: Vec<_> = tables.flows(table).filter(is_wanted).collect();
                flows.sort_by_key(|flow| std::cmp::Reverse(flow.entry().priority()));
                selected.extend(flows.into_iter().map(|flow| (bridge, flow.clone())));
            }
        }
        Ok(selected)
    }

    fn entry(&self, bridge: &str, flow: &Flow, names: &Names) -> FlowEntry {
        let entry = flow.entry();
        let (packets, bytes) = entry.counts();
        let age = self.now().0.saturating_sub(entry.created().0);
        FlowEntry {
            bridge: bridge.to_owned(),
            table: entry.table().0,
            priority: entry.priority(),
            cookie: format!("{:#x}", entry.cookie()),
            age: age / 1_000_000_000,
            packets,
            bytes,
            rate: None,
            matching: show(&entry.matching(), names).to_string(),
            actions: show(&**flow.instructions(), names).to_string(),
        }
    }

    /// Adds flows, all or none. Returns their number.
    pub(super) fn add(
        &self,
        bridge: Option<&str>,
        flows: &[String],
        names: &Names,
    ) -> Result<usize, DataPlaneError> {
        let bridge = self.one(bridge)?;
        let parsed = flows.iter().map(|text| parse_flow(text, None, names).map_err(|e| bad(text, &e)));
        let parsed = parsed.map(|flow| Ok(Modification::Flow(Box::new(flow?))));
        let changes = parsed.collect::<Result<Vec<_>, DataPlaneError>>()?;
        self.modify(bridge, &changes)?;
        Ok(changes.len())
    }

    /// Removes the flows that a match covers, or if it is strict the one with this match and priority. Returns their
    /// number.
    pub(super) fn remove(&self, wanted: &FlowFilter, names: &Names) -> Result<usize, DataPlaneError> {
        let command = if wanted.strict { FlowCommand::DeleteStrict } else { FlowCommand::Delete };
        let text = wanted.flow.as_deref().unwrap_or_default();
        let change = parse_flow(text, Some(command), names).map_err(|e| bad(text, &e))?;
        let change = [Modification::Flow(Box::new(change))];
        let bridges = self.named(wanted.bridge.as_deref())?;
        bridges.into_iter().try_fold(0, |sum, bridge| Ok(sum + self.modify(bridge, &change)?))
    }

    /// Changes flows. The thread of the controllers reports the changes to them. Returns the number of removed flows.
    fn modify(&self, bridge: &str, changes: &[Modification]) -> Result<usize, DataPlaneError> {
        let done = self.switch.modify_recorded(bridge, changes, self.now());
        Ok(done.map_err(|e| refused(bridge, &e))?.removed.len())
    }

    /// The connections that match a filter.
    pub(super) fn connections(&self, wanted: &ConnectionFilter) -> ConnectionReport {
        connections::list(&self.switch, wanted, self.now())
    }

    /// Limits of connections, and the connections of the ports `names` by number.
    pub(super) fn connection_limits(
        &self,
        settings: &ConntrackSettings,
        names: &BTreeMap<u16, String>,
    ) -> ConnectionLimits {
        connections::limits(self.switch.tracker(), settings, names)
    }

    /// Changes limits and timeouts of connections.
    pub(super) fn limit_connections(&self, settings: &ConntrackSettings) {
        self.switch.tracker().configure(&settings.config());
    }

    /// The connection tracker.
    pub(super) fn tracker(&self) -> &Tracker {
        self.switch.tracker()
    }

    /// Connections that helpers expect.
    pub(super) fn expectations(&self) -> Vec<SavedExpectation> {
        self.tracker().expectations(self.now().0)
    }

    /// Executes changes of connections of another process.
    pub(super) fn restore_connections(&self, changes: Vec<SavedChanges>) {
        let mut restoration = self.restoration.lock().unwrap_or_else(PoisonError::into_inner);
        for changes in changes {
            restoration.apply(self.tracker(), changes);
        }
    }

    /// Ends [`Flows::restore_connections`].
    pub(super) fn finish_connections(&self, expected: &[SavedExpectation]) {
        self.tracker().restore_expectations(expected);
        let mut restoration = self.restoration.lock().unwrap_or_else(PoisonError::into_inner);
        let refused = restoration.finish(self.tracker());
        if refused > 0 {
            warn!(connections = refused, "connections of the other process could not be added");
        }
    }

    /// Removes connections. Returns their number.
    pub(super) fn flush_connections(&self, zone: Option<u16>) -> u64 {
        self.switch.flush_connections(zone) as u64
    }

    /// Names and numbers of the ports `members` of the bridge of a filter.
    pub(super) fn names<'a>(
        &self,
        members: impl Iterator<Item = (PortId, &'a str)>,
        bridge: Option<&str>,
    ) -> Names {
        let mut names = Names::default();
        for (id, name) in members {
            let Some((home, number)) = self.switch.number(id) else { continue };
            if bridge.is_none_or(|bridge| bridge == home) {
                names.insert(name, number);
            }
        }
        names
    }

    fn now(&self) -> Now {
        Now(self.start.elapsed().as_nanos() as u64)
    }

    /// The bridges of a filter.
    fn named(&self, bridge: Option<&str>) -> Result<Vec<&str>, DataPlaneError> {
        let wanted = |name: &&str| bridge.is_none_or(|bridge| bridge == *name);
        let found: Vec<_> = self.bridges.iter().map(String::as_str).filter(wanted).collect();
        match bridge {
            Some(bridge) if found.is_empty() => Err(unknown(bridge)),
            _ => Ok(found),
        }
    }

    /// The bridge of a change.
    fn one(&self, bridge: Option<&str>) -> Result<&str, DataPlaneError> {
        if let [only] = self.named(bridge)?.as_slice() {
            return Ok(only);
        }
        let remedy = "name one of them with --bridge";
        let error = Diagnostic::bad("flows", "there are several OpenFlow bridges", remedy);
        Err(DataPlaneError::Refused(error))
    }
}

/// The numbers that ports have in another process.
fn numbers(continued: &Continued) -> BTreeMap<(String, String), PortNo> {
    let of_bridge = |(bridge, numbers): (&String, &super::state::Numbers)| {
        let bridge = bridge.clone();
        let numbers = numbers.clone().into_iter();
        numbers.map(move |(name, number)| ((bridge.clone(), name), PortNo(number)))
    };
    continued.numbers.iter().flat_map(of_bridge).collect()
}

/// Names and settings of the OpenFlow bridges.
fn openflow(bridges: &[BridgeSettings]) -> impl Iterator<Item = (String, OpenflowSettings)> {
    bridges.iter().filter_map(|bridge| Some((bridge.name.clone(), bridge.openflow.clone()?)))
}

/// Names of the ports of one bridge.
#[derive(Debug, Default)]
pub(super) struct Names {
    by_name: BTreeMap<String, PortNo>,
    by_number: BTreeMap<PortNo, String>,
}

impl Names {
    fn insert(&mut self, name: &str, number: PortNo) {
        self.by_name.insert(name.to_owned(), number);
        self.by_number.insert(number, name.to_owned());
    }
}

impl PortNames for Names {
    fn number(&self, name: &str) -> Option<PortNo> {
        self.by_name.get(name).copied()
    }

    fn name(&self, number: PortNo) -> Option<&str> {
        self.by_number.get(&number).map(String::as_str)
    }
}

fn bad(text: &str, error: &TextError) -> DataPlaneError {
    let remedy = "see ovs-fields(7) and ovs-actions(7), and the names of ports in `linerate ports show`";
    DataPlaneError::Refused(Diagnostic::bad(format!("flow \"{text}\""), error, remedy))
}

fn refused(bridge: &str, error: &dyn std::fmt::Display) -> DataPlaneError {
    let place = format!("flows of bridge \"{bridge}\"");
    DataPlaneError::Refused(Diagnostic::bad(place, error, "see the flows in `linerate flows show`"))
}

/// Without an OpenFlow bridge.
pub(super) fn unknown(bridge: &str) -> DataPlaneError {
    let remedy = "set `pipeline = \"openflow\"` in the [[bridge]] section";
    DataPlaneError::Refused(Diagnostic::bad(
        format!("bridge \"{bridge}\""),
        "there is no such OpenFlow bridge",
        remedy,
    ))
}
