//! Packet-outs, and whether ports can send.

use super::*;
use crate::action::Bucket;
use crate::modify::{GroupCommand, GroupKind, GroupMod};
use std::sync::mpsc::{Receiver, channel};

type Frame = (PortId, Box<[u8]>, u32);

/// A lab whose engine keeps the frames until they are executed.
struct Controller {
    lab: Lab,
    waiting: Receiver<Frame>,
}

impl Controller {
    fn new(changes: &[Modification]) -> Self {
        let (lab, (sender, waiting)) = (Lab::new(changes), channel());
        lab.switch.connect(move |port, frame, stage| sender.send((port, frame, stage)).is_ok());
        Self { lab, waiting }
    }

    fn request(&self, in_port: PortNo, actions: &[Action], frame: &[u8]) -> Result<(), PacketOutError> {
        self.lab.switch.packet_out("br0", in_port, actions, frame, self.lab.now)
    }

    /// Has the worker execute the oldest frame.
    fn execute(&mut self) -> (PortId, Outcome) {
        let (from, frame, stage) = self.waiting.try_recv().unwrap();
        let context = Context { injected: true, stage, ..Context::received(from, self.lab.now) };
        (from, run(self.lab.worker.as_mut(), &context, &[frame.to_vec()]))
    }

    fn send(&mut self, in_port: PortNo, actions: &[Action]) -> Outcome {
        self.request(in_port, actions, &udp(1, 2, (1, 1), 9)).unwrap();
        self.execute().1
    }

    /// Output ports of a packet-out.
    fn ports(&mut self, in_port: PortNo, actions: &[Action]) -> Vec<u16> {
        self.send(in_port, actions).sent.into_keys().collect()
    }
}

#[test]
fn actions_are_executed_for_each_kind_of_ingress_port() {
    let group = GroupMod {
        command: GroupCommand::Add,
        kind: GroupKind::All,
        id: 1,
        buckets: [2, 3].map(|port| bucket(port, None)).into(),
    };
    let table = flow(1, &Match::any().with(Field::InPort, PortNo::CONTROLLER.0.into()), vec![output(4)]);
    let mut controller = Controller::new(&[Modification::Group(group), table, flow(1, &by_port(2), vec![])]);
    let to = |port: PortNo| vec![output(port.0)];
    assert_eq!(controller.ports(PortNo::CONTROLLER, &[output(1), output(2)]), [0, 1]);
    assert_eq!(controller.ports(PortNo::ANY, &to(PortNo::FLOOD)), [0, 1, 2, 3]);
    assert_eq!(controller.ports(PortNo::LOCAL, &to(PortNo::ALL)), [0, 1, 2, 3]);
    assert_eq!(controller.ports(PortNo(3), &to(PortNo::ALL)), [0, 1, 3]);
    assert_eq!(controller.ports(PortNo(3), &to(PortNo::IN_PORT)), [2]);
    assert_eq!(controller.ports(PortNo(3), &[Action::Group(1)]), [1], "not the ingress port");
    assert_eq!(controller.ports(PortNo(2), &to(PortNo::NORMAL)), [9], "the learning bridge");
    assert_eq!(controller.ports(PortNo::CONTROLLER, &to(PortNo::NORMAL)), [0, 1, 2, 3], "flooded");
    assert_eq!(controller.ports(PortNo::CONTROLLER, &to(PortNo::TABLE)), [3]);
    assert_eq!(controller.send(PortNo(2), &to(PortNo::TABLE)).drops["flow-drop"], 1);
    assert_eq!(controller.send(PortNo(2), &[]).drops["flow-drop"], 1);
    let outcome = controller.send(PortNo::ANY, &[set(Field::EthDst, 5), to_controller(), output(1)]);
    assert_eq!((outcome.sent[&0][0][..6].to_vec(), outcome.punted.len()), (vec![0, 0, 0, 0, 0, 5], 1));
    assert_eq!(outcome.in_ports, [u128::from(PortNo::ANY.0)]);
    assert!(controller.send(PortNo(1), &[to_controller()]).in_ports.is_empty());
}

