//! Requests of the control API and of reports to a running switch.

use super::{Member, Switch, affinity, not_running};
use crate::dataplane::bond_report::BondState;
use crate::dataplane::capture_report::{CaptureRequest, Captured};
use crate::dataplane::captures::{Sources, wait_until_known};
use crate::dataplane::connections::{ConnectionFilter, ConnectionLimits, ConnectionReport};
use crate::dataplane::convert::worker_config;
use crate::dataplane::export_report::ExportReport;
use crate::dataplane::flow_report::{FlowCounts, TraceReport, TraceRequest};
use crate::dataplane::flows::Flows;
use crate::dataplane::handover::Lost;
use crate::dataplane::interface::{DataPlane, DataPlaneError};
use crate::dataplane::link_report::{NeighborsReport, StpPortReport};
use crate::dataplane::multicast_report::MulticastReport;
use crate::dataplane::offload_report::OffloadReport;
use crate::dataplane::open::open_in_switch;
use crate::dataplane::report::{
    BridgePort, BridgeReport, FdbEntry, FdbFilter, FlowEntry, FlowFilter, FlowRequest, MoveEvent, Origin,
    StationFilter,
};
use crate::dataplane::state::{Continued, SaveStep, StateMessage};
use crate::dataplane::tunnels::{OptionEntry, OptionFilter, OptionRequest, TunnelEntry};
use crate::settings::bonds::BondSettings;
use crate::settings::conntrack::ConntrackSettings;
use crate::settings::kinds::PortKind;
use crate::settings::kinds::kind::Loaded;
use crate::settings::mirror::MirrorSettings;
use crate::settings::model::Role;
use crate::settings::topology::{BridgeSettings, PortSettings, StaticEntry, Topology, WorkerSettings};
use bridge::{BridgeStatistics, MirrorStatistics, PortStatistics, RefusedMove, Selection};
use console::Diagnostic;
use engine::balance::{Balance, QueueLoad};
use engine::placement::QueueAffinity;
use engine::{EngineError, OnFault, Snapshot};
use port::PortId;
use port::handover::Handovers;
use rustix::fd::OwnedFd;
use std::collections::BTreeMap;
use std::time::Duration;
use wire::{MacAddress, VlanId};

impl DataPlane for Switch {
    fn snapshot(&self) -> Snapshot {
        let mut snapshot = self.engine.snapshot();
        self.offload.complete(&mut snapshot);
        snapshot
    }

    fn fdb(&self, wanted: &StationFilter) -> Vec<FdbEntry> {
        let names = self.names();
        let entry = |bridge: &str, station: bridge::Station| {
            let port = names.get(&station.port).map_or("", String::as_str);
            wanted.names(bridge, port, (station.mac, station.vlan)).then(|| FdbEntry {
                bridge: bridge.to_owned(),
                mac: station.mac,
                vlan: station.vlan,
                port: port.to_owned(),
                origin: if station.pinned { Origin::Static } else { Origin::Learned },
                age: station.age_seconds,
            })
        };
        let of = |bridge: &String| -> Vec<FdbEntry> {
            self.stations(bridge).into_iter().filter_map(|station| entry(bridge, station)).collect()
        };
        let named = |bridge: &&String| wanted.bridge.as_ref().is_none_or(|name| name == *bridge);
        self.bridge_names().iter().filter(named).flat_map(of).collect()
    }

    fn bridges(&self) -> Vec<BridgeReport> {
        let second = (self.engine.snapshot().uptime_ns / 1_000_000_000) as u32;
        let names = self.names();
        let openflow = |name: &str| self.flows.as_ref()?.report(name);
        let mut stp_ports = self.links.stp_ports();
        let report = |bridge: BridgeStatistics| {
            let (openflow, stp) = (openflow(&bridge.name), self.links.stp(&bridge.name));
            let mut report = BridgeReport { openflow, stp, ..bridge_report(bridge, &names, second) };
            report.ports.iter_mut().for_each(|port| port.stp = stp_ports.remove(&port.port));
            report
        };
        self.bridges.statistics().into_iter().map(report).collect()
    }

