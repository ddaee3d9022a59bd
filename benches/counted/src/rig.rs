//! A learning switch with guests on one thread: worker code of the engine, queues of the vhost-user port, no system
//! calls.

use anyhow::{Context, Result, bail};
use bridge::Switch;
use bridge::{BridgeConfig, PortConfig, Vlan, VlanSet};
use engine::bench::{StepConfig, SteppedWorker};
use engine::{Now, Pipelines};
use flow::tables::Modification;
use flow::{Action, CacheCounts, Field, FlowCommand, FlowMod, FlowSwitch, Instructions, Match, PortNo};
use mem::copy::Choice;
use port::PortId;
use port::vhost_user::QUEUES;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::VlanId;

use crate::guest::{Guest, Mac, guest_of};
use crate::stations::Stations;
use port::virtio_user::RingKind;

/// Packets of a full burst.
pub const BURST: usize = port::BURST;
/// Flows that are added together.
pub const BUNDLE: usize = 1000;
const BRIDGE: &str = "br0";
/// New stations that the bridge learns per burst.
const LEARNED_PER_BURST: usize = 8;

/// Parameters of a rig.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Rings of every guest.
    pub ring: RingKind,
    /// Entries of each ring.
    pub queue_size: u16,
    /// Stations and their ports.
    pub stations: Stations,
    /// Copy kernel; the first rig of a process selects it for all.
    pub kernel: Choice,
    /// Ticks per nanosecond; infinity stops the bridge's clock, which disables ageing.
    pub ticks_per_ns: f64,
}

/// Optional features of a rig.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extras {
    /// Port 0 is an access port of this VLAN; the others are trunks that carry it.
    pub vlan: Option<VlanId>,
    /// Frames may span several receive buffers of this many bytes, header included.
    pub merged: Option<u32>,
    /// The switch is a pipeline of three stages that alternate on one thread.
    pub staged: bool,
    /// An OpenFlow bridge in place of the learning bridge.
    pub flows: Option<Flows>,
}

/// Flows of an OpenFlow bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flows {
    /// One for each port, which sends its packets to the next port.
    OfPorts,
    /// One for each station, by the destination address.
    OfAddresses,
}

/// Guests around a switch.
pub struct Rig {
    /// The switch.
    pub worker: SteppedWorker,
    /// The guests, by port.
    pub guests: Vec<Box<dyn Guest>>,
    /// Stations and their ports.
    pub stations: Stations,
    /// The OpenFlow bridge, if there is one.
    pub flows: Option<LoadedFlows>,
    _pipelines: Arc<dyn Pipelines>,
}

/// An OpenFlow bridge and what its flows have cost.
pub struct LoadedFlows {
    switch: Arc<FlowSwitch>,
    /// Number of flows.
    pub count: usize,
    /// Time in which they were added, in bundles of [`BUNDLE`].
    pub took: Duration,
    /// Resident memory that they have added, in bytes.
    pub bytes: u64,
}

impl LoadedFlows {
    /// Packets by the place where their result was found, up to the last millisecond.
    pub fn cache_counts(&self) -> Result<CacheCounts> {
        Ok(self.switch.cache_counts(BRIDGE)?)
    }
}

impl Rig {
    /// Builds a rig in which the bridge has learned every station.
    pub fn new(shape: &Shape) -> Result<Self> {
        Self::with(shape, &Extras::default())
    }

    /// As [`Rig::new`], with extras. Stations that cannot send to a VLAN are added as static entries.
    pub fn with(shape: &Shape, extras: &Extras) -> Result<Self> {
        let settled = mem::copy::settle(shape.kernel);
        if settled != shape.kernel {
            bail!("the copy kernel is {settled} already; one process measures one kernel");
        }
        let ports = shape.stations.ports;
        let normal = bridge(shape.stations, extras)?;
        let (pipelines, flows): (Arc<dyn Pipelines>, _) = match extras.flows {
            None => (Arc::new(normal), None),
            Some(flows) => {
                let loaded = openflow(normal, shape.stations, flows)?;
                (loaded.switch.clone(), Some(loaded))
            }
        };
        let config = StepConfig { max_ports: ports, kernel: settled, ticks_per_ns: shape.ticks_per_ns };
        let mut worker = if extras.staged {
            SteppedWorker::staged(&config, pipelines.worker(0))?
        } else {
            SteppedWorker::new(&config, pipelines.worker(0))?
        };
        let mut guests = Vec::new();
        for port in 0..ports {
            let guest = guest_of(shape.ring, shape.queue_size, extras.merged)?;
            let [from, to] = guest.setups()?;
            worker.start(PortId(port as u16), (QUEUES.rx)(&from)?, (QUEUES.tx)(&to)?);
            guests.push(guest);
        }
        let mut rig = Self { worker, guests, stations: shape.stations, flows, _pipelines: pipelines };
        rig.teach()?;
        Ok(rig)
    }

