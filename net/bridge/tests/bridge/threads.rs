//! Two workers forward while the control thread changes ports and stations.

use crate::harness::{BROADCAST, PORTS, frame};
use bridge::Switch;
use bridge::{BridgeConfig, PortConfig, Selection};
use engine::{Context, Now, Pipelines, Verdicts};
use port::{Burst, PortId};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

fn add(switch: &Switch, port: u16, bridge: &str) {
    switch
        .add_port(PortId(port), bridge, &PortConfig::default())
        .expect("the bridge exists and the port is free");
}

/// Runs one worker on bursts from `from` until `stop`. Returns the number of packets sent per port.
fn forward(switch: &Switch, worker: usize, from: u16, stop: &AtomicBool, bursts: &AtomicU64) -> Vec<u64> {
    let (mut pipeline, mut burst, mut out) = (switch.worker(worker), Burst::new(), Verdicts::new(PORTS));
    let mut left = vec![0; PORTS];
    let mut round = 0;
    while !stop.load(Ordering::Relaxed) {
        burst.begin(0);
        for i in 0..32 {
            // Stations move between the two ports, and the stations of all ports get packets.
            burst.push_own(&frame(100 + (round + i) % 50, if i == 0 { BROADCAST } else { i }, None));
        }
        out.clear();
        let context = Context::received(PortId(from), Now(round * 1_000_000));
        pipeline.process(&mut burst, &context, &mut out);
        out.finish(burst.len());
        let leaving =
            out.batches().iter().map(|batch| (batch.port(), batch.indices().as_slice().len() as u64));
        let sent: u64 = leaving.clone().map(|(_, n)| n).sum();
        assert_eq!(sent + out.dropped().map_or(0, |dropped| dropped.lost), 32 + out.replicated());
        leaving.for_each(|(port, n)| left[port.0 as usize] += n);
        round += 1;
        bursts.fetch_add(1, Ordering::Relaxed);
    }
    left
}

#[test]
fn frames_stay_on_their_bridge_while_ports_come_and_go() {
    let switch = Switch::new(PORTS);
    switch.add_bridge("br0", BridgeConfig::default()).unwrap();
    switch.add_bridge("br1", BridgeConfig::default()).unwrap();
    (0..3).for_each(|port| add(&switch, port, "br0"));
    (5..8).for_each(|port| add(&switch, port, "br1"));
    let (stop, bursts) = (AtomicBool::new(false), AtomicU64::new(0));
    let left = std::thread::scope(|scope| {
        let workers = [0, 1].map(|worker| {
            let (switch, stop, bursts) = (&switch, &stop, &bursts);
            scope.spawn(move || forward(switch, worker, worker as u16, stop, bursts))
        });
        let mut round = 0;
        while round < 200 || bursts.load(Ordering::Relaxed) < 2000 {
            add(&switch, 3, "br0");
            add(&switch, 8, "br1");
            switch.add_static("br0", crate::harness::mac(7), None, PortId(3)).unwrap();
            switch.flush("br0", Selection::default()).unwrap();
            switch.remove_port(PortId(3)).unwrap();
            switch.remove_port(PortId(8)).unwrap();
            round += 1;
        }
        stop.store(true, Ordering::Relaxed);
        workers.map(|worker| worker.join().unwrap())
    });
    for (worker, ports) in left.iter().enumerate() {
        assert!(ports[5..].iter().all(|n| *n == 0), "worker {worker} sent to another bridge: {ports:?}");
        assert!(ports[2] > 0 && ports[worker] == 0);
    }
    let statistics = switch.statistics();
    let learned: u32 = statistics[0].ports.iter().map(|port| port.learned).sum();
    assert_eq!((statistics[0].stations, statistics[1].stations), (learned as usize, 0));
}
