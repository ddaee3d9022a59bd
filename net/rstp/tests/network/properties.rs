//! Random networks become spanning trees.

use crate::simulation::Network;
use proptest::prelude::*;
use rstp::{BridgeConfig, PortConfig, Protocol, path_cost};

/// Longest time to converge with STP: information ages, and ports pass through two states. Counting to infinity, and
/// detection of the neighbours' version, may come before.
const LIMIT: u64 = 20 + 2 * 15 + 2 * 20 + 10;
/// Maximum age of information, in seconds.
const MAX_LOOP: u64 = 20;

#[derive(Clone, Debug)]
struct Plan {
    bridges: Vec<(u16, bool)>,
    /// Ends, selector of the speed, and whether the link is point to point.
    links: Vec<(usize, usize, u8, bool)>,
    cuts: Vec<usize>,
    loss: u8,
}

fn plan() -> impl Strategy<Value = Plan> {
    let bridges = proptest::collection::vec((0_u16..16, any::<bool>()), 2..8);
    let links = proptest::collection::vec(
        (any::<usize>(), any::<usize>(), 0_u8..4, proptest::bool::weighted(0.8)),
        1..14,
    );
    let cuts = proptest::collection::vec(any::<usize>(), 0..6);
    (bridges, links, cuts, 0_u8..120).prop_map(|(bridges, links, cuts, loss)| Plan {
        bridges,
        links,
        cuts,
        loss,
    })
}

fn build(plan: &Plan, rapid_only: bool) -> Network {
    let config = |(priority, rapid): &(u16, bool)| {
        let protocol = if *rapid || rapid_only { Protocol::Rstp } else { Protocol::Stp };
        BridgeConfig { protocol, priority: priority * 4096, ..BridgeConfig::default() }
    };
    let mut network = Network::new(&plan.bridges.iter().map(config).collect::<Vec<_>>());
    let n = plan.bridges.len();
    for (a, b, speed, point_to_point) in &plan.links {
        let cost = path_cost(10_000_000_u64 << (3 * speed));
        let config = PortConfig { cost, point_to_point: *point_to_point, ..PortConfig::default() };
        network.connect(a % n, b % n, config);
    }
    network
}

/// Cuts and restores links, one after the other.
fn disturb(network: &mut Network, plan: &Plan, pause: u64) {
    for cut in &plan.cuts {
        let link = cut % network.links.len();
        network.set_link(link, !network.links[link].is_up);
        network.run(pause);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn networks_of_both_versions_converge_after_cuts(plan in plan(), pause in 0_u64..5) {
        let mut network = build(&plan, false);
        network.converge(LIMIT);
        disturb(&mut network, &plan, pause);
        network.converge(LIMIT);
        network.run(3 * LIMIT);
        prop_assert!(network.is_converged(), "a spanning tree is stable");
    }

    #[test]
    fn networks_converge_after_bpdus_were_lost(plan in plan()) {
        let mut network = build(&plan, true);
        network.loss = plan.loss;
        network.run(10);
        disturb(&mut network, &plan, 2);
        network.run(20);
        network.loss = 0;
        network.converge(LIMIT);
    }

    /// Information of a root that is gone can circulate until it is too old, and ports follow it ("count to infinity",
    /// Elmeleegy et al., INFOCOM 2006). The standard bounds the time, but does not exclude a loop meanwhile.
    #[test]
    fn loops_after_a_cut_of_a_rapid_network_end(plan in plan(), cut in any::<usize>()) {
        let mut network = build(&plan, true);
        network.converge(LIMIT);
        let link = cut % network.links.len();
        network.set_link(link, false);
        let mut looped = 0;
        for _ in 0..LIMIT {
            looped += u64::from(network.has_loop());
            network.run(1);
        }
        prop_assert!(looped <= MAX_LOOP, "a loop of {looped} s");
        prop_assert!(network.is_converged());
    }
}
