//! The real plant: an engine, and the bridges that decide for it.
//!
//! This is where words of the configuration become values of the rooms to the left. A port is known to its bridge
//! before its first packet can come in, and leaves the engine before its bridge forgets it.

use crate::api::model::{BridgePort, BridgeReport, FdbEntry, FdbFilter, MoveEvent, Origin, Snapshot};
use crate::data_plane::{DataPlane, DataPlaneError};
use crate::kinds::{self, Loaded, Loading};
use crate::model::{Role, RssMode};
use crate::placement::{Placement, Rebalance};
use crate::topology::{
    self, BridgeSettings, Polling, PortSettings, QueueFull, StaticEntry, Topology, Vlan, WorkerSettings,
};
use bridge::{
    BridgeConfig, BridgeStatistics, MacMoves, PortConfig, PortStatistics, Rate, RefusedMove, Selection,
};
use console::Diagnostic;
use engine::balance::{Balance, QueueLoad, Rebalancing};
use engine::{Engine, EngineConfig, EngineError, Now, Rss, WorkerConfig};
use port::deferred::DeferredPort;
use port::{PortControl, PortId};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wire::{MacAddress, VlanId};

/// Most ports at one time. Counters and tables for all of them are allocated at the start.
pub(crate) const MOST_PORTS: usize = 1024;

/// How long and how often a place that is in use is retried.
const CLEARING: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(20);

/// A running engine with its bridges.
pub(crate) struct Switch {
    engine: Engine,
    bridges: bridge::Switch,
    /// The addresses that a port may teach its bridge, by bridge, where a port says nothing of its own.
    quotas: BTreeMap<String, Option<u32>>,
    /// Where ports with one queue pair are spread, if they say nothing of their own.
    rss_mode: RssMode,
    members: Mutex<Vec<Member>>,
}

/// A port that runs.
struct Member {
    id: PortId,
    name: String,
    bridge: String,
}

impl Switch {
    /// Starts everything that `topology` describes, or nothing. A port whose place is not there runs all the same and
    /// tries again; what is in its way is the second part of the answer. Where that is so for all of them, nothing
    /// starts.
    pub(crate) fn start(topology: &Topology) -> Result<(Self, Vec<Diagnostic>), Diagnostic> {
        let bridges = bridge::Switch::new(MOST_PORTS);
        for bridge in &topology.bridges {
            let place = format!("bridge \"{}\"", bridge.name);
            let added = bridges.add_bridge(&bridge.name, bridge_config(bridge));
            added.map_err(|e| Diagnostic::failed(place, e, "correct this [[bridge]] section"))?;
        }
        let workers = topology.workers.iter().map(worker_config).collect();
        let model = topology.model.engine(topology.workers.iter().map(|worker| worker.roles));
        let engine = Engine::start_as(
            EngineConfig { workers, max_ports: MOST_PORTS, rss: rss(topology.switch.rss) },
            model,
            &bridges,
        );
        let remedy = "correct what is said of workers, or give this process more threads and descriptors";
        let engine = engine.map_err(|e| Diagnostic::failed("workers", e, remedy))?;
        let quotas = topology.bridges.iter().map(|bridge| (bridge.name.clone(), bridge.max_macs_per_port));
        let rss_mode = topology.model.rss_mode;
        let switch = Self { engine, bridges, quotas: quotas.collect(), rss_mode, members: Mutex::default() };
        switch
            .place(topology)
            .map_err(|e| Diagnostic::failed("placement", e, "correct the [placement] section"))?;
        let awaited = switch.populate(topology)?;
        Ok((switch, awaited))
    }

    /// Tells the engine which queues have their worker, and what is done about load.
    fn place(&self, topology: &Topology) -> Result<(), DataPlaneError> {
        let Some(placement) = &topology.placement else { return Ok(()) };
        let is_port = |name: &str| topology.ports.iter().any(|port| port.name == name);
        let seats = placement.affinity(topology.takers(), is_port).map_err(DataPlaneError::said)?;
        self.engine.set_queue_affinity(seats).map_err(DataPlaneError::said)?;
        self.engine.watch_load(rebalancing(placement)).map_err(DataPlaneError::said)
    }

