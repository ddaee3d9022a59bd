//! Caches: what they find, what a change removes from them, and that they agree with the tables.

use super::*;

#[test]
fn a_flow_is_found_in_the_tables_once_and_in_the_head_cache_then() {
    let mut lab = Lab::new(&[flow(1, &by_port(1).with(Field::EthType, 0x800), vec![output(2)])]);
    let frames: Vec<_> = (0..10).map(|n| udp(1, 2, (n, 53), 64)).collect();
    assert_eq!(lab.send(0, &frames).sent[&1], frames);
    assert_eq!(lab.counts(), (0, 9, 1), "one megaflow for all, and a head for each");
    assert_eq!(lab.send(0, &frames).sent[&1], frames);
    assert_eq!(lab.counts(), (10, 9, 1));
    let outcome = lab.send(1, &frames);
    assert_eq!(outcome.drops["no-flow"], 10);
}

/// Tuple space explosion (Csikor et al., `CoNEXT` 2019): each field of an allowed packet is excluded by as many
/// prefixes as it has bits, so that packets that differ from it in chosen bits need a mask for each combination.
#[test]
fn a_sender_of_many_masks_costs_a_bounded_number_of_probes() {
    let udp_to = |field: Field, value: u128| ip().with(Field::IpProto, 17).with(field, value);
    let mut lab = Lab::new(&[
        flow(9, &udp_to(Field::UdpDst, 0x50), vec![output(2)]),
        flow(8, &ip().with(Field::Ipv4Src, 0x0a00_0001), vec![output(3)]),
        flow(7, &udp_to(Field::UdpSrc, 0x3039), vec![output(4)]),
    ]);
    let mut packets = 0;
    for (source, destination) in (0..16).flat_map(|s| (0..16).map(move |d| (s, d))) {
        let frames =
            (0..8).map(|bit| udp(1 ^ 1 << bit, 2, (0x3039 ^ 1 << source, 0x50 ^ 1 << destination), 64));
        let frames: Vec<_> = frames.collect();
        packets += frames.len() as u64;
        assert_eq!(lab.send(0, &frames).drops["no-flow"], 8);
    }
    lab.counts();
    let hostile = lab.switch.cache_counts("br0").unwrap();
    assert!(hostile.evicted_masks > 0, "{hostile:?}");
    assert!(hostile.probes <= 32 * packets && hostile.tables > packets / 2, "{hostile:?}");
    // A usual packet is found in the head cache from its second time on, without a probe.
    for _ in 0..10 {
        assert_eq!(lab.ports(0, &udp(1, 2, (1, 80), 64)), [1]);
    }
    lab.counts();
    let usual = lab.switch.cache_counts("br0").unwrap();
    assert_eq!((usual.head - hostile.head, usual.tables - hostile.tables), (9, 1));
    assert!(usual.probes - hostile.probes <= 32);
}

#[test]
fn packets_are_not_looked_at_as_long_as_results_depend_on_the_ingress_port_only() {
    let mut lab = Lab::new(&[flow(1, &by_port(1), vec![output(2)])]);
    let frames: Vec<_> = (0..10).map(|n| udp(1, 2, (n, 53), 64)).chain([vec![0; 14]]).collect();
    lab.send(0, &frames[..1]);
    assert_eq!(lab.send(0, &frames).sent[&1], frames);
    assert_eq!(lab.counts(), (11, 0, 1));
    assert_eq!(lab.send(1, &frames).drops["no-flow"], 11, "another port");
    lab.change(&[flow(2, &ip(), vec![output(3)])]);
    let outcome = lab.send(0, &frames);
    assert_eq!((&outcome.sent[&2][..], &outcome.sent[&1][..]), (&frames[..10], &frames[10..]));
    lab.switch.remove_port(PortId(1));
    assert!(lab.ports(0, &frames[10]).is_empty());
}

#[test]
fn a_time_to_live_is_part_of_the_head_once_a_flow_reads_it() {
    let mut lab = Lab::new(&[
        flow(2, &ip().with(Field::IpTtl, 1), vec![output(3)]),
        flow(1, &Match::any(), vec![output(2)]),
    ]);
    for _ in 0..3 {
        assert_eq!(lab.ports(0, &udp(1, 2, (1, 2), 64)), [1]);
        assert_eq!(lab.ports(0, &udp(1, 2, (1, 2), 1)), [2]);
    }
    assert!(lab.counts().0 > 0, "{:?}", lab.counts());
}

