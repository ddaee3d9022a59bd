//! Tests of cached answers and their invalidation.

use super::*;
use crate::{BridgeConfig, PortConfig, Switch};
use port::{Now, Pipelines, PortId};
use wire::MacAddress;

/// One bridge with two well-behaved ports and one misbehaving port.
struct Lab {
    switch: Switch,
    worker: Worker,
    other: Box<dyn Pipeline>,
    burst: Burst,
    out: Verdicts,
}

fn mac(station: u64) -> [u8; 6] {
    MacAddress::from_u64(0x5254_0000_0000 + station).octets()
}

fn context(from: u16) -> Context {
    Context::received(PortId(from), Now(0))
}

impl Lab {
    fn new() -> Self {
        let switch = Switch::new(4);
        switch.add_bridge("br0", BridgeConfig::default()).expect("a new bridge");
        let add = |port| switch.add_port(PortId(port), "br0", &PortConfig::default());
        (0..3).for_each(|port| add(port).expect("a new port"));
        let worker = Worker::new(switch.published(), 4);
        let other = switch.worker(1);
        Self { switch, worker, other, burst: Burst::new(), out: Verdicts::new(4) }
    }

    fn fill(&mut self, flows: impl Iterator<Item = (u64, u64)>) {
        self.burst.begin(0);
        for (source, destination) in flows {
            let frame = [&mac(destination)[..], &mac(source), &[8, 0], &[0; 46]].concat();
            assert!(self.burst.push_own(&frame));
        }
        self.out.clear();
    }

    fn send(&mut self, from: u16, source: u64, destination: u64) {
        self.fill([(source, destination); 4].into_iter());
        self.worker.process(&mut self.burst, &context(from), &mut self.out);
    }

    /// Number of packets of the burst that would be answered from the cache.
    fn remembered(&mut self, from: u16, source: u64, destination: u64) -> usize {
        self.fill([(source, destination); 4].into_iter());
        let view = self.worker.table.view(0).expect("the bridge is there");
        let memo = self.worker.memos[from as usize];
        let valid = memo.is_some_and(|memo| memo.is_valid(&view.bridge.fdb, PortId(from), 0));
        if valid { self.burst.len() } else { 0 }
    }
}

#[test]
fn address_churn_of_one_port_keeps_cached_flows_of_others() {
    let mut lab = Lab::new();
    (0..3).for_each(|_| [(0, 10, 11), (1, 11, 10)].into_iter().for_each(|(p, s, d)| lab.send(p, s, d)));
    assert_eq!((lab.remembered(0, 10, 11), lab.remembered(1, 11, 10)), (4, 4));
    for round in 0..200 {
        lab.fill((0..64).map(|i| (1000 + round * 64 + i, 10)));
        lab.other.process(&mut lab.burst, &context(2), &mut lab.out);
        // The repeated flush of its addresses changes the table.
        let selection = crate::Selection { port: Some(PortId(2)), vlan: None };
        lab.switch.flush("br0", selection).unwrap();
    }
    assert_eq!((lab.remembered(0, 10, 11), lab.remembered(1, 11, 10)), (4, 4));
}

#[test]
fn cached_broadcast_reaches_all_ports_including_new_ones() {
    let mut lab = Lab::new();
    let send = |lab: &mut Lab| {
        lab.burst.begin(0);
        let frame = [&[0xff; 6][..], &mac(10), &[8, 6], &[0; 46]].concat();
        (0..4).for_each(|_| assert!(lab.burst.push_own(&frame)));
        lab.out.clear();
        lab.worker.process(&mut lab.burst, &context(0), &mut lab.out);
        let left = lab.out.batches().iter().map(|batch| (batch.port().0, batch.indices().as_slice().len()));
        left.collect::<Vec<_>>()
    };
    (0..3).for_each(|_| assert_eq!(send(&mut lab), [(1, 4), (2, 4)]));
    assert_eq!(lab.worker.memos[0].map(|memo| memo.leaves_by()), Some(None));
    lab.switch.add_port(PortId(3), "br0", &PortConfig::default()).unwrap();
    assert_eq!(send(&mut lab), [(1, 4), (2, 4), (3, 4)]);
    // A station that was removed is learned again.
    lab.switch.forget("br0", MacAddress::new(mac(10)), 0).unwrap();
    let view = lab.worker.table.view(0).unwrap();
    assert!(!lab.worker.memos[0].is_some_and(|memo| memo.is_valid(&view.bridge.fdb, PortId(0), 0)));
}

#[test]
fn station_move_invalidates_cached_flow() {
    for station in [10, 11] {
        let mut lab = Lab::new();
        (0..3).for_each(|_| [(0, 10, 11), (1, 11, 10)].into_iter().for_each(|(p, s, d)| lab.send(p, s, d)));
        lab.switch.forget("br0", MacAddress::new(mac(station)), 0).unwrap();
        assert_eq!((lab.remembered(0, 10, 11), lab.remembered(1, 11, 10)), (0, 0));
    }
}
