use super::*;
use proptest::prelude::*;

/// 8 Mbit/s is a byte per microsecond.
const MBYTE: u64 = 8_000_000;
const SECOND: u64 = 1_000_000_000;

pub(crate) fn rates(rate: u64, ceil: u64) -> ClassRates {
    ClassRates { rate, ceil, burst: 3000, ceil_burst: 3000 }
}

pub(crate) fn node(rate: u64, ceil: u64, parent: Option<u8>, priority: u8) -> Node {
    Node { rates: rates(rate, ceil), parent, priority, quantum: 1514 }
}

/// Bytes that each class sends in a second, if the given leaves always have packets of `len` bytes.
fn run(nodes: &[Node], leaves: &[(usize, u32)]) -> Vec<u64> {
    let (mut htb, mut sent, mut now) = (Htb::new(nodes), vec![0; nodes.len()], 0);
    while now < SECOND {
        htb.advance(now);
        while let Some(leaf) = htb.select(|class| leaves.iter().any(|leaf| leaf.0 == class)) {
            let len = leaves.iter().find(|known| known.0 == leaf).unwrap().1;
            htb.charge(leaf, len);
            sent[leaf] += u64::from(len);
        }
        now = htb.next(|class| leaves.iter().any(|leaf| leaf.0 == class)).unwrap();
    }
    sent
}

/// Whether `found` bytes are those of `rate` in a second, up to burst and two packets.
fn is_rate(found: u64, rate: u64) -> bool {
    found.abs_diff(rate / 8) <= 3000 + 2 * 1514
}

#[test]
fn a_class_alone_borrows_up_to_its_ceiling() {
    let nodes = [node(10 * MBYTE, 10 * MBYTE, None, 0), node(MBYTE, 4 * MBYTE, Some(0), 0)];
    let sent = run(&nodes, &[(1, 1000)]);
    assert!(is_rate(sent[1], 4 * MBYTE), "{sent:?}");
}

#[test]
fn guarantees_hold_and_the_rest_goes_to_the_higher_priority() {
    let root = node(10 * MBYTE, 10 * MBYTE, None, 0);
    let leaf = |rate, priority| node(rate, 10 * MBYTE, Some(0), priority);
    let sent = run(&[root, leaf(2 * MBYTE, 1), leaf(3 * MBYTE, 0)], &[(1, 700), (2, 1500)]);
    assert!(is_rate(sent[1], 2 * MBYTE) && is_rate(sent[2], 8 * MBYTE), "{sent:?}");
}

#[test]
fn classes_of_one_priority_share_the_rest_by_bytes() {
    let root = node(10 * MBYTE, 10 * MBYTE, None, 0);
    let leaf = || node(MBYTE, 10 * MBYTE, Some(0), 0);
    let sent = run(&[root, leaf(), leaf()], &[(1, 100), (2, 1500)]);
    assert!(sent[1].abs_diff(sent[2]) < 20_000 && is_rate(sent[1] + sent[2], 10 * MBYTE), "{sent:?}");
}

#[test]
fn an_inner_class_limits_its_leaves() {
    let nodes = [
        node(10 * MBYTE, 10 * MBYTE, None, 0),
        node(2 * MBYTE, 3 * MBYTE, Some(0), 0),
        node(MBYTE, 10 * MBYTE, Some(1), 0),
        node(MBYTE, 10 * MBYTE, Some(1), 0),
        node(MBYTE, 10 * MBYTE, Some(0), 7),
    ];
    let sent = run(&nodes, &[(2, 1000), (3, 1000), (4, 1000)]);
    assert!(is_rate(sent[2] + sent[3], 3 * MBYTE) && is_rate(sent[4], 7 * MBYTE), "{sent:?}");
}

#[test]
fn changed_rates_apply_from_then_on() {
    let mut htb = Htb::new(&[node(MBYTE, MBYTE, None, 0)]);
    htb.set_rates(0, rates(2 * MBYTE, 2 * MBYTE));
    htb.charge(0, 3000 + 2000);
    assert_eq!((htb.next(|_| true), htb.rates(0)), (Some(1_000_000), Some(rates(2 * MBYTE, 2 * MBYTE))));
}

proptest! {
    // Each case sends for a second.
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// With all leaves busy no class is above its ceiling, all have their guarantees, and the port is at its rate.
    #[test]
    fn rates_conform_for_any_tree(
        leaves in prop::collection::vec((1u64..8, 1u64..30, 0u8..4, 60u32..1515, any::<bool>()), 1..8),
        spare in 0u64..10,
    ) {
        let total: u64 = leaves.iter().map(|leaf| leaf.0).sum();
        let port = (total + spare) * MBYTE;
        let mut nodes = vec![node(port, port, None, 0), node(0, port, Some(0), 0)];
        for &(rate, more, priority, _, inner) in &leaves {
            nodes.push(node(rate * MBYTE, (rate + more) * MBYTE, Some(u8::from(inner)), priority));
        }
        let inner = leaves.iter().filter(|leaf| leaf.4).map(|leaf| leaf.0).sum::<u64>();
        nodes[1].rates.rate = inner * MBYTE;
        let busy: Vec<_> = leaves.iter().enumerate().map(|(i, leaf)| (i + 2, leaf.3)).collect();
        let sent = run(&nodes, &busy);
        // Bursts of all classes, and a packet of each.
        let slack = nodes.len() as u64 * (3000 + 1514);
        for (i, leaf) in leaves.iter().enumerate() {
            prop_assert!(sent[i + 2] + slack >= leaf.0 * MBYTE / 8, "guarantee of {}: {:?}", i, sent);
            prop_assert!(sent[i + 2] <= (leaf.0 + leaf.1) * MBYTE / 8 + slack, "ceiling of {}: {:?}", i, sent);
        }
        prop_assert!(sent.iter().sum::<u64>() <= port / 8 + slack, "{:?}", sent);
    }
}