    /// Every station sends a frame to itself, which the bridge learns from and does not forward.
    fn teach(&mut self) -> Result<()> {
        for first in (0..self.stations.per_port()).step_by(LEARNED_PER_BURST) {
            for (port, guest) in self.guests.iter_mut().enumerate() {
                for n in first..self.stations.per_port().min(first + LEARNED_PER_BURST) {
                    let mac = self.stations.mac(port, n);
                    guest.send(mac, mac, 64);
                }
                guest.publish();
            }
            self.settle()?;
        }
        Ok(())
    }

    /// A full burst of frames of `size` bytes from each of the first `senders` ports, from its stations from number
    /// `first` on. `to`: destination of the frame of a port and a number.
    pub fn send(&mut self, senders: usize, first: usize, size: usize, to: impl Fn(usize, usize) -> Mac) {
        for (port, guest) in self.guests.iter_mut().enumerate().take(senders) {
            for n in first..first + BURST {
                guest.send(to(port, n), self.stations.mac(port, n), size);
            }
            guest.publish();
        }
    }

    /// Runs the switch until it is idle.
    pub fn settle(&mut self) -> Result<()> {
        while self.worker.round() {
            self.collect()?;
        }
        self.collect()?;
        Ok(())
    }

    /// Collects at every guest. Returns the total number of packets received.
    pub fn collect(&mut self) -> Result<usize> {
        if let Some((port, fault)) = self.worker.fault() {
            bail!("the queue of port {} broke: {fault}", port.0);
        }
        self.guests.iter_mut().map(|guest| guest.collect()).sum()
    }
}

fn bridge(stations: Stations, extras: &Extras) -> Result<Switch> {
    let switch = Switch::new(stations.ports);
    let capacity = (stations.count() * 5 / 4).max(65_536);
    switch.add_bridge(BRIDGE, BridgeConfig { capacity, ..BridgeConfig::default() })?;
    let config = PortConfig { max_macs: Some(capacity as u32), ..PortConfig::default() };
    for port in 0..stations.ports {
        let vlan = extras.vlan.map_or(Vlan::Transparent, |vlan| membership(port, vlan));
        switch.add_port(PortId(port as u16), BRIDGE, &PortConfig { vlan, ..config.clone() })?;
    }
    // A trunk drops untagged frames, and the guests send no others, so stations behind trunks are static.
    for port in 1..stations.ports.min(extras.vlan.map_or(0, |_| stations.ports)) {
        for n in 0..stations.per_port() {
            switch.add_static(BRIDGE, stations.mac(port, n).into(), extras.vlan, PortId(port as u16))?;
        }
    }
    Ok(switch)
}

fn openflow(normal: Switch, stations: Stations, flows: Flows) -> Result<LoadedFlows> {
    let switch = Arc::new(FlowSwitch::new(Arc::new(normal)));
    switch.add_bridge(BRIDGE)?;
    let numbers = (0..stations.ports).map(|port| switch.add_port(PortId(port as u16), BRIDGE, None));
    let numbers = numbers.collect::<Result<Vec<_>, _>>()?;
    let mut flows: Box<dyn Iterator<Item = Modification>> = match flows {
        Flows::OfPorts => Box::new(numbers.iter().zip(numbers.iter().cycle().skip(1)).map(of_port)),
        Flows::OfAddresses => Box::new(
            (0..stations.per_port())
                .flat_map(|n| numbers.iter().enumerate().map(move |(port, to)| (stations.mac(port, n), *to)))
                .map(|(mac, to)| flow(&Match::any().with(Field::EthDst, number(mac)), to)),
        ),
    };
    let (before, start, mut count) = (resident()?, Instant::now(), 0);
    loop {
        let bundle: Vec<_> = flows.by_ref().take(BUNDLE).collect();
        if bundle.is_empty() {
            break;
        }
        switch.modify(BRIDGE, &bundle, Now(0))?;
        count += bundle.len();
    }
    let (took, bytes) = (start.elapsed(), resident()?.saturating_sub(before));
    Ok(LoadedFlows { switch, count, took, bytes })
}

/// Resident memory of this process, in bytes.
fn resident() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS in status")?;
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kibibytes * 1024)
}

fn of_port((from, to): (&PortNo, &PortNo)) -> Modification {
    flow(&Match::any().with(Field::InPort, from.0.into()), *to)
}

fn number(mac: [u8; 6]) -> u128 {
    mac.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
}

fn flow(matching: &Match, to: PortNo) -> Modification {
    let apply = vec![Action::Output { port: to, max_len: 0 }];
    Modification::Flow(Box::new(FlowMod {
        instructions: Instructions { apply, ..Instructions::default() },
        ..FlowMod::new(FlowCommand::Add, matching, 1)
    }))
}

/// Port 0 is an access port of `vlan`; the others are trunks that carry it tagged.
fn membership(port: usize, vlan: VlanId) -> Vlan {
    if port == 0 {
        return Vlan::Access(vlan);
    }
    let mut allowed = VlanSet::empty();
    allowed.insert(vlan);
    Vlan::Trunk { allowed, native: None }
}
