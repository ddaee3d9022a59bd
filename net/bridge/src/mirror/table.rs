//! The mirrors of a bridge as workers read them: masks by port, and outputs.

use super::config::{Counters, Mirror, MirrorOutput};
use crate::VlanSet;
use crate::config::Vlan;
use port::PortId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The active mirrors of a bridge, at most 32. Sets of mirrors are masks of their positions.
#[derive(Debug, Default)]
pub(crate) struct Mirrors {
    pub(super) active: Vec<ActiveMirror>,
    /// By port: mirrors that copy its received packets, and those that copy its sent packets.
    selected: BTreeMap<PortId, [u32; 2]>,
    reserved: Vec<PortId>,
}

#[derive(Debug)]
pub(super) struct ActiveMirror {
    pub(super) vlans: Option<VlanSet>,
    pub(super) output: Output,
    pub(super) snap_length: Option<u16>,
    /// Mirrors with the same output, this one included: a packet is copied for one of them.
    pub(super) twins: u32,
    pub(super) counters: Arc<Counters>,
}

/// Where copies go.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Output {
    Port(PortId),
    /// The VLAN, and its ports, each with whether it sends the VLAN tagged.
    Vlan(u16, Vec<(PortId, bool)>),
}

impl Mirrors {
    /// Mirrors of a bridge with these ports. Returns `None` if none is active.
    pub(crate) fn new(mirrors: &[Arc<Mirror>], ports: &BTreeMap<PortId, &Vlan>) -> Option<Arc<Self>> {
        let mut made = Self { reserved: reserved(mirrors, ports), ..Self::default() };
        for mirror in mirrors.iter().filter(|mirror| is_active(mirror, ports)) {
            made.add(mirror, ports);
        }
        for i in 0..made.active.len() {
            let twins = made.active.iter().enumerate();
            let twins = twins.filter(|(_, other)| other.output == made.active[i].output);
            made.active[i].twins = twins.fold(0, |mask, (at, _)| mask | 1 << at);
        }
        (!made.active.is_empty()).then(|| Arc::new(made))
    }

    fn add(&mut self, mirror: &Mirror, ports: &BTreeMap<PortId, &Vlan>) {
        let config = &mirror.config;
        let bit = 1 << self.active.len();
        for port in ports.keys().filter(|port| !self.reserved.contains(port)) {
            let lists = [&config.sources, &config.destinations];
            for (mask, list) in self.selected.entry(*port).or_default().iter_mut().zip(lists) {
                *mask |= if config.all || list.contains(port) { bit } else { 0 };
            }
        }
        let output = match config.output {
            None => return,
            Some(MirrorOutput::Port(port)) => Output::Port(port),
            Some(MirrorOutput::Vlan(vlan)) => {
                let own = ports
                    .iter()
                    .filter(|(port, mode)| mode.carries(vlan.get()) && !self.reserved.contains(port));
                Output::Vlan(vlan.get(), own.map(|(port, mode)| (*port, mode.tags(vlan.get()))).collect())
            }
        };
        let (vlans, snap_length, counters) = (config.vlans.clone(), config.snap_length, mirror.counters());
        self.active.push(ActiveMirror { vlans, output, snap_length, twins: 0, counters });
    }

    /// Mirrors that copy received packets of a port.
    pub(super) fn of_received(&self, port: PortId) -> u32 {
        self.selected.get(&port).map_or(0, |masks| masks[0])
    }

    /// Mirrors that copy sent packets of a port.
    pub(super) fn of_sent(&self, port: PortId) -> u32 {
        self.selected.get(&port).map_or(0, |masks| masks[1])
    }

    /// Output ports.
    pub(super) fn reserved(&self) -> &[PortId] {
        &self.reserved
    }
}

/// Whether the output of a mirror exists.
pub(crate) fn is_active(mirror: &Mirror, ports: &BTreeMap<PortId, &Vlan>) -> bool {
    match mirror.config.output {
        None => false,
        Some(MirrorOutput::Port(port)) => ports.contains_key(&port),
        Some(MirrorOutput::Vlan(_)) => true,
    }
}

/// Ports of a bridge that are outputs of mirrors.
pub(crate) fn reserved(mirrors: &[Arc<Mirror>], ports: &BTreeMap<PortId, &Vlan>) -> Vec<PortId> {
    let outputs = mirrors.iter().filter_map(|mirror| match mirror.config.output {
        Some(MirrorOutput::Port(port)) => Some(port),
        Some(MirrorOutput::Vlan(_)) | None => None,
    });
    let mut reserved: Vec<_> = outputs.filter(|port| ports.contains_key(port)).collect();
    reserved.sort_unstable();
    reserved.dedup();
    reserved
}
