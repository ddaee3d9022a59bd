//! A data plane for tests: stores ports and static entries, and forwards nothing. Removal of a port named [`HELD`]
//! reports a hanging worker; removal of a port named [`STAYS`] fails. A port named [`FAULTED`] has failed.

use crate::dataplane::bond_report::BondState;
use crate::dataplane::capture_report::{CaptureEnd, CaptureRequest, Captured, Continuation};
use crate::dataplane::connections::{ConnectionFilter, ConnectionLimits, ConnectionReport};
use crate::dataplane::export_report::ExportReport;
use crate::dataplane::flow_report::{FlowCounts, TraceReport, TraceRequest};
use crate::dataplane::handover::Lost;
use crate::dataplane::interface::{DataPlane, DataPlaneError};
use crate::dataplane::link_report::{NeighborsReport, StpPortReport};
use crate::dataplane::multicast_report::MulticastReport;
use crate::dataplane::offload_report::OffloadReport;
use crate::dataplane::report::{
    BridgeReport, FdbEntry, FdbFilter, FlowEntry, FlowFilter, FlowRequest, MoveEvent, Origin, StationFilter,
};
use crate::dataplane::state::{Continued, SaveStep, StateMessage};
use crate::dataplane::tunnels::{OptionEntry, OptionFilter, OptionRequest, TunnelEntry};
use crate::settings::bonds::BondSettings;
use crate::settings::conntrack::ConntrackSettings;
use crate::settings::kinds::kind::Loaded;
use crate::settings::mirror::MirrorSettings;
use crate::settings::model::{ModelSettings, Role};
use crate::settings::topology::{
    BridgeSettings, PortSettings, StaticEntry, SwitchSettings, Topology, WorkerSettings,
};
use bridge::MirrorStatistics;
use console::Diagnostic;
use engine::balance::{Balance, Move, QueueLoad};
use engine::{OnFault, PortSnapshot, Snapshot, WorkerSnapshot};
use port::handover::Handovers;
use rustix::fd::OwnedFd;
use rustix::net::{Shutdown, shutdown};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;
use wire::MacAddress;

pub(super) const HELD: &str = "held";
pub(super) const STAYS: &str = "stays";
pub(super) const FAULTED: &str = "faulted";

#[derive(Default)]
pub(super) struct Fake {
    ports: Mutex<Vec<PortSettings>>,
    pinned: Mutex<Vec<StaticEntry>>,
    mirrors: Mutex<Vec<MirrorSettings>>,
    /// Connections to the holders of ports, by port.
    granted: Mutex<BTreeMap<String, OwnedFd>>,
}

/// A topology with one worker, the bridge `main` and no ports.
pub(super) fn topology() -> Topology {
    Topology {
        switch: SwitchSettings::default(),
        model: ModelSettings::default(),
        workers: vec![WorkerSettings::default()],
        placement: None,
        bonds: Vec::new(),
        grants: Vec::new(),
        flows: crate::settings::flows::FileFlows::default(),
        underlays: Vec::new(),
        conntrack: ConntrackSettings::default(),
        bridges: vec![BridgeSettings::named("main")],
        ports: Vec::new(),
        mirrors: Vec::new(),
    }
}

impl DataPlane for Fake {
    fn snapshot(&self) -> Snapshot {
        let ports = self.ports.lock().unwrap();
        let port = |p: &PortSettings| PortSnapshot {
            name: p.name.clone(),
            state: if p.name == FAULTED { "faulted" } else { "waiting" }.into(),
            ..Default::default()
        };
        Snapshot {
            budget: engine::BudgetSnapshot::default(),
            uptime_ns: 1_000_000_000,
            cycles_per_second: 2e9,
            kernel: "none".into(),
            workers: vec![WorkerSnapshot::default()],
            ports: ports.iter().map(port).collect(),
            removed: engine::RemovedSnapshot::default(),
        }
    }

    fn fdb(&self, wanted: &StationFilter) -> Vec<FdbEntry> {
        let entry = |e: &StaticEntry| FdbEntry {
            bridge: "main".into(),
            mac: e.mac,
            vlan: e.vlan,
            port: e.port.clone(),
            origin: Origin::Static,
            age: None,
        };
        let pinned = self.pinned.lock().unwrap();
        pinned.iter().filter(|e| wanted.names("main", &e.port, (e.mac, e.vlan))).map(entry).collect()
    }

    fn stp_ports(&self) -> BTreeMap<String, StpPortReport> {
        BTreeMap::new()
    }

    fn neighbors(&self) -> NeighborsReport {
        NeighborsReport::default()
    }

    fn offload(&self) -> OffloadReport {
        OffloadReport::default()
    }

