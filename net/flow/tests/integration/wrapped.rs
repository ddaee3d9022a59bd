//! Mirrors, bonds and LLDP of an OpenFlow bridge, whose port `NORMAL` is a learning bridge.

use bridge::{BondConfig, BridgeConfig, MemberConfig, MirrorConfig, MirrorOutput, PortConfig};
use flow::tables::Modification;
use flow::text::{NoNames, parse_flow};
use flow::{FlowSwitch, PortNo};
use lacp::GroupConfig;
use port::{
    Burst, Context, DropReason, Now, Passes, Pipeline, Pipelines, PortId, PortObserver, PuntReason, Punted,
    Punts, Verdicts,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Frames by output port.
type Sent = BTreeMap<u16, Vec<Vec<u8>>>;
/// Dropped packets by reason.
type Drops = BTreeMap<&'static str, u64>;

/// In place of controllers: punted packets are discarded.
struct NoControllers;

impl Punts for NoControllers {
    fn have_room(&self, _: PortId) -> bool {
        true
    }

    fn push(&mut self, _: Punted) -> bool {
        true
    }
}

/// Bridge `br0` with the ports 0 to 3 of the engine, which are its ports 1 to 4; packets of port 0 are copied to
/// port 3. Port 1 has LLDP. Its port 5 is the bond 6 of the ports 4 and 5.
struct Lab {
    bridges: Arc<bridge::Switch>,
    switch: Arc<FlowSwitch>,
    observer: Box<dyn PortObserver>,
    worker: Box<dyn Pipeline>,
}

const BOND: PortId = PortId(6);
const NOW: Now = Now(1_000_000_000);

impl Lab {
    fn new(flows: &[&str]) -> Self {
        let bridges = Arc::new(bridge::Switch::new(8));
        bridges.add_bridge("br0", BridgeConfig { flow_tables: true, ..BridgeConfig::default() }).unwrap();
        let switch = Arc::new(FlowSwitch::new(bridges.clone()));
        switch.add_bridge("br0").unwrap();
        for port in (0..4).map(PortId) {
            let config = PortConfig { lldp: port == PortId(1), ..PortConfig::default() };
            bridges.add_port(port, "br0", &config).unwrap();
            switch.add_port(port, "br0", None).unwrap();
        }
        let change = |text: &&str| Modification::Flow(Box::new(parse_flow(text, None, &NoNames).unwrap()));
        let changes: Vec<_> = flows.iter().map(change).collect();
        switch.modify("br0", &changes, Now(0)).unwrap();
        switch.set_reserved(PortId(3), true);
        let mirror = MirrorConfig {
            name: "m".to_owned(),
            sources: vec![PortId(0)],
            destinations: vec![PortId(0)],
            all: false,
            vlans: None,
            output: Some(MirrorOutput::Port(PortId(3))),
            snap_length: None,
        };
        bridges.set_mirrors("br0", &[mirror]).unwrap();
        let wrapped = bridges.wrap(switch.clone());
        let (observer, worker) = (wrapped.observer().unwrap(), wrapped.worker(0));
        Self { bridges, switch, observer, worker }
    }

    /// Adds the bond, whose members have links.
    fn with_bond(mut self, config: BondConfig) -> Self {
        self.bridges.add_bond(BOND, "br0", &PortConfig::default(), config).unwrap();
        self.switch.add_port(BOND, "br0", None).unwrap();
        for port in [4, 5] {
            let member = MemberConfig { priority: 1, is_primary: false };
            self.bridges.join_bond(PortId(port), BOND, member, NOW).unwrap();
            self.observer.changed(PortId(port), true, NOW);
        }
        self
    }

    /// Outcome of one packet.
    fn send(&mut self, from: u16, frame: &[u8]) -> (Sent, Drops) {
        let (sent, drops, _) = self.send_all(from, &[frame]);
        (sent, drops)
    }

    /// Output ports of one packet.
    fn ports(&mut self, from: u16, frame: &[u8]) -> Vec<u16> {
        self.send(from, frame).0.into_keys().collect()
    }

    /// Outcome of a burst, with the number of packets for control.
    fn send_all(&mut self, from: u16, frames: &[&[u8]]) -> (Sent, Drops, u64) {
        let (mut burst, mut verdicts) = (Burst::new(), Verdicts::new(8));
        burst.begin(0);
        for frame in frames {
            assert!(burst.push_own(frame));
        }
        let context = Context::received(PortId(from), NOW);
        Passes::default().run(self.worker.as_mut(), &mut burst, &context, &mut verdicts, &mut NoControllers);
        let mut sent = Sent::new();
        for batch in verdicts.batches() {
            for (place, &i) in batch.indices().as_slice().iter().enumerate() {
                let mut made = Burst::new();
                made.begin_from(&burst);
                made.push_edited(&burst, i.into(), verdicts.edits(), batch.edit(place)).unwrap();
                sent.entry(batch.port().0).or_default().push(made.head(0).to_vec());
            }
        }
        let drops = DropReason::ALL.map(|reason| {
            (reason.name(), verdicts.dropped().map_or(0, |dropped| dropped.drops[reason as usize]))
        });
        let drops: Drops = drops.into_iter().filter(|(_, n)| *n > 0).collect();
        let out = sent.values().map(Vec::len).sum::<usize>() as u64 + drops.values().sum::<u64>();
        let received = frames.len() as u64;
        assert_eq!(received + verdicts.replicated(), out + verdicts.punted(), "the sums agree");
        (sent, drops, verdicts.punted())
    }

    fn copies(&self) -> u64 {
        self.bridges.mirrors("br0").unwrap()[0].packets
    }
}

fn frame(source: u8, destination: u8) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, destination, 2, 0, 0, 0, 0, source, 8, 0][..], &[0x45; 46]].concat()
}

