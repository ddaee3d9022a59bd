//! Two systems under simulated time: lost LACPDUs, failing links and wrong cables.

use lacp::{Group, GroupConfig, Mux, Pdu, Receive, State};
use proptest::prelude::*;
use std::collections::VecDeque;
use wire::MacAddress;

const MILLI: u64 = 1_000_000;
const SECOND: u64 = 1000 * MILLI;
const STEP: u64 = 50 * MILLI;

fn config(system: u8, is_active: bool, is_fast: bool) -> GroupConfig {
    let system = MacAddress::new([2, 0, 0, 0, 0, system]);
    GroupConfig { is_active, is_fast, system_priority: 100, system, key: 7 }
}

/// Systems whose ports are connected by cables: system and port at each end.
struct Site {
    groups: Vec<Group>,
    cables: Vec<[(usize, u16); 2]>,
    is_up: Vec<bool>,
    flying: VecDeque<(usize, u16, Pdu)>,
    sent: usize,
    now: u64,
}

impl Site {
    fn new(groups: Vec<Group>, cables: Vec<[(usize, u16); 2]>) -> Self {
        let is_up = vec![true; cables.len()];
        let mut site = Self { groups, cables, is_up, flying: VecDeque::new(), sent: 0, now: 0 };
        for [a, b] in site.cables.clone() {
            for (system, port) in [a, b] {
                site.groups[system].add(port, 1);
                site.groups[system].set_enabled(port, true, 0);
            }
        }
        site
    }

    /// Two systems with this number of cables.
    fn pair(one: GroupConfig, other: GroupConfig, cables: u16) -> Self {
        let groups = vec![Group::new(one), Group::new(other)];
        Self::new(groups, (1..=cables).map(|port| [(0, port), (1, 10 + port)]).collect())
    }

    fn set_cable(&mut self, cable: usize, is_up: bool) {
        self.is_up[cable] = is_up;
        for (system, port) in self.cables[cable] {
            self.groups[system].set_enabled(port, is_up, self.now);
        }
    }

    fn run(&mut self, time: u64, mut is_lost: impl FnMut() -> bool) {
        let end = self.now + time;
        while self.now < end {
            self.now += STEP;
            for (system, port, pdu) in std::mem::take(&mut self.flying) {
                self.groups[system].receive(port, &pdu, self.now);
            }
            for system in 0..self.groups.len() {
                let (cables, is_up, flying) = (&self.cables, &self.is_up, &mut self.flying);
                let sent = &mut self.sent;
                self.groups[system].run(self.now, |port, pdu| {
                    *sent += 1;
                    let other = cables.iter().zip(is_up).find_map(|([a, b], up)| match (system, port) {
                        from if from == *a => Some((*b, *up)),
                        from if from == *b => Some((*a, *up)),
                        _ => None,
                    });
                    if let Some(((to, port), true)) = other
                        && !is_lost()
                    {
                        flying.push_back((to, port, *pdu));
                    }
                });
            }
            self.check();
        }
    }

    /// Ports that distribute have one partner.
    fn check(&self) {
        for group in &self.groups {
            let ports = (0..=255).filter_map(|port| group.port(port)).filter(|port| port.is_distributing());
            let mut partners: Vec<_> = ports.map(|port| port.partner().system).collect();
            partners.dedup();
            assert!(partners.len() <= 1, "{partners:?}");
        }
    }

    fn distributing(&self, system: usize) -> usize {
        let ports = (0..=255).filter_map(|port| self.groups[system].port(port));
        ports.filter(|port| port.is_distributing()).count()
    }
}

#[test]
fn both_ends_aggregate_all_links() {
    for (one, other) in [((true, true), (true, false)), ((true, false), (false, true))] {
        let mut site = Site::pair(config(1, one.0, one.1), config(2, other.0, other.1), 3);
        site.run(5 * SECOND, || false);
        assert_eq!((site.distributing(0), site.distributing(1)), (3, 3), "{one:?} {other:?}");
        let port = site.groups[0].port(1).unwrap();
        assert_eq!((port.receive_state(), port.partner().port), (Receive::Current, 11));
        let full = State(State::SYNCHRONIZATION.0 | State::COLLECTING.0 | State::DISTRIBUTING.0);
        assert!(port.actor().state.has(full) && port.partner().state.has(full));
    }
}

#[test]
fn passive_ends_send_nothing() {
    let mut site = Site::pair(config(1, false, true), config(2, false, true), 2);
    site.run(10 * SECOND, || false);
    assert_eq!((site.sent, site.distributing(0)), (0, 0));
    assert_eq!(site.groups[0].port(1).unwrap().receive_state(), Receive::Defaulted);
    assert!(!site.groups[0].is_negotiated());
}