    fn bridges(&self) -> Vec<BridgeReport> {
        let refused = MoveEvent {
            mac: MacAddress::new([2, 0, 0, 0, 0, 1]),
            vlan: 0,
            old_port: "a".into(),
            new_port: "b".into(),
            age: 3,
        };
        let (name, addresses) = ("main".into(), self.fdb(&StationFilter::default()).len());
        vec![BridgeReport {
            name,
            addresses,
            table: 16,
            ports: Vec::new(),
            refused_moves: vec![refused],
            openflow: None,
            stp: None,
        }]
    }

    fn multicast(&self) -> Vec<MulticastReport> {
        Vec::new()
    }

    fn flush_multicast(&self, _: &FdbFilter) -> u64 {
        0
    }

    fn addresses(&self, _bridge: &str) -> usize {
        self.fdb(&StationFilter::default()).len()
    }

    fn add_port(&self, port: &PortSettings, _: Loaded) -> Result<(), DataPlaneError> {
        self.ports.lock().unwrap().push(port.clone());
        Ok(())
    }

    fn add_granted(&self, port: &PortSettings, socket: OwnedFd) -> Result<(), DataPlaneError> {
        self.granted.lock().unwrap().insert(port.name.clone(), socket);
        self.add_port(port, None)
    }

    fn add_bridge(&self, _: &BridgeSettings) -> Result<(), DataPlaneError> {
        Ok(())
    }

    fn set_bridge(&self, _: &BridgeSettings, _: &[PortSettings]) -> Result<(), DataPlaneError> {
        Ok(())
    }

    fn remove_bridge(&self, _: &str) -> Result<(), DataPlaneError> {
        Ok(())
    }

    fn replace_file_flows(&self, _: &Topology) -> Result<(), DataPlaneError> {
        Ok(())
    }

    fn bonds(&self) -> BTreeMap<String, BondState> {
        BTreeMap::new()
    }

    fn add_bond(&self, _: &BondSettings, _: &[PortSettings]) -> Result<(), DataPlaneError> {
        Ok(())
    }

    fn set_bond(&self, _: &BondSettings, _: &[PortSettings]) -> Result<(), DataPlaneError> {
        Ok(())
    }

    fn remove_bond(&self, _: &str, _: &[PortSettings]) -> Result<(), DataPlaneError> {
        Ok(())
    }

    fn remove_port(&self, name: &str) -> Result<(), DataPlaneError> {
        if name == STAYS {
            return Err(DataPlaneError::Refused(Diagnostic::failed("a", "it stays", "leave it")));
        }
        self.ports.lock().unwrap().retain(|p| p.name != name);
        // Closes the connection, as the port does.
        let granted = self.granted.lock().unwrap().remove(name);
        if let Some(socket) = granted {
            shutdown(&socket, Shutdown::Both).unwrap();
        }
        if name == HELD { Err(DataPlaneError::held(name, 3)) } else { Ok(()) }
    }

    fn add_worker(&self, _: Option<Role>, wanted: &Topology) -> Result<usize, DataPlaneError> {
        match wanted.workers.last().and_then(|worker| worker.cpu) {
            Some(_) => Err(DataPlaneError::Refused(Diagnostic::failed("a", "it stays", "leave it"))),
            None => Ok(wanted.workers.len() - 1),
        }
    }

    fn worker_numbers(&self) -> Vec<Vec<usize>> {
        vec![vec![0], vec![1]]
    }

    fn worker_thread(&self, _: usize) -> Option<u32> {
        None
    }

    fn set_worker(&self, _: usize, worker: &WorkerSettings) -> Result<(), DataPlaneError> {
        match worker.cpu {
            Some(_) => Err(DataPlaneError::Refused(Diagnostic::failed("a", "it stays", "leave it"))),
            None => Ok(()),
        }
    }

    fn remove_worker(&self, _: usize, _: &Topology) -> Result<(), DataPlaneError> {
        Ok(())
    }

    fn pin(&self, entry: &StaticEntry) -> Result<(), DataPlaneError> {
        self.pinned.lock().unwrap().push(entry.clone());
        Ok(())
    }

    fn forget(&self, _bridge: &str, mac: MacAddress, vlan: u16) -> Result<(), DataPlaneError> {
        self.pinned.lock().unwrap().retain(|entry| (entry.mac, entry.vlan) != (mac, vlan));
        Ok(())
    }

    fn flush(&self, _wanted: &FdbFilter) -> Result<u64, DataPlaneError> {
        Ok(0)
    }

    fn flows(&self, _: &FlowFilter) -> Result<(usize, Vec<FlowEntry>), DataPlaneError> {
        Ok((0, Vec::new()))
    }

    fn flow_counts(&self, _: &str) -> Option<FlowCounts> {
        None
    }

    fn trace(&self, _: &TraceRequest) -> Result<TraceReport, DataPlaneError> {
        Ok(TraceReport { bridge: "main".to_owned(), passes: Vec::new(), omitted: 0 })
    }

    fn add_flows(&self, request: &FlowRequest) -> Result<usize, DataPlaneError> {
        Ok(request.flows.len())
    }

