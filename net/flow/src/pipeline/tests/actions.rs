//! Actions, as the packets show them.

use super::*;

#[test]
fn fields_are_set_with_checksums() {
    let changes = vec![set(Field::Ipv4Dst, 0x0a00_0009), set(Field::UdpDst, 99), output(2)];
    let matching = ip().with(Field::IpProto, 17);
    let mut lab = Lab::new(&[flow(1, &matching, changes)]);
    let mut expected = udp(1, 2, (5, 99), 64);
    expected[33] = 9;
    expected[24..26].copy_from_slice(&[0, 0]);
    let header = wire::checksum::Sum::of(&expected[14..34]).finish();
    expected[24..26].copy_from_slice(&header);
    for _ in 0..2 {
        assert_eq!(lab.send(0, &[udp(1, 2, (5, 6), 64)]).sent[&1], [expected.clone()]);
    }
}

#[test]
fn a_later_table_sees_changed_fields_and_metadata() {
    let first = Instructions {
        apply: vec![set(Field::EthDst, 0x0200_0000_0009)],
        metadata: Some((7, 0xff)),
        goto: Some(TableId(1)),
        ..Instructions::default()
    };
    let second = Match::any().with(Field::EthDst, 0x0200_0000_0009).with_masked(Field::Metadata, 7, 0xff);
    let mut lab = Lab::new(&[
        in_table(0, 1, &Match::any(), first),
        in_table(1, 1, &second, Instructions { write: vec![output(3)], ..Instructions::default() }),
    ]);
    let outcome = lab.send(0, &[udp(1, 2, (1, 1), 9)]);
    assert_eq!(outcome.sent[&2][0][..6], [2, 0, 0, 0, 0, 9]);
    lab.change(&[in_table(1, 2, &Match::any(), Instructions::default())]);
    assert_eq!(lab.send(0, &[udp(1, 2, (1, 1), 9)]).drops["flow-drop"], 1);
}

#[test]
fn controllers_get_the_packet_as_it_is_at_the_action() {
    let actions = vec![to_controller(), set(Field::EthDst, 5), to_controller(), output(2)];
    let mut lab = Lab::new(&[flow(8, &Match::any(), actions)]);
    let frame = udp(1, 2, (1, 1), 9);
    let outcome = lab.send(0, std::slice::from_ref(&frame));
    let changed = [&[0, 0, 0, 0, 0, 5], &frame[6..]].concat();
    assert_eq!(outcome.punted, [(frame, 8), (changed.clone(), 8)]);
    assert_eq!(outcome.sent[&1], [changed]);
}

#[test]
fn an_expired_time_to_live_goes_to_controllers() {
    let mut lab = Lab::new(&[flow(1, &ip(), vec![Action::DecNwTtl(Box::new([0])), output(2)])]);
    let outcome = lab.send(0, &[udp(1, 2, (1, 1), 1), udp(1, 2, (1, 1), 2)]);
    assert_eq!((outcome.punted.len(), outcome.sent[&1][0][22]), (1, 1));
}

#[test]
fn outputs_are_in_the_queue_that_was_selected_before_them() {
    let queue = |number| Action::SetQueue(Some(number));
    let actions = vec![
        output(2),
        queue(4),
        output(3),
        set(Field::EthDst, 5),
        output(4),
        Action::SetQueue(None),
        output(2),
    ];
    let mut lab = Lab::new(&[flow(1, &by_port(1), actions), flow(1, &by_port(2), vec![queue(1), output(3)])]);
    for _ in 0..2 {
        let outcome = lab.send(0, &[udp(1, 2, (1, 1), 9)]);
        assert_eq!(outcome.classes[&1], [0, 0]);
        assert_eq!((&outcome.classes[&2], &outcome.classes[&3]), (&vec![5], &vec![5]));
        assert_eq!(lab.send(1, &[udp(1, 2, (1, 1), 9)]).classes[&2], [2]);
    }
}

#[test]
fn packets_above_the_rate_of_a_meter_are_dropped() {
    let flags = MeterFlags { packets: true, burst: true, stats: false };
    let bands = vec![Band { rate: 10, burst: 3, remark: None }];
    let meter = MeterMod { command: MeterCommand::Add, flags, id: 1, bands };
    let instructions = Instructions { meter: Some(1), apply: vec![output(2)], ..Instructions::default() };
    let mut lab = Lab::new(&[Modification::Meter(meter), in_table(0, 1, &Match::any(), instructions)]);
    let outcome = lab.send(0, &vec![udp(1, 2, (1, 1), 9); 10]);
    assert_eq!((outcome.sent[&1].len(), outcome.drops["metered"]), (3, 7));
}

#[test]
fn packets_to_controllers_above_the_rate_of_their_meter_are_dropped() {
    let flags = MeterFlags { packets: true, burst: true, stats: false };
    let bands = vec![Band { rate: 10, burst: 3, remark: None }];
    let meter = MeterMod { command: MeterCommand::Add, flags, id: 0xffff_fffe, bands };
    let both = flow(1, &Match::any(), vec![to_controller(), output(2)]);
    let mut lab = Lab::new(&[both, Modification::Meter(meter)]);
    let outcome = lab.send(0, &vec![udp(1, 2, (1, 1), 9); 10]);
    assert_eq!((outcome.punted.len(), outcome.drops["metered"], outcome.sent[&1].len()), (3, 7, 10));
}

#[test]
fn fragments_are_dropped_where_the_configuration_says_so() {
    let mut lab = Lab::new(&[flow(1, &by_port(1), vec![output(2)])]);
    let (whole, mut first, mut later) = (udp(1, 2, (1, 1), 9), udp(1, 2, (1, 1), 9), udp(1, 2, (1, 1), 9));
    (first[20], later[21]) = (0x20, 7);
    let burst = [whole, first, later];
    for _ in 0..2 {
        assert_eq!(lab.send(0, &burst).sent[&1].len(), 3);
    }
    lab.switch.drop_fragments("br0", true).unwrap();
    for _ in 0..2 {
        let outcome = lab.send(0, &burst);
        assert_eq!((outcome.sent[&1].clone(), outcome.drops["flow-drop"]), (vec![burst[0].clone()], 2));
    }
    lab.switch.drop_fragments("br0", false).unwrap();
    assert_eq!(lab.send(0, &burst).sent[&1].len(), 3);
}

#[test]
fn a_stripped_label_reveals_fields_for_the_rest_of_the_pipeline() {
    let first = Instructions {
        apply: vec![Action::PopMpls(0x0800)],
        goto: Some(TableId(1)),
        ..Instructions::default()
    };
    let mut lab = Lab::new(&[
        in_table(0, 1, &Match::any().with(Field::EthType, 0x8847), first),
        in_table(
            1,
            1,
            &ip().with(Field::Ipv4Dst, 0x0a00_0002),
            Instructions { apply: vec![output(3)], ..Instructions::default() },
        ),
    ]);
    let frame = udp(1, 2, (1, 1), 9);
    let labelled = [&frame[..12], &[0x88, 0x47, 0, 1, 1, 64], &frame[14..]].concat();
    for _ in 0..3 {
        assert_eq!(lab.send(0, std::slice::from_ref(&labelled)).sent[&2], std::slice::from_ref(&frame));
    }
}
