//! The switch that an agent controls: one bridge with its ports.
//!
//! A port has the state and the counters of the engine. Its address is derived from the bridge and the number, because
//! most kinds of ports have none of their own. The local port has the name and the address of the bridge; it is a port
//! of the engine, or the bridge itself if that has addresses ([`BridgePorts::itself`]).

use super::change_log::ChangeCounts;
use super::{LivePorts, LiveQueues, Plane};
use crate::settings::wrappers::queues::LiveQueue;
use agent::Datapath;
use engine::PortSnapshot;
use flow::tables::{Changes, Modification, TableConfig, Tables};
use flow::{Action, CacheCounts, ChangeError, FlowSwitch, PacketOutError, PortConfig, PortNo, TableId};
use openflow::{ErrorCode, Port, PortMod, PortReason, PortStats, QueueDesc, QueueStats};
use port::{Now, PortId};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::MacAddress;

/// Bytes of a name in OpenFlow.
const NAME: usize = 15;
/// Configuration bits (OpenFlow 1.3.5, 7.2.1, `ofp_port_config`; `NO_FLOOD` is one of OpenFlow 1.0).
mod bit {
    pub(super) const PORT_DOWN: u32 = 1 << 0;
    pub(super) const NO_RECV: u32 = 1 << 2;
    pub(super) const NO_FLOOD: u32 = 1 << 4;
    pub(super) const NO_FWD: u32 = 1 << 5;
    pub(super) const NO_PACKET_IN: u32 = 1 << 6;
    pub(super) const ALL: u32 = PORT_DOWN | NO_RECV | NO_FLOOD | NO_FWD | NO_PACKET_IN;
}
/// `OFPPS_LINK_DOWN` and `OFPPS_LIVE`.
const LINK_DOWN: u32 = 1 << 0;
const LIVE: u32 = 1 << 2;
/// A counter that the switch does not have.
const NONE: u64 = u64::MAX;

/// A port when it was compared last.
struct Known {
    port: Port,
    since: Instant,
}

/// Ports and tables of one bridge.
pub(super) struct BridgePorts {
    bridge: String,
    datapath_id: u64,
    switch: Arc<FlowSwitch>,
    live: LivePorts,
    queues: LiveQueues,
    /// Configuration bits of ports, if any are set.
    config: BTreeMap<PortNo, u32>,
    known: BTreeMap<PortNo, Known>,
    /// Changes by others that the agent does not know yet.
    earlier: Changes,
    /// Changes by the agent since they were taken.
    pub(super) made: ChangeCounts,
}

impl BridgePorts {
    pub(super) fn new(bridge: &str, datapath_id: u64, plane: &Plane) -> Self {
        let configs = plane.switch.port_configs(bridge).into_iter();
        Self {
            bridge: bridge.to_owned(),
            datapath_id,
            switch: plane.switch.clone(),
            live: plane.live.clone(),
            queues: plane.queues.clone(),
            config: configs.map(|(number, config)| (number, port_bits(config))).collect(),
            known: BTreeMap::new(),
            earlier: Changes::default(),
            made: ChangeCounts::default(),
        }
    }

    /// The ports of the bridge by number, as they are now.
    fn current(&self) -> BTreeMap<PortNo, PortSnapshot> {
        let of_bridge = |live: PortSnapshot| {
            let (bridge, number) = self.switch.number(PortId(live.id))?;
            (bridge == self.bridge).then_some((number, live))
        };
        (self.live)().into_iter().filter_map(of_bridge).collect()
    }

    /// The local port of a bridge with addresses of its own.
    fn itself(&self) -> Option<Port> {
        let address = self.switch.local_address(&self.bridge)?;
        Some(Port { state: LIVE, ..Port::new(PortNo::LOCAL, address, short(&self.bridge)) })
    }