    fn populate(&self, topology: &Topology) -> Result<Vec<Diagnostic>, Diagnostic> {
        let made: Vec<_> = topology.ports.iter().map(|port| (port, patiently(port))).collect();
        let troubles = made.iter().filter_map(|(port, made)| Some(not_made(port, made.as_ref().err()?)));
        let troubles: Vec<_> = troubles.collect();
        if !made.is_empty() && troubles.len() == made.len() {
            return Err(Diagnostic::all(troubles));
        }
        for (port, made) in made {
            let control = made.unwrap_or_else(|why| deferred(port, &why));
            let remedy = "correct this [[port]] section";
            self.join(port, control).map_err(|e| Diagnostic::failed(place(port), e, remedy))?;
        }
        for entry in topology.bridges.iter().flat_map(|bridge| &bridge.statics) {
            let remedy = "correct this static entry";
            self.pin(entry).map_err(|e| Diagnostic::failed(entry, e, remedy))?;
        }
        Ok(troubles)
    }

    /// Makes a port that was made a member of its bridge.
    fn join(&self, port: &PortSettings, control: Box<dyn PortControl>) -> Result<(), DataPlaneError> {
        let mut members = self.members();
        let id = self.plug_in(port, control)?;
        members.push(Member { id, name: port.name.clone(), bridge: port.bridge.clone() });
        Ok(())
    }

    /// A panic elsewhere leaves the list as it was: it changes in one step.
    fn members(&self) -> MutexGuard<'_, Vec<Member>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The names of the ports that run, by number.
    fn names(&self) -> BTreeMap<u16, String> {
        self.members().iter().map(|member| (member.id.0, member.name.clone())).collect()
    }

    /// Hands `control` to the engine, with a number that its bridge knows already.
    fn plug_in(&self, port: &PortSettings, control: Box<dyn PortControl>) -> Result<PortId, DataPlaneError> {
        let quota = self.quotas.get(&port.bridge).copied().flatten();
        let id = self.engine.reserve(&port.name).map_err(DataPlaneError::said)?;
        let joined =
            self.bridges.add_port(id, &port.bridge, &port_config(port, quota)).map_err(DataPlaneError::said);
        let started = joined.and_then(|()| self.start_port(id, port, control).map_err(DataPlaneError::said));
        started.map(|()| id).inspect_err(|_| {
            // The first error says more; a port that never ran is not held.
            let _ = self.pull_out(id);
        })
    }

    fn start_port(
        &self,
        id: PortId,
        port: &PortSettings,
        control: Box<dyn PortControl>,
    ) -> Result<(), EngineError> {
        // A port with several queue pairs has spread packets already by choosing one.
        let usual = if port.queue_pairs == 1 { self.rss_mode } else { RssMode::Queues };
        match port.rss_mode.unwrap_or(usual) {
            RssMode::Software => self.engine.add_spread(id, control),
            RssMode::Queues => self.engine.add_reserved(id, control),
        }
    }

    /// Takes a port away from engine and bridge. What has gone already is what is wanted. Whatever the answer, `id`
    /// is the engine's from here on, which may give it to another port.
    fn pull_out(&self, id: PortId) -> Result<(), DataPlaneError> {
        let removed = self.engine.remove_port(id);
        let _ = self.bridges.remove_port(id);
        match removed {
            Err(EngineError::WorkerHung(worker)) => Err(DataPlaneError::Held(worker)),
            _ => Ok(()),
        }
    }

    /// The addresses of one bridge.
    fn stations(&self, bridge: &str) -> Vec<bridge::Station> {
        let now = Now(self.engine.snapshot().uptime_ns);
        self.bridges.stations(bridge, now).unwrap_or_default()
    }
}

impl DataPlane for Switch {
    fn snapshot(&self) -> Snapshot {
        self.engine.snapshot()
    }

    fn fdb(&self) -> Vec<FdbEntry> {
        let names = self.names();
        let entry = |bridge: &str, station: bridge::Station| FdbEntry {
            bridge: bridge.to_owned(),
            mac: station.mac,
            vlan: station.vlan,
            port: names.get(&station.port).cloned().unwrap_or_default(),
            origin: if station.pinned { Origin::Static } else { Origin::Learned },
            age: station.age_seconds,
        };
        let bridges = self.quotas.keys();
        bridges.flat_map(|bridge| self.stations(bridge).into_iter().map(move |s| entry(bridge, s))).collect()
    }

