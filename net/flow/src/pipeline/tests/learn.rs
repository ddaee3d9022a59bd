//! `learn`: flows that packets add.

use super::*;
use crate::tables::{Changes, RemovedReason};
use crate::text::{NoNames, parse_flow};
use std::sync::atomic::{AtomicU64, Ordering};

const SECOND: u64 = 1_000_000_000;

/// MAC learning, as in ovs-actions(7): table 1 has the ports of learned addresses.
const SWITCH: [&str; 2] = [
    "table=0,actions=learn(table=1,hard_timeout=10,cookie=7,priority=9,NXM_OF_VLAN_TCI[0..11],\
     NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[]),resubmit(,1)",
    "table=1,priority=1,actions=flood",
];

fn flows(texts: &[&str]) -> Vec<Modification> {
    let flow = |text: &&str| Modification::Flow(Box::new(parse_flow(text, None, &NoNames).unwrap()));
    texts.iter().map(flow).collect()
}

/// A packet from one host to another.
fn packet(source: u8, destination: u8) -> Vec<u8> {
    udp(source, destination, (1, 1), 9)
}

/// A packet from one of many hosts.
fn from_host(number: u16) -> Vec<u8> {
    let mut frame = packet(1, 99);
    frame[10..12].copy_from_slice(&number.to_be_bytes());
    frame
}

impl Lab {
    fn learn(&self) -> Changes {
        let mut all = Changes::default();
        loop {
            let changed = self.switch.learn(self.now);
            if changed.is_empty() {
                return all;
            }
            for (_, changes) in changed {
                all.extend(changes);
            }
        }
    }

    /// Loses the learned flows. Returns their number.
    fn lose_learned(&self) -> usize {
        std::iter::repeat_with(|| self.switch.exchange.take_noted().len())
            .take_while(|taken| *taken > 0)
            .sum()
    }

    /// Passes time, and has the worker report.
    fn pass(&mut self, nanos: u64) {
        self.now = Now(self.now.0 + nanos);
        self.worker.tick(self.now);
    }

    fn table(&self, table: u8) -> usize {
        self.switch.tables("br0").unwrap().len(TableId(table))
    }
}

#[test]
fn addresses_are_learned_and_move() {
    let mut lab = Lab::new(&flows(&SWITCH));
    assert_eq!(lab.ports(0, &packet(1, 2)), [1, 2, 3], "flooded");
    let changes = lab.learn();
    assert_eq!((changes.added.len(), changes.removed.len()), (1, 0));
    assert_eq!(changes.added[0].entry().cookie(), 7);
    assert_eq!(lab.ports(1, &packet(2, 1)), [0]);
    assert_eq!(lab.learn().added.len(), 1);
    assert_eq!(lab.ports(0, &packet(1, 2)), [1], "the flooded result is replaced");
    assert_eq!(lab.ports(2, &packet(3, 1)), [0]);
    assert_eq!(lab.learn().added.len(), 1);
    let version = lab.switch.tables("br0").unwrap().version();
    // Other destinations are other results, which have learned the same.
    assert_eq!((lab.ports(0, &packet(1, 3)), lab.ports(1, &packet(2, 3))), (vec![2], vec![2]));
    assert!(lab.learn().is_empty());
    assert_eq!(lab.switch.tables("br0").unwrap().version(), version, "no change, no version");
    // Host 1 moves to the fourth port. The worker has not reported its packets on the first one yet.
    lab.now = Now(lab.now.0 + SECOND);
    assert_eq!(lab.ports(3, &packet(1, 2)), [1]);
    let changes = lab.learn();
    assert_eq!(changes.added.len(), 1);
    assert_eq!(changes.removed[0].reason, RemovedReason::Replaced);
    assert_eq!(lab.ports(1, &packet(2, 1)), [3]);
    // That it does now does not bring the host back.
    lab.pass(SECOND);
    assert!(lab.learn().is_empty());
    assert_eq!(lab.ports(1, &packet(2, 1)), [3]);
    assert_eq!(lab.switch.learn_counts("br0").unwrap(), LearnCounts { added: 4, ..LearnCounts::default() });
}

#[test]
fn packets_of_a_cached_result_refresh_the_flow_that_it_learned() {
    let mut lab = Lab::new(&flows(&SWITCH));
    lab.send(0, &[packet(1, 2)]);
    assert_eq!(lab.learn().added.len(), 1);
    for _ in 0..5 {
        lab.pass(4 * SECOND);
        lab.send(0, &[packet(1, 2)]);
        lab.pass(20_000_000);
        assert!(lab.learn().is_empty(), "the worker refreshes it itself");
        assert!(lab.switch.expire(lab.now).0.is_empty());
    }
    lab.pass(11 * SECOND);
    let (removed, _) = lab.switch.expire(lab.now);
    assert_eq!(removed[0].1.removed[0].reason, RemovedReason::HardTimeout);
    // The next packet learns it again.
    lab.send(0, &[packet(1, 2)]);
    assert_eq!(lab.learn().added.len(), 1);
}