#[test]
fn a_change_applies_from_the_next_burst_on_and_keeps_other_results() {
    let host = |last: u128| ip().with(Field::Ipv4Dst, 0x0a00_0000 + last);
    let mut lab = Lab::new(&[flow(1, &host(2), vec![output(2)]), flow(1, &host(3), vec![output(3)])]);
    assert_eq!(
        (lab.ports(0, &udp(1, 2, (1, 1), 9)), lab.ports(0, &udp(1, 3, (1, 1), 9))),
        (vec![1], vec![2])
    );
    assert_eq!(lab.counts(), (0, 0, 2));
    lab.change(&[flow(1, &host(2), vec![output(4)])]);
    assert_eq!(
        (lab.ports(0, &udp(1, 2, (1, 1), 9)), lab.ports(0, &udp(1, 3, (1, 1), 9))),
        (vec![3], vec![2])
    );
    assert_eq!(lab.counts(), (1, 0, 3), "only the changed flow is translated again");
    // A flow of higher priority overlaps both.
    lab.change(&[flow(2, &ip(), vec![])]);
    assert_eq!(lab.send(0, &[udp(1, 2, (1, 1), 9), udp(1, 3, (1, 1), 9)]).drops["flow-drop"], 2);
}

fn matching() -> impl Strategy<Value = Match> {
    (any::<[bool; 7]>(), 1..4_u128, 1..4_u128, 1..4_u128, 0..3_u128).prop_map(|(has, a, b, c, ttl)| {
        let fields = [
            (Field::InPort, a % 2 + 1),
            (Field::EthSrc, 0x0200_0000_0000 + b),
            (Field::Ipv4Dst, 0x0a00_0000 + c),
            (Field::IpTtl, ttl),
            (Field::UdpDst, b),
            (Field::UdpSrc, c),
        ];
        let is_ip = has[0] || has[3] || has[4] || has[5] || has[6];
        let base = if is_ip { ip() } else { Match::any() };
        let base = if has[5] || has[6] { base.with(Field::IpProto, 17) } else { base };
        fields.iter().zip(&has[1..]).filter(|(_, has)| **has).fold(base, |all, ((field, value), _)| {
            if *field == Field::Ipv4Dst && a == 1 {
                all.with_masked(*field, *value & !3, 0xffff_fffc)
            } else {
                all.with(*field, *value)
            }
        })
    })
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let one = prop_oneof![
        (1..5_u32).prop_map(output),
        (1..4_u128).prop_map(|n| set(Field::EthDst, n)),
        (1..4_u128).prop_map(|n| set(Field::EthSrc, 0x0200_0000_0000 + n)),
        (1..4_u128).prop_map(|n| set(Field::Ipv4Dst, 0x0a00_0000 + n)),
        Just(Action::Resubmit(crate::Resubmit { in_port: None, table: Some(TableId(1)), ct: false })),
        Just(Action::DecNwTtl(Box::new([0]))),
        Just(Action::PushVlan(0x8100)),
        Just(to_controller()),
    ];
    prop::collection::vec(one, 0..4)
}

fn change() -> impl Strategy<Value = Modification> {
    (0..4_u16, matching(), actions(), any::<bool>(), any::<bool>()).prop_map(
        |(priority, matching, mut apply, deletes, goes_on)| {
            if !matches!(matching.exact(Field::EthType), Some(0x0800)) {
                let is_ip = |action: &Action| match action {
                    Action::SetField { field, .. } => *field == Field::Ipv4Dst,
                    action => matches!(action, Action::DecNwTtl(_)),
                };
                apply.retain(|action| !is_ip(action));
            }
            let goto = goes_on.then_some(TableId(1));
            let instructions = Instructions { apply, goto, ..Instructions::default() };
            match in_table(u8::from(priority % 2 == 1 && !goes_on), priority, &matching, instructions) {
                Modification::Flow(change) if deletes => {
                    Modification::Flow(Box::new(FlowMod { command: FlowCommand::Delete, ..*change }))
                }
                other => other,
            }
        },
    )
}