    fn bridges(&self) -> Vec<BridgeReport> {
        let second = (self.engine.snapshot().uptime_ns / 1_000_000_000) as u32;
        let names = self.names();
        self.bridges.statistics().into_iter().map(|bridge| bridge_report(bridge, &names, second)).collect()
    }

    fn addresses(&self, bridge: &str) -> usize {
        let all = self.bridges.statistics();
        all.iter().find(|statistics| statistics.name == bridge).map_or(0, |statistics| statistics.stations)
    }

    fn add_port(&self, port: &PortSettings, loaded: Loaded) -> Result<(), DataPlaneError> {
        self.join(port, patiently_of(port, &loaded)?)
    }

    fn remove_port(&self, name: &str) -> Result<(), DataPlaneError> {
        let mut members = self.members();
        let index = members.iter().position(|member| member.name == name);
        let index = index.ok_or_else(|| DataPlaneError::Refused(format!("port \"{name}\" does not run")))?;
        // Forgotten even if a worker holds it: under its number, another port may run soon.
        self.pull_out(members.remove(index).id)
    }

    fn add_worker(&self, role: Role, worker: &WorkerSettings) -> Result<usize, DataPlaneError> {
        let added = self.engine.add_stage(role.engine(), worker_config(worker), &self.bridges);
        added.map_err(DataPlaneError::said)
    }

    fn pin(&self, entry: &StaticEntry) -> Result<(), DataPlaneError> {
        let members = self.members();
        let member = members.iter().find(|member| member.name == entry.port);
        let member =
            member.ok_or_else(|| DataPlaneError::Refused(format!("port \"{}\" does not run", entry.port)))?;
        let vlan = VlanId::new(entry.vlan);
        self.bridges.add_static(&member.bridge, entry.mac, vlan, member.id).map_err(DataPlaneError::said)
    }

    fn forget(&self, bridge: &str, mac: MacAddress, vlan: u16) -> Result<(), DataPlaneError> {
        self.bridges.forget(bridge, mac, vlan).map_err(DataPlaneError::said)
    }

    fn flush(&self, wanted: &FdbFilter) -> Result<u64, DataPlaneError> {
        let members = self.members();
        let port = wanted.port.as_ref().and_then(|name| members.iter().find(|member| member.name == *name));
        if wanted.port.is_some() && port.is_none() {
            return Ok(0);
        }
        let home = |bridge: &&String| port.is_none_or(|port| port.bridge == **bridge);
        let named = |bridge: &&String| wanted.bridge.as_ref().is_none_or(|name| name == *bridge);
        let selection = Selection { port: port.map(|port| port.id), vlan: wanted.vlan };
        self.quotas.keys().filter(home).filter(named).try_fold(0, |sum, bridge| {
            Ok(sum + self.bridges.flush(bridge, selection).map_err(DataPlaneError::said)? as u64)
        })
    }

    fn queues(&self) -> Result<Vec<QueueLoad>, DataPlaneError> {
        self.engine.queues().map_err(DataPlaneError::said)
    }

    fn latest_balance(&self) -> Option<Balance> {
        self.engine.latest_balance()
    }

    fn rebalance(&self, over: Duration, threshold: f64, moves: bool) -> Result<Balance, DataPlaneError> {
        self.engine.rebalance(over, threshold, moves).map_err(DataPlaneError::said)
    }
}

/// A bridge with its ports by name. A port that was removed has none.
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
    }
}

/// A port with what is around it.
fn make(port: &PortSettings, loaded: Loaded) -> Result<Box<dyn PortControl>, DataPlaneError> {
    port.wrappers.around(port.kind.plug(port, loaded)?, &port.name)
}

/// As [`make`], with the file that the port plays, for a thread that may wait.
pub(crate) fn patiently(port: &PortSettings) -> Result<Box<dyn PortControl>, DataPlaneError> {
    patiently_of(port, &kinds::load(&port.kind).map_err(DataPlaneError::said)?)
}