#[test]
fn a_later_pass_has_the_ingress_port_of_the_packet_out() {
    let matching = ip().with(Field::InPort, PortNo::CONTROLLER.0.into()).with(Field::Ipv4Dst, 0x0a00_0002);
    let mut controller = Controller::new(&[flow(1, &matching, vec![output(2)])]);
    let mut frame = udp(1, 2, (1, 1), 9);
    frame.splice(12..14, [0x88, 0x47, 0, 1, 1, 64]);
    let actions = [Action::PopMpls(0x0800), output(PortNo::TABLE.0)];
    controller.request(PortNo::CONTROLLER, &actions, &frame).unwrap();
    assert_eq!(controller.execute().1.sent[&1], [udp(1, 2, (1, 1), 9)]);
    // The next received packet is not affected.
    assert_eq!(controller.lab.send(0, &[udp(1, 2, (1, 1), 9)]).drops["no-flow"], 1);
}

#[test]
fn packet_outs_wait_in_order_and_their_number_is_limited() {
    let mut controller = Controller::new(&[]);
    let frame = |number: u16| {
        let mut frame = udp(1, 2, (1, 1), 9);
        frame[..2].copy_from_slice(&number.to_be_bytes());
        frame
    };
    for round in 0..2 {
        (0..1024).for_each(|n| controller.request(PortNo::ANY, &[output(2)], &frame(n)).unwrap());
        assert_eq!(controller.request(PortNo::ANY, &[], &frame(0)), Err(PacketOutError::Busy), "{round}");
        for n in 0..1024 {
            assert_eq!(controller.execute().1.sent[&1], [frame(n)]);
        }
    }
    // A worker that hangs does not stop the others.
    (0..1024).for_each(|n| controller.request(PortNo::ANY, &[output(2)], &frame(n)).unwrap());
    controller.lab.now = Now(controller.lab.now.0 + 11_000_000_000);
    controller.request(PortNo::ANY, &[output(3)], &frame(7)).unwrap();
    assert_eq!(controller.execute().1.drops["no-destination"], 1, "its actions are gone");
    (1..1024).for_each(|_| drop(controller.execute()));
    assert_eq!(controller.execute().1.sent[&2], [frame(7)]);
}

#[test]
fn a_lost_frame_does_not_delay_others() {
    let mut controller = Controller::new(&[]);
    let request = |controller: &Controller, port| {
        controller.request(PortNo::ANY, &[output(port)], &udp(1, 2, (1, 1), 9))
    };
    request(&controller, 1).unwrap();
    drop(controller.waiting.try_recv().unwrap());
    for _ in 0..2 {
        (0..1023).for_each(|_| request(&controller, 2).unwrap());
        assert_eq!(request(&controller, 2), Err(PacketOutError::Busy));
        (0..1023).for_each(|_| assert_eq!(controller.execute().1.sent[&1].len(), 1));
    }
}

#[test]
fn what_cannot_be_executed_is_refused() {
    let controller = Controller::new(&[]);
    let frame = udp(1, 2, (1, 1), 9);
    assert_eq!(controller.request(PortNo::FLOOD, &[], &frame), Err(PacketOutError::InPort(PortNo::FLOOD)));
    assert_eq!(controller.request(PortNo(0), &[], &frame), Err(PacketOutError::InPort(PortNo(0))));
    assert_eq!(controller.request(PortNo(1), &[], &frame[..13]), Err(PacketOutError::Length(13)));
    let bad = controller.request(PortNo(1), &[Action::Group(9)], &frame);
    assert!(matches!(bad, Err(PacketOutError::Action(_))), "{bad:?}");
    let switch = &controller.lab.switch;
    let unknown = switch.packet_out("br1", PortNo(1), &[], &frame, Now(0));
    assert!(matches!(unknown, Err(PacketOutError::Bridge(_))), "{unknown:?}");
    switch.add_bridge("br1").unwrap();
    let alone = switch.packet_out("br1", PortNo(1), &[], &frame, Now(0));
    assert_eq!(alone, Err(PacketOutError::NoPort("br1".to_owned())));
    assert!(controller.waiting.try_recv().is_err());
    let unconnected = Lab::new(&[]).switch.packet_out("br0", PortNo(1), &[], &frame, Now(0));
    assert_eq!(unconnected, Err(PacketOutError::Busy));
}