#[test]
fn a_silent_link_is_left_within_three_fast_intervals_and_comes_back() {
    let mut site = Site::pair(config(1, true, true), config(2, true, true), 2);
    site.run(5 * SECOND, || false);
    assert_eq!(site.distributing(0), 2);
    // LACPDUs of the first cable are lost, while the links stay up.
    let lost = std::mem::replace(&mut site.is_up[0], false);
    site.run(4 * SECOND, || false);
    assert_eq!((site.distributing(0), site.distributing(1)), (1, 1));
    site.is_up[0] = lost;
    site.run(5 * SECOND, || false);
    assert_eq!((site.distributing(0), site.distributing(1)), (2, 2));
}

#[test]
fn a_link_that_goes_down_is_left_at_once() {
    let mut site = Site::pair(config(1, true, false), config(2, true, false), 2);
    site.run(5 * SECOND, || false);
    site.set_cable(1, false);
    site.run(STEP, || false);
    assert_eq!((site.distributing(0), site.distributing(1)), (1, 1));
    let (before, port) = (site.sent, site.groups[0].port(2).unwrap());
    assert_eq!((port.mux(), port.receive_state()), (Mux::Detached, Receive::Disabled));
    site.set_cable(1, true);
    site.run(5 * SECOND, || false);
    assert_eq!((site.distributing(0), site.distributing(1)), (2, 2));
    assert!(site.sent > before);
}

#[test]
fn cables_to_two_systems_are_not_aggregated() {
    let groups = vec![1, 2, 3].into_iter().map(|system| Group::new(config(system, true, true))).collect();
    let cables = vec![[(0, 1), (1, 1)], [(0, 2), (1, 2)], [(0, 3), (2, 1)]];
    let mut site = Site::new(groups, cables);
    site.run(6 * SECOND, || false);
    assert_eq!([0, 1, 2].map(|system| site.distributing(system)), [2, 2, 0]);
    // The third cable is used when nothing leads to the second system any more.
    site.set_cable(0, false);
    site.set_cable(1, false);
    site.run(6 * SECOND, || false);
    assert_eq!([0, 1, 2].map(|system| site.distributing(system)), [1, 0, 1]);
}

#[test]
fn a_cable_from_a_system_to_itself_is_not_aggregated() {
    let mut site = Site::new(vec![Group::new(config(1, true, true))], vec![[(0, 1), (0, 2)]]);
    site.run(6 * SECOND, || false);
    assert_eq!((site.distributing(0), site.groups[0].is_negotiated()), (0, false));
}

proptest! {
    /// After any losses and failures, both ends agree once LACPDUs arrive again.
    #[test]
    fn ends_agree_after_losses_and_failures(
        script in prop::collection::vec((0usize..3, any::<bool>(), 0u64..4000), 0..12),
        losses in prop::collection::vec(any::<bool>(), 1..64),
        (fast, active) in (any::<bool>(), any::<bool>()),
    ) {
        let mut site = Site::pair(config(1, true, fast), config(2, active, true), 3);
        let mut losses = losses.into_iter().cycle();
        for (cable, is_up, time) in script {
            site.set_cable(cable, is_up);
            site.run(time * MILLI, || losses.next().unwrap_or(false));
        }
        (0..3).for_each(|cable| site.set_cable(cable, true));
        // A slow partner may send up to 30 seconds later.
        site.run(40 * SECOND, || false);
        prop_assert_eq!((site.distributing(0), site.distributing(1)), (3, 3));
    }
}

#[test]
fn a_change_of_rate_interrupts_no_link() {
    for (before, after) in [(true, false), (false, true)] {
        let mut site = Site::pair(config(1, true, before), config(2, true, true), 2);
        site.run(5 * SECOND, || false);
        site.groups[0].configure(config(1, true, after));
        let end = site.now + 100 * SECOND;
        while site.now < end {
            site.run(STEP, || false);
            assert_eq!((site.distributing(0), site.distributing(1)), (2, 2), "{} ms", site.now / MILLI);
        }
        let partner = *site.groups[1].port(11).unwrap().partner();
        assert_eq!(partner.state.has(State::SHORT_TIMEOUT), after);
    }
}

#[test]
fn another_key_or_priority_is_negotiated_again() {
    let mut site = Site::pair(config(1, true, true), config(2, true, true), 2);
    site.run(5 * SECOND, || false);
    site.groups[0].configure(GroupConfig { key: 8, ..config(1, true, true) });
    site.groups[0].set_priority(1, 9);
    site.run(10 * SECOND, || false);
    assert_eq!((site.distributing(0), site.distributing(1)), (2, 2));
    let partner = site.groups[1].port(11).unwrap().partner();
    assert_eq!((partner.key, partner.port_priority), (8, 9));
}