    fn stp_ports(&self) -> BTreeMap<String, StpPortReport> {
        self.links.stp_ports()
    }

    fn neighbors(&self) -> NeighborsReport {
        self.links.neighbors()
    }

    fn offload(&self) -> OffloadReport {
        self.offload.report()
    }

    fn multicast(&self) -> Vec<MulticastReport> {
        self.links.multicast(&self.names())
    }

    fn flush_multicast(&self, wanted: &FdbFilter) -> u64 {
        let port = wanted.port.as_ref().and_then(|name| self.place_of(name)).map(|(port, _)| port);
        if wanted.port.is_some() && port.is_none() {
            return 0;
        }
        self.links.flush_multicast(wanted.bridge.as_deref(), wanted.vlan, port) as u64
    }

    fn addresses(&self, bridge: &str) -> usize {
        let all = self.bridges.statistics();
        all.iter().find(|statistics| statistics.name == bridge).map_or(0, |statistics| statistics.stations)
    }

    fn add_port(&self, port: &PortSettings, loaded: Loaded) -> Result<(), DataPlaneError> {
        self.join(port, open_in_switch(port, &loaded)?)
    }

    fn add_granted(&self, port: &PortSettings, socket: OwnedFd) -> Result<(), DataPlaneError> {
        let PortKind::Granted(granted) = &port.kind else { return Err(not_running(&port.name)) };
        let refused = |e| DataPlaneError::refused(format!("port \"{}\"", port.name), &e, "try again");
        self.join(port, granted.over(port.common(), socket).map_err(refused)?)
    }

    fn remove_port(&self, name: &str) -> Result<(), DataPlaneError> {
        let mut members = self.members();
        let index = members.iter().position(|member| member.name == name);
        let index = index.ok_or_else(|| not_running(name))?;
        // Removed from the list even if a worker holds it: another port may soon run under its number.
        let removed = self.pull_out(members.remove(index).id, name);
        self.apply_mirrors(&members)?;
        removed
    }

    fn add_bridge(&self, bridge: &BridgeSettings) -> Result<(), DataPlaneError> {
        self.create_bridge(bridge)
    }

    fn set_bridge(&self, bridge: &BridgeSettings, ports: &[PortSettings]) -> Result<(), DataPlaneError> {
        self.change_bridge(bridge, ports)
    }

    fn remove_bridge(&self, name: &str) -> Result<(), DataPlaneError> {
        self.delete_bridge(name)
    }

    fn bonds(&self) -> BTreeMap<String, BondState> {
        self.bond_states()
    }

    fn add_bond(&self, bond: &BondSettings, ports: &[PortSettings]) -> Result<(), DataPlaneError> {
        self.add_running_bond(bond, ports)
    }

    fn set_bond(&self, bond: &BondSettings, ports: &[PortSettings]) -> Result<(), DataPlaneError> {
        self.change_bond(bond, ports)
    }

    fn remove_bond(&self, name: &str, ports: &[PortSettings]) -> Result<(), DataPlaneError> {
        self.remove_running_bond(name, ports)
    }

    fn add_worker(&self, role: Option<Role>, wanted: &Topology) -> Result<usize, DataPlaneError> {
        let role = role.map_or(engine::Role::All, Role::engine);
        let worker = wanted.workers.last().map(worker_config).unwrap_or_default();
        let added = self.engine.add_worker(role, worker, rules(wanted)?, &self.pipelines);
        added.map_err(|e| refused_worker("the new worker", &e))
    }

    fn worker_numbers(&self) -> Vec<Vec<usize>> {
        self.engine.threads()
    }

    fn worker_thread(&self, number: usize) -> Option<u32> {
        self.engine.thread_id(number)
    }

