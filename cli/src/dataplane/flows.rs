//! Flows of OpenFlow bridges: text of the control API and numbers of the flow tables.

use super::interface::DataPlaneError;
use super::report::{FlowEntry, FlowFilter};
use crate::settings::topology::{BridgeSettings, PipelineKind};
use console::Diagnostic;
use flow::tables::{Flow, Modification};
use flow::text::{PortNames, TextError, parse_flow, parse_match, show};
use flow::{FlowCommand, FlowSwitch, PortNo, TableId};
use port::{Now, Pipelines, PortId};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest time from the end of a flow's timeout to its removal.
const EXPIRY: Duration = Duration::from_millis(100);

/// OpenFlow bridges, and the thread that removes their expired flows.
pub(super) struct Flows {
    switch: Arc<FlowSwitch>,
    bridges: Vec<String>,
    start: Instant,
    stop: Arc<AtomicBool>,
    expiry: Option<JoinHandle<()>>,
}

impl Drop for Flows {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.expiry.take() {
            thread.thread().unpark();
            // A panic of the thread was printed already.
            let _ = thread.join();
        }
    }
}

impl Flows {
    /// The OpenFlow bridges among `bridges`, over the learning bridges `normal`. Returns `None` if there are none.
    pub(super) fn new(
        bridges: &[BridgeSettings],
        normal: Arc<dyn Pipelines>,
    ) -> Result<Option<Self>, Diagnostic> {
        let bridges = bridges.iter().filter(|bridge| bridge.pipeline == PipelineKind::Openflow);
        let bridges: Vec<_> = bridges.map(|bridge| bridge.name.clone()).collect();
        if bridges.is_empty() {
            return Ok(None);
        }
        let switch = Arc::new(FlowSwitch::new(normal));
        for name in &bridges {
            let place = format!("bridge \"{name}\"");
            let added = switch.add_bridge(name);
            added.map_err(|e| Diagnostic::failed(place, e, "correct this [[bridge]] section"))?;
        }
        let (start, stop) = (Instant::now(), Arc::new(AtomicBool::new(false)));
        let (expiring, stopped) = (switch.clone(), stop.clone());
        let thread = std::thread::Builder::new().name("flow-expiry".to_owned());
        let expiry = thread.spawn(move || expire(&expiring, start, &stopped)).map_err(|e| {
            Diagnostic::failed("bridges", format!("cannot start a thread: {e}"), "raise the limit on threads")
        })?;
        Ok(Some(Self { switch, bridges, start, stop, expiry: Some(expiry) }))
    }

    /// The pipelines of the workers.
    pub(super) fn pipelines(&self) -> &dyn Pipelines {
        &*self.switch
    }

    /// Adds a port to its bridge, if that is an OpenFlow bridge.
    pub(super) fn add_port(&self, id: PortId, bridge: &str) -> Result<(), flow::AddPortError> {
        let is_own = self.bridges.iter().any(|name| name == bridge);
        if is_own { self.switch.add_port(id, bridge, None).map(drop) } else { Ok(()) }
    }

    /// Removes a port, if it is on an OpenFlow bridge.
    pub(super) fn remove_port(&self, id: PortId) {
        self.switch.remove_port(id);
    }

    /// The flows that match a filter, by bridge, table and priority.
    pub(super) fn list(&self, wanted: &FlowFilter, names: &Names) -> Result<Vec<FlowEntry>, DataPlaneError> {
        let matching = wanted.flow.as_deref().map(|text| parse_match(text, names)).transpose();
        let matching = matching.map_err(|e| bad("flow", &e))?;
        let mut entries = Vec::new();
        for bridge in self.named(wanted.bridge.as_deref())? {
            let tables = self.switch.tables(bridge).map_err(|e| refused(bridge, &e))?;
            for table in (0..TableId::COUNT as u8).map(TableId) {
                let is_wanted =
                    |flow: &&Flow| matching.is_none_or(|matching| matching.covers(&flow.entry().matching()));
                let mut flows: Vec<_> = tables.flows(table).filter(is_wanted).collect();
                flows.sort_by_key(|flow| std::cmp::Reverse(flow.entry().priority()));
                entries.extend(flows.into_iter().map(|flow| self.entry(bridge, flow, names)));
            }
        }
        Ok(entries)
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
        self.switch.modify(bridge, &changes, self.now()).map_err(|e| refused(bridge, &e))?;
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
        bridges.into_iter().try_fold(0, |sum, bridge| {
            let changes = self.switch.modify(bridge, &change, self.now()).map_err(|e| refused(bridge, &e))?;
            Ok(sum + changes.removed.len())
        })
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
                names.by_name.insert(name.to_owned(), number);
                names.by_number.insert(number, name.to_owned());
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

/// Removes expired flows until stopped.
fn expire(switch: &FlowSwitch, start: Instant, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        switch.expire(Now(start.elapsed().as_nanos() as u64));
        // Without a controller, packets for controllers are of no use.
        drop(switch.take_punted());
        std::thread::park_timeout(EXPIRY);
    }
}

/// Names of the ports of one bridge.
#[derive(Debug, Default)]
pub(super) struct Names {
    by_name: BTreeMap<String, PortNo>,
    by_number: BTreeMap<PortNo, String>,
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