#[test]
fn without_room_a_flow_is_learned_by_a_later_packet() {
    let mut lab = Lab::new(&flows(&SWITCH));
    let wakes = Arc::new(AtomicU64::new(0));
    let counter = wakes.clone();
    lab.switch.set_waker(move || {
        counter.fetch_add(1, Ordering::Relaxed);
    });
    assert!(lab.learn().is_empty());
    let before = wakes.load(Ordering::Relaxed);
    let frames: Vec<_> = (0..1280).map(from_host).collect();
    frames.chunks(64).for_each(|frames| drop(lab.send(0, frames)));
    assert_eq!(wakes.load(Ordering::Relaxed), before + 1, "once, until control takes something");
    assert_eq!(lab.switch.learn_counts("br0").unwrap().delayed, 256);
    // The next packet of a host tries again, and later ones do not.
    assert_eq!(lab.lose_learned(), 1024);
    assert!(wakes.load(Ordering::Relaxed) > before + 1, "one call does not take all");
    lab.send(0, &[from_host(1279), from_host(1279), from_host(0)]);
    lab.send(0, &[from_host(1279)]);
    assert_eq!(lab.lose_learned(), 1);
    // Reported packets bring those that were lost, within half a second.
    let added = (0..32).map(|_| {
        lab.pass(16_000_000);
        lab.learn().added.len()
    });
    assert_eq!(added.sum::<usize>(), 1280);
    assert_eq!(lab.table(1), 1281);
}

#[test]
fn a_limit_is_kept_and_its_result_is_written() {
    let mut lab = Lab::new(&flows(&[
        "actions=learn(table=1,limit=2,result_dst=reg0[0],cookie=7,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],\
         output:NXM_OF_IN_PORT[]),resubmit(,2)",
        "table=2,reg0=1,actions=output:2",
        "table=2,reg0=0,actions=output:3",
    ]));
    for host in [1, 2] {
        assert_eq!(lab.ports(0, &packet(host, 9)), [1]);
        assert_eq!(lab.learn().added.len(), 1);
    }
    assert_eq!((lab.ports(0, &packet(3, 9)), lab.ports(0, &packet(1, 9))), (vec![2], vec![1]));
    assert!(lab.learn().is_empty());
    let remove = parse_flow("table=1,eth_dst=02:00:00:00:00:01", Some(FlowCommand::Delete), &NoNames);
    lab.change(&[Modification::Flow(Box::new(remove.unwrap()))]);
    assert_eq!(lab.ports(0, &packet(3, 9)), [1], "there is room now");
    assert_eq!(lab.learn().added.len(), 1);
    assert_eq!((lab.ports(0, &packet(1, 9)), lab.table(1)), (vec![2], 2));
}

#[test]
fn removing_the_last_learning_flow_removes_what_it_has_learned() {
    let learn = "actions=learn(table=1,delete_learned,cookie=5,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[])";
    let [first, second] = [1, 2].map(|port| format!("in_port={port},{learn}"));
    let mut lab = Lab::new(&flows(&[first.as_str(), second.as_str(), "table=1,cookie=6,actions=drop"]));
    lab.send(0, &[packet(1, 9), packet(2, 9)]);
    assert_eq!((lab.learn().added.len(), lab.table(1)), (2, 3));
    let removal = |text: &str| {
        let change = parse_flow(text, Some(FlowCommand::Delete), &NoNames).unwrap();
        Modification::Flow(Box::new(change))
    };
    lab.change(&[removal("in_port=1")]);
    assert_eq!(lab.table(1), 3, "another flow has the action");
    // Replacing the action by itself removes nothing.
    lab.change(&flows(&[second.as_str()]));
    assert_eq!(lab.table(1), 3);
    let changes = lab.switch.modify("br0", &[removal("table=0,in_port=2")], lab.now).unwrap();
    assert_eq!((changes.removed.len(), lab.table(1)), (3, 1));
}

#[test]
fn a_flow_that_control_refuses_is_counted() {
    let mut lab = Lab::new(&flows(&["actions=learn(table=1,output:NXM_NX_REG0[])"]));
    lab.send(0, &[packet(1, 9)]);
    assert!(lab.learn().is_empty(), "there is no port 0");
    assert_eq!(lab.switch.learn_counts("br0").unwrap().refused, 1);
}

#[test]
fn a_flow_that_waits_is_not_added_once_its_learner_is_gone() {
    let learn = "in_port=1,actions=learn(table=1,cookie=5,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[])";
    let mut lab = Lab::new(&flows(&[learn]));
    for (text, command) in
        [("in_port=1,actions=output:2", FlowCommand::Modify), ("in_port=1", FlowCommand::Delete)]
    {
        lab.change(&flows(&[learn]));
        lab.send(0, &[packet(1, 9)]);
        let change = parse_flow(text, Some(command), &NoNames).unwrap();
        lab.change(&[Modification::Flow(Box::new(change))]);
        assert!(lab.learn().is_empty());
    }
    // The flow returns, and learns again.
    lab.change(&flows(&[learn]));
    lab.send(0, &[packet(1, 9)]);
    assert_eq!(lab.learn().added.len(), 1);
}

