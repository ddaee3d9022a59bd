//! Mirrors of an OpenFlow bridge, whose port `NORMAL` is a learning bridge.

#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]

use bridge::{BridgeConfig, MirrorConfig, MirrorOutput, PortConfig};
use flow::FlowSwitch;
use flow::tables::Modification;
use flow::text::{NoNames, parse_flow};
use port::{Burst, Context, DropReason, Now, Passes, Pipeline, Pipelines, PortId, Punted, Punts, Verdicts};
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

/// Bridge `br0` with the ports 0 to 3 of the engine, which are its ports 1 to 4; packets of port 0 are copied to port 3.
struct Lab {
    bridges: Arc<bridge::Switch>,
    worker: Box<dyn Pipeline>,
}

impl Lab {
    fn new(flows: &[&str]) -> Self {
        let bridges = Arc::new(bridge::Switch::new(8));
        bridges.add_bridge("br0", BridgeConfig::default()).unwrap();
        let switch = Arc::new(FlowSwitch::new(bridges.clone()));
        switch.add_bridge("br0").unwrap();
        for port in (0..4).map(PortId) {
            bridges.add_port(port, "br0", &PortConfig::default()).unwrap();
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
        let worker = bridges.mirrored(switch).worker(0);
        Self { bridges, worker }
    }

    /// What becomes of one packet.
    fn send(&mut self, from: u16, frame: &[u8]) -> (Sent, Drops) {
        let (mut burst, mut verdicts) = (Burst::new(), Verdicts::new(8));
        burst.begin(0);
        assert!(burst.push_own(frame));
        let context = Context::received(PortId(from), Now(1_000_000_000));
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
        assert_eq!(1 + verdicts.replicated(), out + verdicts.punted(), "the sums agree");
        (sent, drops)
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