proptest! {
    /// A worker with caches does the same as one without cached results, also after changes in between.
    #[test]
    fn caches_agree_with_tables(steps in prop::collection::vec((prop::collection::vec(change(), 0..3), prop::collection::vec((0..2_u16, 1..4_u8, 1..4_u8, 1..4_u16, 1..4_u16, 0..3_u8), 1..12)), 1..12)) {
        let mut lab = Lab::new(&[]);
        for (changes, packets) in steps {
            for change in changes {
                // Some are refused, such as a second `goto`.
                let _ = lab.switch.modify("br0", &[change], lab.now);
            }
            for (from, source, destination, sport, dport, ttl) in packets {
                let frame = udp(source, destination, (sport, dport), ttl);
                let mut fresh = lab.switch.worker(1);
                let expected = send(fresh.as_mut(), from, std::slice::from_ref(&frame), lab.now);
                prop_assert_eq!(lab.send(from, &[frame]), expected);
            }
        }
    }
}

/// A frame with valid lengths.
fn frame(is_v6: bool, is_tagged: bool, protocol: u8, payload: usize) -> Vec<u8> {
    let mut frame = vec![2; 12];
    if is_tagged {
        frame.extend([0x81, 0, 0x20, 5]);
    }
    if is_v6 {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, payload as u8, protocol, 64]);
        frame.extend([7; 32]);
    } else {
        frame.extend([8, 0, 0x45, 0, 0, payload as u8 + 20, 0, 1, 0x40, 0, 64, protocol, 0, 0]);
        frame.extend([7; 8]);
    }
    frame.extend(vec![0x55; payload]);
    frame
}

fn key_of(frame: &[u8]) -> crate::Key {
    let mut key = crate::Key::ZERO;
    crate::packet::parse(&frame[..frame.len().min(port::HEAD)], frame.len(), &mut key);
    // The head caches compare the first only if a flow reads it, and have no results that depend on the second.
    key.set(Field::IpTtl, 0);
    key.set(Field::TcpFlags, 0);
    key
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Frames that the head caches take for equal have the same key.
    #[test]
    fn equal_heads_have_equal_keys(
        (is_v6, is_tagged) in any::<(bool, bool)>(),
        protocol in prop_oneof![Just(1_u8), Just(6), Just(17), Just(58), Just(132), any::<u8>()],
        payload in 0..90_usize,
        changes in prop::collection::vec((0..150_usize, any::<u8>()), 0..4),
    ) {
        use crate::cache::{Extent, Shape, V6_WORDS, difference, padded};
        let one = frame(is_v6, is_tagged, protocol, payload);
        let mut other = one.clone();
        for (at, byte) in changes {
            let len = other.len();
            other[at % len] = byte;
        }
        let head = |frame: &[u8]| frame[..frame.len().min(port::HEAD)].to_vec();
        let (first, second) = (head(&one), head(&other));
        let Some(shape) = Shape::of(&first, one.len()) else { return Ok(()) };
        let differs = |mask| difference::<V6_WORDS>(&padded(&first), &padded(&second), &mask) != 0;
        let is_of_shape = Shape::of(&second, other.len()) == Some(shape);
        let extent = Extent::of(shape, &first, one.len());
        prop_assert!(is_of_shape || differs(shape.outline()) || !extent.is_of(shape, &second, other.len()));
        if is_of_shape && !differs(shape.mask(false)) {
            prop_assert_eq!(key_of(&one), key_of(&other));
        }
    }
}

#[test]
fn a_second_lookup_of_the_first_table_makes_a_result_depend_on_changed_fields() {
    let resubmit = Action::Resubmit(crate::Resubmit { in_port: None, table: Some(TableId(0)), ct: false });
    let changed = Match::any().with(Field::EthDst, 5);
    let mut lab = Lab::new(&[flow(1, &by_port(1), vec![set(Field::EthDst, 5), resubmit])]);
    assert_eq!(lab.send(0, &[udp(1, 2, (1, 1), 9)]).drops.len(), 1);
    lab.change(&[flow(9, &changed, vec![output(3)])]);
    assert_eq!(lab.ports(0, &udp(1, 2, (1, 1), 9)), [2]);
}

