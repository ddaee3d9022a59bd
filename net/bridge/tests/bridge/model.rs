//! Compares the bridge with a reference model: a map, one packet at a time, without caches.

use crate::harness::{BROADCAST, BurstOutcome, Lab, SECOND, access, frame, mac, rarp, trunk};
use bridge::{BridgeConfig, MacMoves, PortConfig, Selection, Station};
use engine::Now;
use port::PortId;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Ports 0 to 3 may be on `br0`, with guarded moves and trusted ports 2 and 3; ports 4 and 5 on `br1`, with free moves.
const PORTS: u16 = 6;
const BRIDGES: [&str; 2] = ["br0", "br1"];

/// Maximum number of stations learned per burst.
const LEARNS: usize = 8;

fn is_trusted(port: u16) -> bool {
    matches!(port, 2 | 3)
}

fn bridge_of(port: u16) -> usize {
    usize::from(port >= 4)
}

/// VLAN mode of a port.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Transparent,
    Access(u16),
    Trunk { native: Option<u16> },
}

impl Kind {
    fn config(self, port: u16) -> PortConfig {
        let config = match self {
            Kind::Transparent => PortConfig::default(),
            Kind::Access(id) => access(id),
            Kind::Trunk { native } => trunk("1-2", native),
        };
        PortConfig { max_macs: Some(1000), trusted: is_trusted(port), ..config }
    }

    fn vlan_of(self, tag: Option<u16>) -> Option<u16> {
        match (self, tag.unwrap_or(0)) {
            (Kind::Transparent, id) | (Kind::Access(id), 0) => Some(id),
            (Kind::Access(_), _) => None,
            (Kind::Trunk { native }, 0) => native,
            (Kind::Trunk { native }, id) => (id <= 2 || native == Some(id)).then_some(id),
        }
    }

    fn carries(self, vlan: u16) -> bool {
        match self {
            Kind::Transparent => true,
            Kind::Access(id) => id == vlan,
            Kind::Trunk { native } => vlan == 1 || vlan == 2 || native == Some(vlan),
        }
    }

    /// Egress tag of a frame of `vlan`.
    fn tag(self, vlan: u16) -> Option<u16> {
        match self {
            Kind::Access(_) => None,
            Kind::Trunk { native } if native == Some(vlan) => None,
            _ => Some(vlan).filter(|id| *id != 0),
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Burst { worker: usize, from: u16, packets: Vec<(u64, u64, Option<u16>)> },
    Wait(u64),
    Pin { station: u64, port: u16 },
    Unpin { station: u64, bridge: usize },
    Forget { station: u64, bridge: usize },
    Flush(usize),
    FlushPort(u16),
    Remove(u16),
    Add(u16, Kind),
    Stop(u16),
    Announce { worker: usize, station: u64, port: u16, injected: bool },
}

#[derive(Default)]
struct Model {
    now: u64,
    ports: BTreeMap<u16, Kind>,
    /// (bridge, VLAN, station) to (port, second, pinned).
    table: BTreeMap<(usize, u16, u64), (u16, u64, bool)>,
    /// By port, the second after its last stop. Not shared between bridges.
    released: BTreeMap<u16, u64>,
    /// Stations that this burst may still learn.
    learns: usize,
}

impl Model {
    fn aware(&self, bridge: usize) -> bool {
        self.ports.iter().any(|(port, kind)| bridge_of(*port) == bridge && *kind != Kind::Transparent)
    }

    /// Whether a station seen at port `old` in second `seen` may move to port `new`.
    fn may_move(&self, old: u16, seen: u64, new: u16) -> bool {
        bridge_of(new) == 1
            || self.now - seen >= 300
            || self.released.get(&old).is_some_and(|second| seen < *second)
            || is_trusted(old) && is_trusted(new)
    }

    fn learn(&mut self, key: (usize, u16, u64), from: u16, announced: bool) -> Result<(), &'static str> {
        match self.table.get(&key) {
            Some((port, _, true)) if *port != from => return Err("static-mac-violation"),
            Some((_, _, true)) => return Ok(()),
            Some((port, ..)) if *port == from => {}
            Some((port, seen, _)) if !announced && !self.may_move(*port, *seen, from) => {
                return Err("mac-move-refused");
            }
            _ if self.learns == 0 => return Ok(()),
            _ => self.learns -= 1,
        }
        self.table.insert(key, (from, self.now, false));
        Ok(())
    }

    fn packet(
        &mut self,
        from: u16,
        packet: (u64, u64, Option<u16>),
        announced: bool,
    ) -> Result<BTreeMap<u16, Vec<u8>>, &'static str> {
        let (source, destination, tag) = packet;
        let kind = *self.ports.get(&from).ok_or("no-destination")?;
        let bridge = bridge_of(from);
        let aware = self.aware(bridge);
        let vlan = if aware { kind.vlan_of(tag).ok_or("vlan-denied")? } else { 0 };
        self.learn((bridge, vlan, source), from, announced)?;
        let known = self.table.get(&(bridge, vlan, destination));
        let to = known.filter(|(_, seen, pinned)| *pinned || self.now - seen < 300).map(|(port, ..)| *port);
        let reached = |port: &u16, kind: &Kind| {
            bridge_of(*port) == bridge && *port != from && (!aware || kind.carries(vlan))
        };
        if to == Some(from) {
            return Err("no-destination");
        }
        if let Some(to) = to.filter(|to| aware && !self.ports[to].carries(vlan)) {
            assert_ne!(to, from);
            return Err("vlan-denied");
        }
        let ports =
            self.ports.iter().filter(|(port, kind)| to.map_or(reached(port, kind), |to| **port == to));
        let form = |kind: &Kind| frame(source, destination, if aware { kind.tag(vlan) } else { tag });
        let sent: BTreeMap<_, _> = ports.map(|(port, kind)| (*port, form(kind))).collect();
        if sent.is_empty() { Err("no-destination") } else { Ok(sent) }
    }