/// As [`make`], for a thread that may wait: a switch that was killed leaves its sockets to the kernel, which takes a
/// moment to clear them away.
fn patiently_of(port: &PortSettings, loaded: &Loaded) -> Result<Box<dyn PortControl>, DataPlaneError> {
    let began = Instant::now();
    loop {
        match make(port, loaded.clone()) {
            Err(DataPlaneError::Taken(_)) if began.elapsed() < CLEARING => std::thread::sleep(PAUSE),
            made => return made,
        }
    }
}

/// What stands in for a port that could not be made because of `why`, until it can be. The control thread makes it, so
/// that a file is read by another.
fn deferred(port: &PortSettings, why: &DataPlaneError) -> Box<dyn PortControl> {
    let (settings, mut loading) = (port.clone(), Loading::default());
    let make = move || {
        let loaded = loading.poll(&settings.kind)?;
        make(&settings, loaded).map_err(|why| why.to_string())
    };
    Box::new(DeferredPort::new(port.kind.name(), port.kind.place(), why.to_string(), Box::new(make)))
}

fn place(port: &PortSettings) -> String {
    format!("port \"{}\"", port.name)
}

/// Why a port could not be made, and its remedy, where the room that refused told one.
pub(crate) fn not_made(port: &PortSettings, why: &DataPlaneError) -> Diagnostic {
    let why = why.to_string();
    let (reason, remedy) =
        why.split_once("; ").unwrap_or((&why, "do what the reason asks for, or remove the port"));
    Diagnostic::bad(place(port), reason, remedy)
}

fn rebalancing(placement: &Placement) -> Option<Rebalancing> {
    let moves = match placement.rebalance {
        Rebalance::Off => return None,
        Rebalance::DryRun => false,
        Rebalance::Auto => true,
    };
    Some(Rebalancing { interval: placement.interval.0, threshold: placement.threshold.0, moves })
}

fn rss(rss: topology::Rss) -> Rss {
    match rss {
        topology::Rss::Symmetric => Rss::Symmetric,
        topology::Rss::Toeplitz => Rss::Toeplitz,
        topology::Rss::Pair => Rss::Pair,
    }
}

fn worker_config(worker: &WorkerSettings) -> WorkerConfig {
    WorkerConfig {
        cpu: worker.cpu,
        polling: match worker.polling {
            Polling::Adaptive => engine::Polling::Adaptive,
            Polling::Busy => engine::Polling::Busy,
        },
        queue_full: match worker.queue_full {
            QueueFull::Drop => engine::QueueFull::Drop,
            QueueFull::Wait => engine::QueueFull::Wait,
        },
    }
}

fn bridge_config(bridge: &BridgeSettings) -> BridgeConfig {
    BridgeConfig {
        capacity: bridge.table as usize,
        ageing_seconds: bridge.ageing,
        forward_reserved: bridge.forward_reserved,
        mac_moves: match bridge.mac_moves {
            topology::MacMoves::Guarded => MacMoves::Guarded,
            topology::MacMoves::Free => MacMoves::Free,
        },
        dhcp_snooping: bridge.dhcp_snooping,
    }
}

fn port_config(port: &PortSettings, quota: Option<u32>) -> PortConfig {
    let security = &port.security;
    let rate = |limit: Option<u32>| limit.and_then(NonZeroU32::new).map(Rate::per_second);
    PortConfig {
        vlan: vlan(port.vlan.as_ref()),
        trusted: security.trusted,
        learn: security.learn,
        max_macs: security.max_macs.or(quota),
        macs: security.macs.clone(),
        sources: (!security.sources.is_empty()).then(|| security.sources.clone()),
        broadcast_limit: rate(port.broadcast_limit),
        unknown_limit: rate(port.unknown_limit),
    }
}

/// The configuration has been judged: every number is a VLAN's.
fn vlan(vlan: Option<&Vlan>) -> bridge::Vlan {
    match vlan {
        None => bridge::Vlan::Transparent,
        Some(Vlan::Access(own)) => VlanId::new(*own).map_or_else(Default::default, bridge::Vlan::Access),
        Some(Vlan::Trunk { trunk, native }) => bridge::Vlan::Trunk {
            allowed: trunk.iter().copied().filter_map(VlanId::new).collect(),
            native: native.and_then(VlanId::new),
        },
    }
}

#[cfg(test)]
mod tests;