    fn remove_flows(&self, _: &FlowFilter) -> Result<usize, DataPlaneError> {
        Ok(0)
    }

    fn connections(&self, _: &ConnectionFilter) -> Result<ConnectionReport, DataPlaneError> {
        Ok(ConnectionReport::default())
    }

    fn connection_limits(&self, settings: &ConntrackSettings) -> Result<ConnectionLimits, DataPlaneError> {
        Ok(ConnectionLimits { max: settings.max, ..ConnectionLimits::default() })
    }

    fn limit_connections(&self, _: &ConntrackSettings) -> Result<(), DataPlaneError> {
        Ok(())
    }

    fn flush_connections(&self, _: Option<u16>) -> Result<u64, DataPlaneError> {
        Ok(0)
    }

    fn set_mirrors(&self, mirrors: &[MirrorSettings]) -> Result<(), DataPlaneError> {
        *self.mirrors.lock().unwrap() = mirrors.to_vec();
        Ok(())
    }

    fn mirrors(&self, _: &str) -> Vec<MirrorStatistics> {
        let statistics = |mirror: &MirrorSettings| MirrorStatistics {
            name: mirror.name.clone(),
            is_active: true,
            packets: 7,
            bytes: 700,
        };
        self.mirrors.lock().unwrap().iter().map(statistics).collect()
    }

    fn tunnels(&self) -> Vec<TunnelEntry> {
        Vec::new()
    }

    fn tunnel_options(&self, _: &OptionFilter) -> Result<Vec<OptionEntry>, DataPlaneError> {
        Ok(Vec::new())
    }

    fn add_tunnel_options(&self, request: &OptionRequest) -> Result<usize, DataPlaneError> {
        Ok(request.options.len())
    }

    fn remove_tunnel_options(&self, _: &OptionFilter) -> Result<usize, DataPlaneError> {
        Ok(0)
    }

    fn export(&self) -> ExportReport {
        ExportReport::default()
    }

    /// Ends at once. A capture of a client that connects again continues once, after an interruption.
    fn capture(&self, request: &CaptureRequest) -> Result<Captured, DataPlaneError> {
        let (pipe, end) = (rustix::pipe::pipe().unwrap().0, std::sync::OnceLock::new());
        let interruption = request.continues.map(|before| Duration::from_micros(before.time));
        if request.query.is_some() && request.continues.is_none() {
            let part = Continuation { key: 1, packets: 2, missed: 3, time: 4 };
            end.set(CaptureEnd::Continues(part)).unwrap();
        }
        Ok(Captured { pipe, end: end.into(), interruption })
    }

    fn continued(&self) -> Continued {
        Continued::default()
    }

    fn save_state(
        &self,
        _: SaveStep,
        send: &mut dyn FnMut(StateMessage) -> Result<(), DataPlaneError>,
    ) -> Result<(), DataPlaneError> {
        send(StateMessage::End)
    }

    fn keep_state(&self, _: &Topology) {}

    fn restore_state(&self, _: StateMessage) -> Result<(), DataPlaneError> {
        Ok(())
    }

    fn losses(&self) -> Result<Vec<Lost>, DataPlaneError> {
        let ports = self.ports.lock().unwrap();
        let stays = ports.iter().filter(|port| port.name == STAYS);
        Ok(stays.map(|port| Lost::Port(port.name.clone(), "it stays".to_owned())).collect())
    }

    fn describe(&self, _: &[String]) -> Result<Handovers, DataPlaneError> {
        Ok(Vec::new())
    }

    fn hand_over(&self) -> Result<Handovers, DataPlaneError> {
        Ok(Vec::new())
    }

    fn resume(&self) {}

    fn release(&self) {}

    fn restore_addresses(&self, _: &[FdbEntry]) {}

    fn restore_counters(&self, _: &Snapshot) {}

    fn start_controllers(&self, _: &Topology) -> Result<(), Diagnostic> {
        Ok(())
    }

    fn prepare(&self, _: Handovers, _: OnFault) -> Result<(), DataPlaneError> {
        Ok(())
    }

    fn take_over(&self, _: Handovers, _: OnFault) -> Result<(), DataPlaneError> {
        Ok(())
    }

    fn start_ports(&self) {}

    fn queues(&self) -> Result<Vec<QueueLoad>, DataPlaneError> {
        let queue = |port: &PortSettings| QueueLoad { port: port.name.clone(), ..QueueLoad::default() };
        Ok(self.ports.lock().unwrap().iter().map(queue).collect())
    }

    fn latest_balance(&self) -> Option<Balance> {
        None
    }

    fn rebalance(&self, over: Duration, threshold: f64, moves: bool) -> Result<Balance, DataPlaneError> {
        let step = Move { port: "a".to_owned(), to: 1, load: threshold, ..Move::default() };
        Ok(Balance {
            measured_ns: over.as_nanos() as u64,
            moves: vec![step],
            done: moves,
            ..Balance::default()
        })
    }
}