    fn set_worker(&self, number: usize, worker: &WorkerSettings) -> Result<(), DataPlaneError> {
        let set = self.engine.set_worker(number, worker_config(worker));
        set.map_err(|e| refused_worker("workers", &e))
    }

    fn remove_worker(&self, number: usize, wanted: &Topology) -> Result<(), DataPlaneError> {
        let removed = self.engine.remove_worker(number, rules(wanted)?);
        removed.map_err(|e| refused_worker("workers", &e))
    }

    fn pin(&self, entry: &StaticEntry) -> Result<(), DataPlaneError> {
        let members = self.members();
        let member = members.iter().find(|member| member.name == entry.port);
        let member = member.ok_or_else(|| not_running(&entry.port))?;
        let vlan = VlanId::new(entry.vlan);
        let added = self.bridges.add_static(&member.bridge, entry.mac, vlan, member.id);
        added.map_err(|e| DataPlaneError::refused(entry, &e, "remove other entries of this bridge"))
    }

    fn forget(&self, bridge: &str, mac: MacAddress, vlan: u16) -> Result<(), DataPlaneError> {
        let remedy = "see the addresses in `linerate fdb show`";
        let forgotten = self.bridges.forget(bridge, mac, vlan);
        forgotten.map_err(|e| DataPlaneError::refused(format!("address {mac}"), &e, remedy))
    }

    fn flush(&self, wanted: &FdbFilter) -> Result<u64, DataPlaneError> {
        let port = wanted.port.as_ref().and_then(|name| self.place_of(name));
        if wanted.port.is_some() && port.is_none() {
            return Ok(0);
        }
        let home = |bridge: &String| port.as_ref().is_none_or(|(_, home)| home == bridge);
        let named = |bridge: &String| wanted.bridge.as_ref().is_none_or(|name| name == bridge);
        let selection = Selection { port: port.as_ref().map(|(id, _)| *id), vlan: wanted.vlan };
        self.bridge_names().into_iter().filter(home).filter(named).try_fold(0, |sum, bridge| {
            let flushed = self.bridges.flush(&bridge, selection);
            let flushed = flushed.map_err(|e| DataPlaneError::refused("fdb flush", &e, "try again"))?;
            Ok(sum + flushed as u64)
        })
    }

    fn flows(&self, wanted: &FlowFilter) -> Result<(usize, Vec<FlowEntry>), DataPlaneError> {
        let (flows, names) = self.flows_and_names(wanted.bridge.as_deref())?;
        if let Some(interval) = wanted.interval {
            return flows.hot(wanted, &names, interval.0);
        }
        flows.list(wanted, &names)
    }

    fn flow_counts(&self, bridge: &str) -> Option<FlowCounts> {
        self.flows.as_ref()?.counts(bridge)
    }

    fn trace(&self, request: &TraceRequest) -> Result<TraceReport, DataPlaneError> {
        let (flows, names) = self.flows_and_names(request.bridge.as_deref())?;
        flows.trace(request, &names)
    }

    fn add_flows(&self, request: &FlowRequest) -> Result<usize, DataPlaneError> {
        let (flows, names) = self.flows_and_names(request.bridge.as_deref())?;
        flows.add(request.bridge.as_deref(), &request.flows, &names)
    }

    fn replace_file_flows(&self, new: &Topology) -> Result<(), DataPlaneError> {
        let Some(flows) = &self.flows else { return Ok(()) };
        flows.bridges().try_for_each(|bridge| {
            let (flows, names) = self.flows_and_names(Some(bridge))?;
            flows.replace_file(bridge, new, names)
        })
    }

    fn remove_flows(&self, wanted: &FlowFilter) -> Result<usize, DataPlaneError> {
        let (flows, names) = self.flows_and_names(wanted.bridge.as_deref())?;
        flows.remove(wanted, &names)
    }

    fn connections(&self, wanted: &ConnectionFilter) -> Result<ConnectionReport, DataPlaneError> {
        Ok(self.flows_and_names(None)?.0.connections(wanted))
    }