/// [`udp`] as TCP, with these control bits.
fn tcp(flags: u8) -> Vec<u8> {
    let mut frame = udp(1, 2, (1, 80), 64);
    (frame[23], frame[46], frame[47]) = (6, 0x50, flags);
    frame
}

#[test]
fn packets_of_one_burst_and_head_have_the_results_of_their_other_bytes() {
    let syn = ip().with(Field::IpProto, 6).with_masked(Field::TcpFlags, 2, 2);
    let low = ip().with(Field::IpTtl, 0);
    let mut lab = Lab::new(&[
        flow(3, &syn, vec![output(2)]),
        flow(2, &low, vec![output(4)]),
        flow(1, &Match::any(), vec![output(3)]),
    ]);
    for _ in 0..2 {
        let outcome = lab.send(0, &[tcp(2), tcp(16), tcp(16), tcp(2)]);
        assert_eq!([&outcome.sent[&1], &outcome.sent[&2]].map(Vec::len), [2, 2]);
    }
    let mut lab = Lab::new(&[flow(2, &low, vec![output(4)]), flow(1, &Match::any(), vec![output(3)])]);
    let packet = |ttl| udp(1, 2, (1, 2), ttl);
    for _ in 0..2 {
        let outcome = lab.send(0, &[packet(64), packet(0), packet(64)]);
        assert_eq!([&outcome.sent[&2], &outcome.sent[&3]].map(Vec::len), [2, 1]);
    }
}

#[test]
fn a_result_whose_fields_were_set_before_a_lookup_is_kept_if_these_are_not_matched() {
    let to = |host: u128| Match::any().with(Field::EthDst, 0x0200_0000_0000 + host);
    let resubmit =
        |table| Action::Resubmit(crate::Resubmit { in_port: None, table: Some(TableId(table)), ct: false });
    let first = vec![
        set(Field::EthDst, 0x0200_0000_0005),
        resubmit(1),
        set(Field::EthDst, 0x0200_0000_0006),
        resubmit(1),
    ];
    let in_one = |priority, matching: &Match, port| {
        in_table(1, priority, matching, Instructions { apply: vec![output(port)], ..Instructions::default() })
    };
    let mut lab = Lab::new(&[flow(1, &by_port(1), first), in_one(1, &to(5), 2), in_one(1, &to(6), 3)]);
    let frame = udp(1, 2, (1, 1), 9);
    assert_eq!(lab.ports(0, &frame), [1, 2]);
    let (_, _, before) = lab.counts();
    // Neither lookup sees the address of the packet, which is that of host 2.
    lab.change(&[in_one(9, &to(2), 4), in_one(9, &to(7), 4), in_one(9, &by_port(2), 4)]);
    assert_eq!(lab.ports(0, &frame), [1, 2]);
    assert_eq!(lab.counts().2, before);
    lab.change(&[in_one(9, &to(6), 4)]);
    assert_eq!(lab.ports(0, &frame), [1, 3]);
    lab.change(&[in_one(9, &to(5), 4)]);
    assert_eq!(lab.ports(0, &frame), [3]);
    assert_eq!(lab.counts().2, before + 2);
}

#[test]
fn a_decremented_time_to_live_is_not_known_in_part() {
    let first = Instructions {
        apply: vec![Action::DecNwTtl(Box::new([0]))],
        goto: Some(TableId(1)),
        ..Instructions::default()
    };
    let second = |priority, matching: &Match, port| {
        in_table(1, priority, matching, Instructions { apply: vec![output(port)], ..Instructions::default() })
    };
    let mut lab = Lab::new(&[
        in_table(0, 1, &ip(), first),
        second(9, &ip().with(Field::IpTtl, 65), 3),
        second(1, &Match::any(), 2),
    ]);
    // 63 differs from 65 in bit 6, 66 agrees with 64 in it.
    assert_eq!(lab.ports(0, &udp(1, 2, (1, 1), 64)), [1]);
    assert_eq!(lab.ports(0, &udp(1, 2, (1, 1), 66)), [2]);
    lab.change(&[second(9, &ip().with(Field::IpTtl, 63), 4)]);
    assert_eq!(lab.ports(0, &udp(1, 2, (1, 1), 64)), [3]);
}