    /// Ports that were added, changed or removed since the last call.
    pub(super) fn compare(&mut self) -> Vec<(PortReason, Port)> {
        let now: BTreeMap<_, _> = self.ports().into_iter().map(|port| (port.number, port)).collect();
        let gone: Vec<_> = self.known.keys().filter(|number| !now.contains_key(number)).copied().collect();
        let gone = gone.into_iter().filter_map(|number| {
            self.config.remove(&number);
            Some((PortReason::Delete, self.known.remove(&number)?.port))
        });
        let mut changes: Vec<_> = gone.collect();
        for (number, port) in now {
            match self.known.get_mut(&number) {
                None => {
                    changes.push((PortReason::Add, port.clone()));
                    self.known.insert(number, Known { port, since: Instant::now() });
                }
                Some(known) if known.port != port => {
                    changes.push((PortReason::Modify, port.clone()));
                    known.port = port;
                }
                Some(_) => {}
            }
        }
        changes
    }

    fn describe(&self, number: PortNo, live: &PortSnapshot) -> Port {
        let name = if number == PortNo::LOCAL { &self.bridge } else { &live.name };
        let config = self.config.get(&number).copied().unwrap_or(0);
        let is_down = config & bit::PORT_DOWN != 0;
        Port {
            config,
            state: if live.state == "connected" && !is_down { LIVE } else { LINK_DOWN },
            ..Port::new(number, self.address(number), short(name))
        }
    }

    /// A locally administered address. The local port has that of the bridge (OpenFlow 1.3.5, 7.3.1).
    fn address(&self, number: PortNo) -> MacAddress {
        if number == PortNo::LOCAL {
            return MacAddress::from_u64(self.datapath_id & 0xfeff_ffff_ffff);
        }
        let ([.., a, b, c], [.., high, low]) = (self.datapath_id.to_be_bytes(), number.0.to_be_bytes());
        MacAddress::new([0x06, a, b, c, high, low])
    }

    fn queue(&self, port: PortNo, live: &LiveQueue) -> (QueueDesc, QueueStats) {
        let (queue, counts) = (live.queue.into(), live.counts);
        let [min_rate, max_rate] =
            [live.rates.rate, live.rates.ceil].map(|rate| Some(share(rate, live.port)));
        let stats = QueueStats {
            port,
            queue,
            bytes: counts.bytes,
            packets: counts.packets,
            errors: counts.full + counts.codel,
            duration: self.known.get(&port).map_or(Duration::ZERO, |known| known.since.elapsed()),
        };
        (QueueDesc { port, queue, min_rate, max_rate }, stats)
    }

    fn stats(&self, number: PortNo, live: &PortSnapshot) -> PortStats {
        let PortSnapshot { rx_packets, tx_packets, rx_bytes, tx_bytes, drops, .. } = live;
        let lost = drops.values().sum();
        self.stats_of(number, [*rx_packets, *tx_packets, *rx_bytes, *tx_bytes, lost, NONE, NONE, NONE])
    }

    fn stats_of(&self, number: PortNo, counters: [u64; 8]) -> PortStats {
        PortStats {
            port: number,
            counters,
            ethernet: [NONE; 4],
            duration: self.known.get(&number).map_or(Duration::ZERO, |known| known.since.elapsed()),
        }
    }
}

/// The settings of these bits.
pub(in crate::dataplane) fn port_config(bits: u32) -> PortConfig {
    let has = |bit: u32| bits & bit != 0;
    PortConfig {
        is_down: has(bit::PORT_DOWN),
        drops_received: has(bit::NO_RECV),
        drops_sent: has(bit::NO_FWD),
        misses_silently: has(bit::NO_PACKET_IN),
        is_not_flooded: has(bit::NO_FLOOD),
    }
}

/// The bits of settings.
pub(in crate::dataplane) fn port_bits(config: PortConfig) -> u32 {
    let PortConfig { is_down, drops_received, drops_sent, misses_silently, is_not_flooded } = config;
    let bits = [
        (is_down, bit::PORT_DOWN),
        (drops_received, bit::NO_RECV),
        (drops_sent, bit::NO_FWD),
        (misses_silently, bit::NO_PACKET_IN),
        (is_not_flooded, bit::NO_FLOOD),
    ];
    bits.into_iter().filter(|(is_set, _)| *is_set).map(|(_, bit)| bit).sum()
}

/// A name as long as OpenFlow allows.
fn short(name: &str) -> String {
    let end = (0..=NAME.min(name.len())).rfind(|end| name.is_char_boundary(*end)).unwrap_or(0);
    name[..end].to_owned()
}