    fn connection_limits(&self, settings: &ConntrackSettings) -> Result<ConnectionLimits, DataPlaneError> {
        let names = self.names();
        Ok(self.flows_and_names(None)?.0.connection_limits(settings, &names))
    }

    fn limit_connections(&self, settings: &ConntrackSettings) -> Result<(), DataPlaneError> {
        self.flows_and_names(None)?.0.limit_connections(settings);
        Ok(())
    }

    fn flush_connections(&self, zone: Option<u16>) -> Result<u64, DataPlaneError> {
        Ok(self.flows_and_names(None)?.0.flush_connections(zone))
    }

    fn set_mirrors(&self, mirrors: &[MirrorSettings]) -> Result<(), DataPlaneError> {
        self.replace_mirrors(mirrors)
    }

    fn mirrors(&self, bridge: &str) -> Vec<MirrorStatistics> {
        self.mirror_statistics(bridge)
    }

    fn tunnel_options(&self, wanted: &OptionFilter) -> Result<Vec<OptionEntry>, DataPlaneError> {
        self.flows_and_names(None)?.0.options(wanted)
    }

    fn add_tunnel_options(&self, request: &OptionRequest) -> Result<usize, DataPlaneError> {
        self.flows_and_names(None)?.0.add_options(request)
    }

    fn remove_tunnel_options(&self, wanted: &OptionFilter) -> Result<usize, DataPlaneError> {
        self.flows_and_names(None)?.0.remove_options(wanted)
    }

    fn tunnels(&self) -> Vec<TunnelEntry> {
        let names = self.names();
        let name = |id: PortId| names.get(&id.0).cloned();
        self.flows.as_ref().map(|flows| flows.tunnels(name)).unwrap_or_default()
    }

    fn export(&self) -> ExportReport {
        self.export.report()
    }

    fn capture(&self, request: &CaptureRequest) -> Result<Captured, DataPlaneError> {
        // No port is added before the capture is known.
        let members = self.members();
        self.captures.start(&self.engine, request, &captured(&members, request))
    }

    fn captures(&self) -> Vec<(u64, String)> {
        self.captures.handed_over()
    }

    fn continue_capture(&self, key: u64, request: &CaptureRequest) -> Result<(), DataPlaneError> {
        let known = {
            let members = self.members();
            self.captures.prepare(key, &self.engine, request, &captured(&members, request))?
        };
        wait_until_known(&known);
        Ok(())
    }

    fn restore_addresses(&self, addresses: &[FdbEntry]) {
        for entry in addresses {
            self.restore_address(entry);
        }
    }

    fn restore_counters(&self, before: &Snapshot) {
        self.engine.restore_counters(before);
    }

    fn continued(&self) -> Continued {
        self.continued()
    }

    fn save_state(
        &self,
        step: SaveStep,
        send: &mut dyn FnMut(StateMessage) -> Result<(), DataPlaneError>,
    ) -> Result<(), DataPlaneError> {
        self.send_state(step, send)
    }

    fn keep_state(&self, topology: &Topology) {
        self.keep(topology);
    }

    fn restore_state(&self, message: StateMessage) -> Result<(), DataPlaneError> {
        self.continue_state(message)
    }

    fn losses(&self) -> Result<Vec<Lost>, DataPlaneError> {
        self.losses().map_err(|e| DataPlaneError::refused("ports", &e, "try again"))
    }

    fn describe(&self, closed: &[String]) -> Result<Handovers, DataPlaneError> {
        let closed = closed.iter().filter_map(|name| self.place_of(name).map(|(id, _)| id));
        let described = self.engine.describe_ports(closed).map(|ports| self.by_name(ports));
        described.map_err(|e| DataPlaneError::refused("ports", &e, "try again"))
    }

