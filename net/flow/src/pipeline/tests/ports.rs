//! Ports, counters and the control API.

use super::*;

#[test]
fn dropped_packets_are_counted_by_table_when_their_megaflow_is_credited() {
    let goto = Instructions { goto: Some(TableId(4)), ..Instructions::default() };
    let drop = in_table(4, 1, &ip(), Instructions::default());
    let mut lab = Lab::new(&[in_table(0, 1, &by_port(1), goto), drop]);
    let frames = vec![udp(1, 2, (1, 53), 64); 3];
    assert_eq!(lab.send(0, &frames).drops["flow-drop"], 3);
    assert_eq!(lab.send(1, &frames).drops["no-flow"], 3);
    for _ in 0..1024 {
        lab.now = Now(lab.now.0 + 1_000_000);
        lab.worker.tick(lab.now);
    }
    let expected = [
        TableDrops { table: TableId(0), no_flow: 3, flow_drop: 0 },
        TableDrops { table: TableId(4), no_flow: 0, flow_drop: 3 },
    ];
    assert_eq!(lab.switch.table_drops("br0").unwrap(), expected);
    let packet = TracedPacket::from_frame(&frames[0], frames[0].len(), PortNo(1));
    let trace = lab.switch.trace("br0", &packet, &[], lab.now).unwrap();
    assert_eq!(trace.passes[0].verdict, Verdict::Dropped(DropCause::NoOutput));
    assert_eq!(lab.switch.trace("x", &packet, &[], lab.now).unwrap_err(), UnknownBridge("x".to_owned()));
}

#[test]
fn normal_packets_and_other_ports_go_to_the_bridge() {
    let normal = Action::Output { port: PortNo::NORMAL, max_len: 0 };
    let mut lab = Lab::new(&[flow(1, &Match::any(), vec![set(Field::EthDst, 5), normal])]);
    let outcome = lab.send(0, &[udp(1, 2, (1, 1), 1)]);
    assert_eq!(outcome.sent[&9][0][..6], [0, 0, 0, 0, 0, 5]);
    assert_eq!(lab.ports(7, &udp(1, 2, (1, 1), 1)), [9], "the port is on no OpenFlow bridge");
}

#[test]
fn flooded_packets_leave_by_the_other_ports() {
    let flood = Action::Output { port: PortNo::FLOOD, max_len: 0 };
    let mut lab = Lab::new(&[flow(1, &Match::any(), vec![flood])]);
    lab.switch.configure_port(PortId(3), SILENT);
    assert_eq!(lab.ports(0, &udp(1, 2, (1, 1), 1)), [1, 2]);
    lab.switch.set_reserved(PortId(2), true);
    assert_eq!(lab.ports(0, &udp(1, 2, (1, 1), 1)), [1]);
}

#[test]
fn ports_do_what_their_configuration_allows() {
    let flood = Action::Output { port: PortNo::ALL, max_len: 0 };
    let forward = flow(2, &by_port(1), vec![output(2)]);
    let mut lab = Lab::new(&[forward, flow(1, &by_port(2), vec![flood])]);
    let frame = udp(1, 2, (1, 1), 9);
    assert_eq!((lab.ports(0, &frame), lab.ports(1, &frame)), (vec![1], vec![0, 2, 3]));
    let blocked = |lab: &mut Lab, port: u16| {
        let outcome = lab.send(port, std::slice::from_ref(&frame));
        (
            outcome.sent.keys().copied().collect::<Vec<_>>(),
            outcome.drops.get("port-blocked").copied().unwrap_or(0),
        )
    };
    let config = PortConfig { drops_sent: true, ..PortConfig::default() };
    lab.switch.configure_port(PortId(1), config);
    assert_eq!(blocked(&mut lab, 0), (vec![], 1), "a cached result is replaced");
    assert_eq!(blocked(&mut lab, 1), (vec![0, 2, 3], 0), "it still receives");
    let config = PortConfig { drops_received: true, ..PortConfig::default() };
    lab.switch.configure_port(PortId(1), config);
    assert_eq!((blocked(&mut lab, 0), blocked(&mut lab, 1)), ((vec![1], 0), (vec![], 1)));
    let config = PortConfig { is_down: true, ..PortConfig::default() };
    lab.switch.configure_port(PortId(1), config);
    assert_eq!((blocked(&mut lab, 0), blocked(&mut lab, 1)), ((vec![], 1), (vec![], 1)));
    lab.switch.configure_port(PortId(2), config);
    lab.switch.configure_port(PortId(1), PortConfig::default());
    assert_eq!(blocked(&mut lab, 1), (vec![0, 3], 0), "not flooded to a port that is down");
}

#[test]
fn misses_of_a_port_may_be_silent() {
    let miss = Action::Output { port: PortNo::CONTROLLER, max_len: 0xffff };
    let mut lab = Lab::new(&[flow(0, &Match::any(), vec![miss.clone()]), flow(1, &by_port(2), vec![miss])]);
    let frame = udp(1, 2, (1, 1), 9);
    let silent = PortConfig { misses_silently: true, ..PortConfig::default() };
    let punted = |lab: &mut Lab, port: u16| lab.send(port, std::slice::from_ref(&frame)).punted.len();
    assert_eq!((punted(&mut lab, 0), punted(&mut lab, 1)), (1, 1));
    lab.switch.configure_port(PortId(0), silent);
    lab.switch.configure_port(PortId(1), silent);
    assert_eq!((punted(&mut lab, 0), punted(&mut lab, 1)), (0, 1), "a flow that is no miss may ask for it");
}