#[test]
fn outputs_of_flows_are_copied_as_sent() {
    let mut lab = Lab::new(&[
        "in_port=2,actions=mod_dl_dst:02:00:00:00:00:77,output:1,output:3",
        "in_port=1,actions=mod_dl_dst:02:00:00:00:00:66,output:2",
        "in_port=3,actions=output:4",
    ]);
    let (changed, received) = (frame(2, 0x77), frame(2, 1));
    for round in 1..=3 {
        let (sent, _) = lab.send(1, &received);
        let expected = std::slice::from_ref(&changed);
        assert_eq!([&sent[&0], &sent[&2], &sent[&3]].map(Vec::as_slice), [expected; 3]);
        let (sent, _) = lab.send(0, &frame(1, 2));
        assert_eq!((&sent[&1][0], &sent[&3][0]), (&frame(1, 0x66), &frame(1, 2)), "as received");
        assert_eq!(lab.copies(), 2 * round);
    }
    let (sent, drops) = lab.send(2, &frame(3, 1));
    assert_eq!((sent.len(), drops["mirror-port"]), (0, 1), "the output port is reserved");
    assert_eq!(lab.send(3, &frame(4, 1)).1["mirror-port"], 1);
}

#[test]
fn packets_of_the_port_normal_are_copied_once() {
    let mut lab = Lab::new(&["priority=1,actions=NORMAL", "priority=2,in_port=2,actions=NORMAL,output:1"]);
    let (sent, _) = lab.send(0, &frame(1, 2));
    assert_eq!(sent.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(sent[&3].len(), 1);
    let (sent, _) = lab.send(2, &frame(3, 1));
    assert_eq!(sent.keys().copied().collect::<Vec<_>>(), [0, 3], "known to the learning bridge");
    // Port 1 sends the packet twice, for its flow and for the learning bridge.
    let (sent, _) = lab.send(1, &frame(2, 1));
    assert_eq!([sent[&0].len(), sent[&3].len()], [2, 1]);
    assert_eq!(lab.copies(), 3);
}

#[test]
fn dropped_and_flooded_packets_are_copied() {
    let mut lab = Lab::new(&["in_port=2,actions=FLOOD", "in_port=3,actions=ALL"]);
    let (sent, drops) = lab.send(0, &frame(1, 2));
    assert_eq!((sent[&3].len(), drops["no-flow"]), (1, 1));
    for (from, others) in [(1, [0, 2, 3]), (2, [0, 1, 3])] {
        let (sent, drops) = lab.send(from, &frame(2, 1));
        assert_eq!((sent.keys().copied().collect::<Vec<_>>(), drops.len()), (others.to_vec(), 0));
        assert_eq!(sent[&3].len(), 1);
    }
}

/// A frame to a reserved group.
fn reserved(last: u8, ethertype: [u8; 2]) -> Vec<u8> {
    [&[0x01, 0x80, 0xc2, 0, 0, last, 2, 0, 0, 0, 0, 9][..], &ethertype, &[0; 46]].concat()
}

#[test]
fn a_bond_is_one_port_of_the_tables() {
    let flows = ["in_port=5,actions=output:1", "in_port=1,actions=output:5", "in_port=2,actions=FLOOD"];
    let mut lab = Lab::new(&flows).with_bond(BondConfig::default());
    assert_eq!(lab.switch.number(BOND).unwrap().1, PortNo(5));
    for _ in 0..3 {
        assert_eq!(lab.ports(0, &frame(1, 9)), [3, 4], "a copy, and the active member");
        assert_eq!(lab.ports(4, &frame(9, 1)), [0, 3]);
    }
    assert_eq!(lab.send(5, &frame(9, 1)).1["bond-inactive"], 1);
    assert_eq!(lab.ports(1, &frame(2, 9)), [0, 2, 3, 4], "flooded once, and copied");
    lab.observer.changed(PortId(4), false, NOW);
    assert_eq!(lab.ports(0, &frame(1, 9)), [3, 5]);
    assert_eq!(lab.ports(5, &frame(9, 1)), [0, 3]);
    lab.observer.changed(PortId(5), false, NOW);
    assert_eq!(lab.send(0, &frame(1, 9)).1["bond-down"], 1);
}

#[test]
fn the_port_normal_learns_at_a_bond() {
    let mut lab = Lab::new(&["actions=NORMAL"]).with_bond(BondConfig::default());
    assert_eq!(lab.ports(4, &frame(9, 77)), [0, 1, 2, 3]);
    assert_eq!(lab.ports(1, &frame(2, 9)), [4]);
    let stations = lab.bridges.stations("br0", NOW).unwrap();
    assert!(stations.iter().any(|station| station.port == BOND.0), "{stations:?}");
}

#[test]
fn lacp_is_taken_out_in_front_of_the_tables() {
    let system = "02:00:00:00:00:50".parse().unwrap();
    let group = GroupConfig { is_active: true, is_fast: true, system_priority: 1, system, key: 5 };
    let config = BondConfig { lacp: Some(group), fallback: true, ..BondConfig::default() };
    let mut lab = Lab::new(&["in_port=5,actions=output:1", "in_port=1,actions=CONTROLLER"]).with_bond(config);
    let pdu = reserved(2, [0x88, 0x09]);
    for member in [4, 5] {
        assert_eq!(lab.send_all(member, &[&pdu]).2, 1);
    }
    // The other packets of the burst reach the tables.
    let (sent, _, punted) = lab.send_all(4, &[&frame(9, 1), &pdu, &frame(9, 1)]);
    assert_eq!((sent[&0].len(), sent[&3].len(), punted), (2, 2, 1));
    let (_, drops, punted) = lab.send_all(5, &[&frame(9, 1), &pdu]);
    assert_eq!((drops["bond-inactive"], punted), (1, 1));
    // A controller gets packets of members as those of the bond.
    let context = Context::received(PortId(4), NOW);
    let packet = |reason| Punted { context, reason, note: None, frame: frame(9, 1).into() };
    lab.observer.punted(packet(PuntReason::Action));
    lab.observer.punted(packet(PuntReason::Protocol));
    let punted: Vec<_> = lab.switch.take_punted().iter().map(|packet| packet.context.from).collect();
    assert_eq!(punted, [BOND]);
}

#[test]
fn lldp_is_taken_out_in_front_of_the_tables() {
    let mut lab = Lab::new(&["actions=output:1"]);
    let lldp = reserved(0x0e, [0x88, 0xcc]);
    let (sent, _, punted) = lab.send_all(1, &[&lldp, &frame(2, 1)]);
    assert_eq!((sent[&0].len(), punted), (1, 1));
    let (sent, _, punted) = lab.send_all(2, &[&lldp, &frame(2, 1)]);
    assert_eq!((sent[&0].len(), punted), (2, 0), "LLDP is off on this port");
    let (_, drops, punted) = lab.send_all(1, &[&lldp[..]; 60]);
    assert_eq!((drops["protocol-limit"], punted), (11, 49));
}

#[test]
fn controllers_learn_of_the_link_of_a_bond() {
    let lab = Lab::new(&["actions=NORMAL"]).with_bond(BondConfig::default());
    lab.switch.set_link(BOND, false);
    let events = lab.switch.take_port_events();
    assert!(events.iter().any(|event| event.port == BOND && !event.is_up), "{events:?}");
}
