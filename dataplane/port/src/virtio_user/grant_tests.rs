//! A granted connection: both ends are created on it, and end with it.

use super::{Options, VirtioUser};
use crate::vhost_user::fake::FakeEngine;
use crate::vhost_user::{self, VhostUser};
use crate::{GrantEnd, PortControl, PortFault, PortState, RxQueue};
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// The end of the switch and that of the application, each with its engine.
struct Ends {
    back: VhostUser,
    switch: FakeEngine,
    front: VirtioUser,
    application: FakeEngine,
    now: Instant,
}

impl Ends {
    fn new(memory: u64) -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        for socket in [&ours, &theirs] {
            socket.set_nonblocking(true).unwrap();
        }
        let now = Instant::now();
        let offer = vhost_user::Options { memory, ..Default::default() };
        Self {
            back: VhostUser::over(ours.into(), "process 7".into(), offer, now).unwrap(),
            switch: FakeEngine::default(),
            front: VirtioUser::over(theirs.into(), "switch".into(), Options::default(), now).unwrap(),
            application: FakeEngine::default(),
            now,
        }
    }

    /// Runs both ends as often as a complete start needs.
    fn run(&mut self) {
        for _ in 0..200 {
            self.front.handle(self.now, &mut self.application);
            self.back.handle(self.now, &mut self.switch);
        }
    }

    fn states(&self) -> [PortState; 2] {
        [self.back.status().state, self.front.status().state]
    }

    /// Whether neither end has queues or a time to act at.
    fn are_over(&self) -> bool {
        let queues = self.switch.rx.len() + self.switch.tx.len() + self.application.rx.len();
        queues == 0 && self.back.deadline().is_none() && self.front.deadline().is_none()
    }
}

fn running() -> Ends {
    let mut ends = Ends::new(64 << 20);
    ends.run();
    assert_eq!(ends.states(), [PortState::Connected, PortState::Connected]);
    assert_eq!((ends.switch.rx.len(), ends.application.rx.len()), (1, 1));
    ends
}

fn ended(fault: impl Into<PortFault>) -> PortState {
    PortState::Ended(fault.into())
}

#[test]
fn removed_port_is_revoked_at_the_other_end() {
    let mut ends = running();
    assert_eq!((ends.back.status().place, ends.front.status().place), ("process 7".into(), "switch".into()));
    ends.back.close(&mut ends.switch);
    assert_eq!(ends.back.status().memory, (0, 0));
    ends.run();
    assert_eq!(ends.states(), [PortState::Closed, ended(GrantEnd::Revoked)]);
    assert!(ends.are_over());
    let text = ends.front.status().state.reason().unwrap().to_string();
    assert_eq!(text, "the grant ended: revoked by the switch");
}

#[test]
fn port_is_revoked_before_it_runs() {
    for messages in 0..8 {
        let mut ends = Ends::new(64 << 20);
        for _ in 0..messages {
            ends.front.handle(ends.now, &mut ends.application);
            ends.back.handle(ends.now, &mut ends.switch);
        }
        if messages == 0 {
            // The connection must be in use to report a reason.
            ends.back.handle(ends.now, &mut ends.switch);
        }
        ends.back.close(&mut ends.switch);
        ends.run();
        assert_eq!(ends.states(), [PortState::Closed, ended(GrantEnd::Revoked)], "after {messages} turns");
    }
}

#[test]
fn application_that_leaves_ends_its_port() {
    let mut ends = running();
    ends.front.close(&mut ends.application);
    ends.run();
    assert_eq!(ends.states(), [ended(PortFault::Disconnected("application")), PortState::Closed]);
    assert!(ends.are_over());
    assert_eq!(ends.back.status().memory, (0, 0));
}

#[test]
fn switch_that_dies_ends_the_port_without_a_reason() {
    let mut ends = running();
    let other = Ends::new(0).back;
    drop(std::mem::replace(&mut ends.back, other));
    ends.front.handle(ends.now, &mut ends.application);
    assert_eq!(ends.front.status().state, ended(GrantEnd::Disconnected));
}

#[test]
fn violation_ends_both_ports_with_a_reason() {
    let mut ends = running();
    ends.back.fault(ends.now, PortFault::MemoryLost, &mut ends.switch);
    ends.run();
    assert_eq!(ends.states(), [ended(PortFault::MemoryLost), ended(GrantEnd::Violation)]);
    assert!(ends.are_over());
}

#[test]
fn application_cannot_share_more_memory_than_it_may() {
    let mut ends = Ends::new(1 << 20);
    ends.run();
    let [back, front] = ends.states();
    // The request fails, which the front end of this project does not accept.
    assert!(matches!(&back, PortState::Ended(PortFault::Disconnected(_))), "{back:?}");
    assert!(matches!(&front, PortState::Ended(PortFault::Unsuited(_))), "{front:?}");
    assert!(ends.are_over());
}

#[test]
fn queues_of_the_application_fail_on_their_own_after_the_end() {
    let mut ends = running();
    let mut queue = ends.application.rx.remove(&0).unwrap();
    ends.back.close(&mut ends.switch);
    // The memory is the application's, so a queue that it still holds finds nothing new.
    let (mut burst, mut stats) = (crate::Burst::new(), crate::BurstStats::default());
    burst.begin(0);
    RxQueue::rx(&mut *queue, &mut burst, &mut stats).unwrap();
    assert_eq!(stats.packets, 0);
}