    fn hand_over(&self) -> Result<Handovers, DataPlaneError> {
        let stopped = self.engine.hand_over_ports().map(|ports| self.by_name(ports));
        stopped.map_err(|e| DataPlaneError::refused("ports", &e, "try again"))
    }

    fn resume(&self) {
        // Fails only while the switch ends.
        let _ = self.engine.resume_ports();
    }

    fn release(&self) {
        // As above.
        let _ = self.engine.release_ports();
        self.captures.hand_over();
        self.flows.iter().for_each(Flows::stop_controllers);
    }

    fn start_controllers(&self, topology: &Topology) -> Result<(), Diagnostic> {
        self.connect_controllers(topology)
    }

    fn prepare(&self, ports: Handovers, on_fault: OnFault) -> Result<(), DataPlaneError> {
        let prepared = self.engine.prepare_ports(self.by_number(ports)?, on_fault);
        prepared.map_err(|e| DataPlaneError::refused("ports", &e, "see its log"))
    }

    fn take_over(&self, ports: Handovers, on_fault: OnFault) -> Result<(), DataPlaneError> {
        let taken = self.engine.take_over_ports(self.by_number(ports)?, on_fault);
        taken.map_err(|e| DataPlaneError::refused("ports", &e, "see its log"))
    }

    fn start_ports(&self) {
        // Fails only while the switch ends.
        let _ = self.engine.start_ports();
    }

    fn queues(&self) -> Result<Vec<QueueLoad>, DataPlaneError> {
        let remedy = "see `linerate workers show` for a hung worker";
        self.engine.queues().map_err(|e| DataPlaneError::refused("placement", &e, remedy))
    }

    fn latest_balance(&self) -> Option<Balance> {
        self.engine.latest_balance()
    }

    fn rebalance(&self, over: Duration, threshold: f64, moves: bool) -> Result<Balance, DataPlaneError> {
        let remedy = "see `linerate workers show` for a hung worker";
        let found = self.engine.rebalance(over, threshold, moves);
        found.map_err(|e| DataPlaneError::refused("rebalance", &e, remedy))
    }
}

fn refused_worker(place: &str, error: &EngineError) -> DataPlaneError {
    DataPlaneError::refused(place, error, "name another CPU, or raise the limits on threads and descriptors")
}

/// The rules for receive queues of `wanted`; `None` if it has none.
fn rules(wanted: &Topology) -> Result<Option<QueueAffinity>, DataPlaneError> {
    affinity(wanted).map_err(DataPlaneError::Refused)
}

/// The ports of a capture.
fn captured(members: &[Member], request: &CaptureRequest) -> Sources {
    let wanted = |name: &String| request.ports.is_empty() || request.ports.contains(name);
    let ports = members.iter().filter(|member| request.trace.is_some() || wanted(&member.name));
    ports.map(|member| (member.id, member.name.clone(), wanted(&member.name))).collect()
}

/// Report of a bridge, with port names. A removed port has no name.
fn bridge_report(bridge: BridgeStatistics, names: &BTreeMap<u16, String>, second: u32) -> BridgeReport {
    let name = |number: u16| names.get(&number).cloned().unwrap_or_default();
    let port = |port: PortStatistics| BridgePort {
        port: name(port.port),
        learned: port.learned,
        max_macs: port.max_macs,
        pinned: port.static_entries,
        not_learned: port.refused,
        deferred: port.deferred,
        moves: port.moves,
        refused_moves: port.refused_moves,
        stp: None,
    };
    let event = |refused: RefusedMove| MoveEvent {
        mac: refused.mac,
        vlan: refused.vlan,
        old_port: name(refused.old_port),
        new_port: name(refused.new_port),
        age: second.saturating_sub(refused.second),
    };
    BridgeReport {
        name: bridge.name,
        addresses: bridge.stations,
        table: bridge.capacity,
        ports: bridge.ports.into_iter().map(port).collect(),
        refused_moves: bridge.refused_moves.into_iter().map(event).collect(),
        openflow: None,
        stp: None,
    }
}