#[test]
fn a_removed_bridge_executes_nothing() {
    let mut controller = Controller::new(&[]);
    controller.request(PortNo(1), &[output(2)], &udp(1, 2, (1, 1), 9)).unwrap();
    controller.lab.switch.remove_bridge("br0").unwrap();
    controller.lab.switch.add_bridge("br0").unwrap();
    assert_eq!(controller.execute().1.drops["no-destination"], 1);
}

fn bucket(port: u32, watch_port: Option<PortNo>) -> Bucket {
    Bucket { id: port, weight: 0, watch_port, watch_group: None, actions: vec![output(port)] }
}

#[test]
fn a_group_follows_the_ports_that_can_send() {
    let buckets = [2, 3].map(|port| bucket(port, Some(PortNo(port)))).into();
    let group = GroupMod { command: GroupCommand::Add, kind: GroupKind::FastFailover, id: 1, buckets };
    let mut lab = Lab::new(&[Modification::Group(group), flow(1, &Match::any(), vec![Action::Group(1)])]);
    let mut observer = lab.switch.observer().unwrap();
    let frame = udp(1, 2, (1, 1), 9);
    assert_eq!(lab.ports(0, &frame), [1]);
    observer.changed(PortId(1), false, lab.now);
    assert_eq!(lab.ports(0, &frame), [2]);
    observer.changed(PortId(2), false, lab.now);
    assert_eq!(lab.send(0, std::slice::from_ref(&frame)).drops["flow-drop"], 1);
    observer.changed(PortId(1), true, lab.now);
    assert_eq!(lab.ports(0, &frame), [1]);
    let down = PortConfig { is_down: true, ..PortConfig::default() };
    lab.switch.configure_port(PortId(1), down);
    observer.changed(PortId(2), true, lab.now);
    assert_eq!(lab.ports(0, &frame), [2], "a controller has set the port down");
    observer.changed(PortId(2), false, lab.now);
    lab.switch.configure_port(PortId(1), PortConfig::default());
    let event = |port, is_up| PortEvent {
        port: PortId(port),
        bridge: "br0".to_owned(),
        number: PortNo(u32::from(port) + 1),
        is_up,
    };
    assert_eq!(lab.switch.take_port_events(), [event(1, true), event(2, false)], "the latest of each port");
    observer.changed(PortId(3), true, lab.now);
    observer.changed(PortId(7), true, lab.now);
    lab.switch.remove_port(PortId(3));
    assert!(lab.switch.take_port_events().is_empty(), "they are on no bridge");
}

#[test]
fn only_results_that_watch_ports_depend_on_whether_these_can_send() {
    let buckets = [3, 4].map(|port| bucket(port, Some(PortNo(port)))).into();
    let group = GroupMod { command: GroupCommand::Add, kind: GroupKind::FastFailover, id: 1, buckets };
    let watching = flow(2, &by_port(2), vec![Action::Group(1)]);
    let mut lab = Lab::new(&[Modification::Group(group), flow(1, &ip(), vec![output(4)]), watching]);
    let mut observer = lab.switch.observer().unwrap();
    let frame = udp(1, 2, (1, 1), 9);
    assert_eq!((lab.ports(0, &frame), lab.ports(1, &frame)), (vec![3], vec![2]));
    let (_, _, before) = lab.counts();
    for is_up in [false, true] {
        observer.changed(PortId(2), is_up, lab.now);
        let expected = if is_up { 2 } else { 3 };
        assert_eq!((lab.ports(0, &frame), lab.ports(1, &frame)), (vec![3], vec![expected]));
    }
    let (_, _, after) = lab.counts();
    assert_eq!(after - before, 2, "the other result was kept");
    // Ports of another bridge do not matter either.
    lab.switch.add_bridge("br1").unwrap();
    lab.switch.add_port(PortId(9), "br1", None).unwrap();
    lab.switch.remove_port(PortId(9));
    lab.switch.configure_port(PortId(0), SILENT);
    assert_eq!((lab.ports(0, &frame), lab.ports(1, &frame)), (vec![3], vec![2]));
    assert_eq!(lab.counts().2, after);
}