    fn burst(&mut self, from: u16, packets: &[(u64, u64, Option<u16>)]) -> BurstOutcome {
        let mut fate = BurstOutcome::default();
        self.learns = LEARNS;
        for packet in packets {
            match self.packet(from, *packet, false) {
                Ok(sent) => fate.sent.push(sent),
                Err(reason) => {
                    fate.sent.push(BTreeMap::new());
                    *fate.lost.entry(reason).or_default() += 1;
                }
            }
        }
        fate
    }

    fn stations(&self, bridge: usize) -> Vec<Station> {
        let own = self
            .table
            .iter()
            .filter(|((b, ..), (_, seen, pinned))| *b == bridge && (*pinned || self.now - seen < 300));
        let mut all: Vec<Station> = own
            .map(|((_, vlan, station), (port, seen, pinned))| Station {
                mac: mac(*station),
                vlan: *vlan,
                port: *port,
                age_seconds: (!pinned).then(|| (self.now - seen) as u32),
                pinned: *pinned,
            })
            .collect();
        all.sort_by_key(|station| (station.mac, station.vlan));
        all
    }
}

fn apply(lab: &mut Lab, model: &mut Model, step: Step) {
    match step {
        Step::Burst { worker, from, packets } => {
            let frames: Vec<_> = packets.iter().map(|(s, d, tag)| frame(*s, *d, *tag)).collect();
            assert_eq!(lab.send_by(worker, from, &frames), model.burst(from, &packets));
        }
        Step::Wait(seconds) => {
            model.now += seconds;
            lab.now += seconds * SECOND;
        }
        Step::Pin { station, port } => {
            let done = lab.switch.add_static(BRIDGES[bridge_of(port)], mac(station), None, PortId(port));
            let vlan = model.ports.get(&port).and_then(|kind| kind.vlan_of(None));
            assert_eq!(done.is_ok(), vlan.is_some());
            vlan.map(|vlan| model.table.insert((bridge_of(port), vlan, station), (port, 0, true)));
        }
        Step::Unpin { station, bridge } => {
            let key = (bridge, 0, station);
            let pinned = model.table.get(&key).is_some_and(|(_, _, pinned)| *pinned);
            assert_eq!(lab.switch.remove_static(BRIDGES[bridge], mac(station), None).is_ok(), pinned);
            pinned.then(|| model.table.remove(&key));
        }
        Step::Forget { station, bridge } => {
            let key = (bridge, 0, station);
            // An aged station may or may not have been swept already.
            let alive = |(_, second, pinned): &(u16, u64, bool)| *pinned || model.now - second < 300;
            let known = model.table.get(&key).is_some_and(alive);
            let done = lab.switch.forget(BRIDGES[bridge], mac(station), 0).is_ok();
            assert!(done || !known, "a station that is known is forgotten");
            model.table.remove(&key);
        }
        Step::Flush(bridge) => {
            lab.switch.flush(BRIDGES[bridge], Selection::default()).expect("the bridge exists");
            model.table.retain(|(b, ..), (_, _, pinned)| *pinned || *b != bridge);
        }
        Step::FlushPort(port) => {
            let at = Selection { port: Some(PortId(port)), vlan: None };
            lab.switch.flush(BRIDGES[bridge_of(port)], at).expect("the bridge exists");
            model.table.retain(|_, (p, _, pinned)| *pinned || *p != port);
        }
        Step::Remove(port) => {
            assert_eq!(lab.switch.remove_port(PortId(port)).is_ok(), model.ports.remove(&port).is_some());
            model.table.retain(|_, (p, ..)| *p != port);
        }
        Step::Add(port, kind) => {
            let done = lab.switch.add_port(PortId(port), BRIDGES[bridge_of(port)], &kind.config(port));
            assert_eq!(done.is_ok(), !model.ports.contains_key(&port));
            if done.is_ok() {
                model.ports.insert(port, kind);
                model.released.remove(&port);
            }
        }
        Step::Stop(port) => {
            lab.stop(port);
            // The bridge ignores a stopped port that is on no bridge.
            if model.ports.contains_key(&port) {
                model.released.insert(port, model.now + 1);
            }
        }
        Step::Announce { worker, station, port, injected } => {
            let frame = rarp(station);
            let fate =
                if injected { lab.inject(worker, port, frame) } else { lab.send_by(worker, port, &[frame]) };
            model.learns = LEARNS;
            let expected = model.packet(port, (station, BROADCAST, None), injected || is_trusted(port));
            let ports = expected.as_ref().map(|sent| sent.keys().copied().collect()).unwrap_or_default();
            let sent: Vec<u16> = fate.sent[0].keys().copied().collect();
            assert_eq!((sent, fate.lost.keys().next().copied()), (ports, expected.err()));
        }
    }
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        4 => Just(Kind::Transparent),
        1 => (1u16..4).prop_map(Kind::Access),
        1 => prop::option::of(1u16..4).prop_map(|native| Kind::Trunk { native }),
    ]
}