#[test]
fn flows_are_credited_by_the_sweep() {
    let mut lab = Lab::new(&[flow(1, &by_port(1), vec![output(2)])]);
    let frame = udp(1, 2, (1, 1), 9);
    lab.send(0, &[frame.clone(), frame.clone(), frame]);
    lab.worker.tick(Now(lab.now.0 + 20_000_000)).expect("another sweep");
    let tables = lab.switch.tables("br0").unwrap();
    assert_eq!(tables.flows(TableId(0)).next().unwrap().entry().counts(), (3, 180));
}

#[test]
fn a_refused_change_changes_nothing() {
    let lab = Lab::new(&[]);
    let bad =
        in_table(3, 1, &Match::any(), Instructions { goto: Some(TableId(1)), ..Instructions::default() });
    let changes = [flow(1, &Match::any(), vec![]), bad];
    assert!(matches!(lab.switch.modify("br0", &changes, lab.now), Err(ChangeError::Invalid(1, _))));
    assert!(lab.switch.tables("br0").unwrap().is_empty(TableId(0)));
    assert!(matches!(lab.switch.modify("br1", &[], lab.now), Err(ChangeError::Bridge(_))));
}

#[test]
fn reasons_of_punts_are_those_of_the_actions() {
    let switch = FlowSwitch::new(Arc::new(Normal));
    assert!(switch.take_punted().is_empty());
    let mut observer = switch.observer().unwrap();
    switch.add_bridge("br0").unwrap();
    switch.add_port(PortId(0), "br0", None).unwrap();
    let context = Context::received(PortId(0), Now(0));
    observer.punted(Punted { context, reason: PuntReason::Action, note: None, frame: Box::default() });
    assert_eq!(switch.take_punted().len(), 1);
}

#[test]
fn results_follow_changes_of_ports() {
    let mut lab = Lab::new(&[flow(1, &by_port(1), vec![output(2)])]);
    assert_eq!(lab.ports(0, &udp(1, 2, (1, 1), 9)), [1]);
    lab.switch.remove_port(PortId(1));
    assert_eq!(lab.send(0, &[udp(1, 2, (1, 1), 9)]).drops["no-destination"], 1);
    lab.switch.add_port(PortId(5), "br0", Some(PortNo(2))).unwrap();
    assert_eq!(lab.ports(0, &udp(1, 2, (1, 1), 9)), [5]);
}

#[test]
fn a_port_may_be_the_local_one() {
    let mut lab = Lab::new(&[
        flow(2, &by_port(PortNo::LOCAL.0.into()), vec![output(PortNo::ALL.0)]),
        flow(1, &by_port(1), vec![output(PortNo::LOCAL.0)]),
        flow(1, &by_port(2), vec![output(PortNo::FLOOD.0)]),
        flow(1, &by_port(3), vec![set(Field::EthDst, 5), output(PortNo::LOCAL.0)]),
    ]);
    let frame = udp(1, 2, (1, 1), 9);
    assert_eq!(lab.send(0, std::slice::from_ref(&frame)).drops["no-destination"], 1);
    assert_eq!(lab.switch.add_port(PortId(7), "br0", Some(PortNo::LOCAL)).unwrap(), PortNo::LOCAL);
    assert!(lab.switch.add_port(PortId(8), "br0", Some(PortNo::LOCAL)).is_err(), "in use");
    for _ in 0..2 {
        assert_eq!(lab.ports(0, &frame), [7]);
        assert_eq!(lab.ports(1, &frame), [0, 2, 3, 7]);
        assert_eq!(lab.ports(7, &frame), [0, 1, 2, 3]);
        assert_eq!(lab.send(2, std::slice::from_ref(&frame)).sent[&7][0][..6], [0, 0, 0, 0, 0, 5]);
    }
    lab.change(&[flow(3, &by_port(PortNo::LOCAL.0.into()), vec![output(PortNo::NORMAL.0)])]);
    assert_eq!(lab.ports(7, &frame), [9], "the learning bridge has the port");
    assert_eq!(lab.switch.number(PortId(7)).unwrap().1, PortNo::LOCAL);
}

#[test]
fn a_standalone_bridge_ignores_its_tables_and_keeps_them() {
    let mut lab = Lab::new(&[flow(1, &by_port(1), vec![output(2)])]);
    let frame = udp(1, 2, (1, 1), 9);
    assert_eq!(lab.ports(0, &frame), [1]);
    lab.switch.set_standalone("br0", true).unwrap();
    assert_eq!(lab.ports(0, &frame), [9]);
    lab.switch.set_standalone("br0", false).unwrap();
    assert_eq!(lab.ports(0, &frame), [1]);
    assert!(lab.switch.set_standalone("br1", true).is_err());
}