/// Caches of the bridge.
fn lookup(lab: &Lab) -> super::super::lookup::Lookup {
    let bridge = lab.switch.bridge("br0").unwrap();
    let learner = super::super::exchange::Learner::new(lab.switch.exchange.clone(), bridge.clone());
    let ports = super::super::directory::PortChanges::default();
    super::super::lookup::Lookup::new(bridge.tables.latest(), ports, learner)
}

/// Key of a packet of which only the ingress port is known.
fn key_from(port: u128) -> crate::Key {
    let mut key = crate::Key::ZERO;
    key.set(Field::InPort, port);
    key
}

#[test]
fn a_full_cache_forwards_packets_without_megaflows() {
    use super::super::lookup::ADMISSION;
    let lab = Lab::new(&[
        flow(2, &by_port(1), vec![output(3)]),
        flow(1, &Match::any(), vec![output(2)]),
        flow(3, &by_port(4), vec![set(Field::EthDst, 1), output(2)]),
    ]);
    let mut lookup = lookup(&lab);
    let directory = lab.switch.published.current();
    let (bridge, view) = directory.named("br0").unwrap();
    let scope = super::super::directory::Scope { directory: &directory, view, bridge, is_nested: false };
    let forward = |lookup: &mut super::super::lookup::Lookup, port| {
        lookup.forward_plainly(&key_from(port), &scope, (60, lab.now)).map(|port| port.0)
    };
    lookup.limit_megaflows(1);
    assert_eq!(forward(&mut lookup, 1), None, "there is room");
    lookup.find_key((&key_from(1), PortNo(1)), None, (&scope, lab.now));
    assert_eq!([1, 2, 3, 4].map(|port| forward(&mut lookup, port)), [Some(2), None, Some(1), None]);
    let forwarded = (4..ADMISSION).filter(|_| forward(&mut lookup, 1).is_some()).count();
    assert_eq!(forwarded as u32, ADMISSION - 5, "one is admitted");
    let flows = lookup.tables.flows(TableId(0));
    let mut counts: Vec<_> = flows.map(|flow| (flow.entry().priority(), flow.entry().counts())).collect();
    counts.sort_unstable();
    let of_first = u64::from(ADMISSION) - 4;
    assert_eq!(counts, [(1, (1, 60)), (2, (of_first, 60 * of_first)), (3, (0, 0))]);
}

#[test]
fn the_tables_are_searched_first_while_no_megaflow_is_found() {
    use super::super::lookup::MISSES;
    let lab = Lab::new(&[flow(2, &by_port(1), vec![output(3)])]);
    let mut lookup = lookup(&lab);
    let directory = lab.switch.published.current();
    let (bridge, view) = directory.named("br0").unwrap();
    let scope = super::super::directory::Scope { directory: &directory, view, bridge, is_nested: false };
    lookup.find_key((&key_from(1), PortNo(1)), None, (&scope, lab.now));
    // The first search was that of `find_key`.
    for _ in 1..MISSES {
        assert!(!lookup.misses_megaflows());
        assert!(lookup.find_megaflow(&key_from(2), lab.now).is_none());
    }
    assert!(lookup.misses_megaflows());
    assert!(lookup.find_megaflow(&key_from(1), lab.now).is_some());
    assert!(!lookup.misses_megaflows());
}

#[test]
fn identifiers_of_recirculations_are_reused_without_their_results() {
    let lab = Lab::new(&[]);
    let mut lookup = lookup(&lab);
    let directory = lab.switch.published.current();
    let (bridge, view) = directory.named("br0").unwrap();
    let scope = super::super::directory::Scope { directory: &directory, view, bridge, is_nested: false };
    let rest = || Arc::new(crate::translate::Resume::default());
    let (first, second, third) = (rest(), rest(), rest());
    assert_eq!((lookup.resume_id(&first), lookup.resume_id(&second), lookup.resume_id(&first)), (1, 2, 1));
    let (found, _) = lookup.find_key((&crate::Key::ZERO, PortNo(1)), None, (&scope, lab.now));
    assert!(lookup.current(found).is_some());
    lookup.exhaust_identifiers();
    assert_eq!(lookup.resume_id(&third), 1);
    assert!(lookup.current(found).is_none());
    assert_eq!(lookup.resume_id(&first), 2);
}