/// A rate in 1/10 % of the rate of the port.
fn share(rate: u64, of: u64) -> u16 {
    (u128::from(rate) * 1000 / u128::from(of.max(1))).min(1000) as u16
}

impl Datapath for BridgePorts {
    fn ports(&self) -> Vec<Port> {
        let current = self.current();
        let ports = current.iter().map(|(number, live)| self.describe(*number, live));
        ports.chain(self.itself()).collect()
    }

    fn port_stats(&self) -> Vec<PortStats> {
        let current = self.current();
        let stats = current.iter().map(|(number, live)| self.stats(*number, live));
        // Packets of the bridge itself are counted by the ports that they come from and go to.
        stats.chain(self.itself().map(|port| self.stats_of(port.number, [NONE; 8]))).collect()
    }

    fn queues(&self) -> Vec<(QueueDesc, QueueStats)> {
        let mut found = Vec::new();
        for (number, live) in self.current() {
            let queues = (self.queues)(PortId(live.id));
            found.extend(queues.iter().map(|queue| self.queue(number, queue)));
        }
        found
    }

    fn check_port(&self, change: &PortMod) -> Result<(), ErrorCode> {
        let is_known = change.mask & change.config & !bit::ALL == 0;
        if is_known { Ok(()) } else { Err(ErrorCode::PortModBadConfig) }
    }

    fn configure_port(&mut self, change: &PortMod) -> Result<(), ErrorCode> {
        self.check_port(change)?;
        let mask = change.mask & bit::ALL;
        if mask == 0 {
            return Ok(());
        }
        let current = self.current();
        let live = current.get(&change.number).ok_or(ErrorCode::PortModBadPort)?;
        let config = self.config.entry(change.number).or_default();
        *config = *config & !mask | change.config & mask;
        self.switch.configure_port(PortId(live.id), port_config(*config));
        self.made.ports += 1;
        // The agent reports the change itself.
        let port = self.describe(change.number, live);
        if let Some(known) = self.known.get_mut(&change.number) {
            known.port = port;
        }
        Ok(())
    }

    fn tables(&self) -> Arc<Tables> {
        // The bridge exists as long as the switch.
        self.switch.tables(&self.bridge).unwrap_or_else(|_| Arc::new(Tables::new(0)))
    }

    fn modify(&mut self, changes: &[Modification], now: Now) -> Result<Changes, ChangeError> {
        let (earlier, done) = self.switch.modify_after(&self.bridge, changes, now);
        self.earlier.extend(earlier);
        if done.is_ok() {
            self.made.count(changes);
        }
        done
    }

    fn earlier(&mut self) -> Changes {
        std::mem::take(&mut self.earlier)
    }

    fn synchronize(&mut self) -> (Changes, Arc<Tables>) {
        match self.switch.synchronize(&self.bridge) {
            Ok((changes, tables)) => {
                self.earlier.extend(changes);
                (self.earlier(), tables)
            }
            // The bridge exists as long as the switch.
            Err(_) => (Changes::default(), self.tables()),
        }
    }

    fn send(
        &mut self,
        in_port: PortNo,
        actions: &[Action],
        frame: &[u8],
        now: Now,
    ) -> Result<(), PacketOutError> {
        self.switch.packet_out(&self.bridge, in_port, actions, frame, now)
    }

    fn counts(&self) -> CacheCounts {
        self.switch.cache_counts(&self.bridge).unwrap_or_default()
    }

    /// Zones are those of all bridges.
    fn flush_connections(&mut self, zone: u16) -> Result<(), ErrorCode> {
        self.switch.flush_connections(Some(zone));
        self.made.others += 1;
        Ok(())
    }

    fn drop_fragments(&mut self, drops: bool) {
        // As in `configure_tables`.
        let _ = self.switch.drop_fragments(&self.bridge, drops);
    }

    fn configure_tables(&mut self, configs: &[(TableId, TableConfig)]) {
        self.made.others += 1;
        // The bridge exists as long as the switch.
        let _ = self.switch.configure_tables(&self.bridge, configs);
    }
}