/// A TCP packet from one host to another, with these control bits.
fn tcp(source: u8, destination: u8, control: u8) -> Vec<u8> {
    let mut frame = udp(source, destination, (1, 1), 9);
    frame[23] = 6;
    frame[46..48].copy_from_slice(&[0x50, control]);
    frame
}

const FIN: u8 = 1;
const RST: u8 = 4;
const ACK: u8 = 16;

impl Lab {
    /// Timeouts of the only flow of a table.
    fn timeouts(&self, table: u8) -> (u16, u16) {
        let tables = self.switch.tables("br0").unwrap();
        tables.flows(TableId(table)).next().unwrap().entry().timeouts()
    }

    /// Removes expired flows. Returns their number.
    fn expire(&self) -> usize {
        self.switch.expire(self.now).0.iter().map(|(_, changes)| changes.removed.len()).sum()
    }
}

#[test]
fn a_packet_that_ends_its_connection_lowers_the_timeouts_of_its_flow() {
    for control in [FIN | ACK, RST] {
        let flow = "tcp,idle_timeout=60,actions=fin_timeout(idle_timeout=5,hard_timeout=20),output:2";
        let mut lab = Lab::new(&flows(&[flow]));
        for _ in 0..3 {
            assert_eq!(lab.ports(0, &tcp(1, 2, ACK)), [1]);
        }
        lab.learn();
        assert_eq!(lab.timeouts(0), (60, 0));
        // The result of packets without FIN is in the caches.
        assert_eq!(lab.ports(0, &tcp(1, 2, control)), [1]);
        lab.learn();
        assert_eq!(lab.timeouts(0), (5, 20));
        assert_eq!(lab.ports(0, &tcp(1, 2, ACK)), [1], "it stays until then");
        lab.pass(4 * SECOND);
        assert_eq!(lab.expire(), 0);
        lab.pass(2 * SECOND);
        assert_eq!(lab.expire(), 1, "no packet for 5 s");
        assert_eq!(lab.send(0, &[tcp(1, 2, control)]).drops["no-flow"], 1);
    }
}

#[test]
fn lower_timeouts_stay_and_only_tcp_ends() {
    let end = "fin_timeout(idle_timeout=50,hard_timeout=0)";
    let mut lab = Lab::new(&flows(&[&format!("tcp,idle_timeout=10,hard_timeout=9,actions={end}")]));
    lab.send(0, &[tcp(1, 2, FIN)]);
    assert!(lab.switch.exchange.take_noted().is_empty(), "nothing to lower");
    assert_eq!(lab.timeouts(0), (10, 9));
    let inconsistent = flows(&[&format!("udp,actions={end}"), &format!("ip,actions={end}")]);
    for change in inconsistent {
        let refused = lab.switch.modify("br0", &[change], lab.now);
        assert!(matches!(refused, Err(ChangeError::Invalid(0, _))), "{refused:?}");
    }
}

#[test]
fn without_room_a_later_packet_ends_the_flow() {
    let learn = "udp,actions=learn(table=1,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[])";
    let mut lab = Lab::new(&flows(&[learn, "tcp,actions=fin_timeout(hard_timeout=20)"]));
    (0..1024).for_each(|n| drop(lab.send(0, &[from_host(n)])));
    lab.send(0, &[tcp(1, 2, FIN)]);
    assert_eq!(lab.lose_learned(), 1024);
    lab.send(0, &[tcp(1, 2, FIN)]);
    lab.learn();
    let tables = lab.switch.tables("br0").unwrap();
    let ended = tables.flows(TableId(0)).filter(|flow| flow.entry().timeouts() == (0, 20)).count();
    assert_eq!(ended, 1);
}

#[test]
fn a_learned_flow_ends_with_its_connection_and_is_not_learned_anew() {
    let learn = "tcp,in_port=1,actions=learn(table=1,idle_timeout=60,fin_idle_timeout=3,eth_type=0x800,nw_proto=6,\
                 NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[]),output:2";
    let mut lab = Lab::new(&flows(&[learn, "tcp,in_port=2,actions=resubmit(,1)"]));
    lab.send(0, &[tcp(1, 2, ACK)]);
    assert_eq!(lab.learn().added.len(), 1);
    assert_eq!(lab.ports(1, &tcp(2, 1, FIN | ACK)), [0]);
    lab.learn();
    assert_eq!(lab.timeouts(1), (3, 0));
    lab.send(0, &[tcp(1, 2, ACK)]);
    assert!(lab.learn().is_empty(), "the flow is refreshed");
    assert_eq!(lab.timeouts(1), (3, 0));
    lab.pass(4 * SECOND);
    assert_eq!(lab.expire(), 1);
}