/// Few stations, and frequent repetitions of the same packet.
fn packets() -> impl Strategy<Value = Vec<(u64, u64, Option<u16>)>> {
    let station = || prop_oneof![8 => 1u64..7, 1 => Just(BROADCAST)];
    let packet = (1u64..7, station(), prop::option::weighted(0.4, 0u16..4));
    let run = (packet, 1usize..6).prop_map(|(packet, n)| vec![packet; n]);
    prop::collection::vec(run, 1..10).prop_map(|runs| runs.concat())
}

fn step() -> impl Strategy<Value = Step> {
    let port = || 0..PORTS;
    prop_oneof![
        20 => (0usize..2, port(), packets()).prop_map(|(worker, from, packets)| Step::Burst { worker, from, packets }),
        3 => prop_oneof![0u64..3, 100u64..400].prop_map(Step::Wait),
        1 => (1u64..7, port()).prop_map(|(station, port)| Step::Pin { station, port }),
        1 => (1u64..7, 0usize..2).prop_map(|(station, bridge)| Step::Unpin { station, bridge }),
        1 => (1u64..7, 0usize..2).prop_map(|(station, bridge)| Step::Forget { station, bridge }),
        1 => (0usize..2).prop_map(Step::Flush),
        1 => port().prop_map(Step::FlushPort),
        1 => port().prop_map(Step::Remove),
        2 => (port(), kind()).prop_map(|(port, kind)| Step::Add(port, kind)),
        1 => port().prop_map(Step::Stop),
        2 => (0usize..2, 1u64..7, port(), any::<bool>())
            .prop_map(|(worker, station, port, injected)| Step::Announce { worker, station, port, injected }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn random_histories_match_the_model(
        kinds in prop::collection::vec(kind(), PORTS as usize), steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut lab = Lab::with([]);
        let free = BridgeConfig { mac_moves: MacMoves::Free, ..BridgeConfig::default() };
        lab.switch.add_bridge("br1", free).expect("a new bridge");
        let mut model = Model::default();
        for (port, kind) in (0..).zip(kinds) {
            apply(&mut lab, &mut model, Step::Add(port, kind));
        }
        for step in steps {
            apply(&mut lab, &mut model, step);
        }
        for (number, name) in BRIDGES.iter().enumerate() {
            let listed = lab.switch.stations(name, Now(lab.now)).expect("the bridge exists");
            prop_assert_eq!(listed, model.stations(number));
        }
    }
}
