//! The tracker as its users see it.
#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]

mod helpers;
mod hostile;
mod model;
mod nat;
mod peek;
mod protocols;
mod replay;
mod watch;

use conntrack::{Config, Exhausted, Outcome, Request, State, Tracker, Tuple};

pub(crate) const SECOND: u64 = 1_000_000_000;
pub(crate) const SYN: u8 = 0x02;
pub(crate) const ACK: u8 = 0x10;
pub(crate) const FIN: u8 = 0x01;
pub(crate) const RST: u8 = 0x04;

/// A tracker and a clock.
pub(crate) struct Lab {
    pub(crate) tracker: Tracker,
    pub(crate) now: u64,
}

impl Lab {
    pub(crate) fn new() -> Self {
        Self::with(&Config::default())
    }

    pub(crate) fn with(config: &Config) -> Self {
        Self { tracker: Tracker::new(config), now: SECOND }
    }

    pub(crate) fn wait(&mut self, seconds: u64) {
        self.now += seconds * SECOND;
    }

    pub(crate) fn try_send(&self, packet: &[u8], request: &Request) -> Result<Outcome, Exhausted> {
        self.tracker.track(packet, &State::default(), request, self.now)
    }

    pub(crate) fn send(&self, packet: &[u8], request: &Request) -> Outcome {
        self.try_send(packet, request).unwrap()
    }

    /// State bits, without the one that all packets have.
    pub(crate) fn bits(&self, packet: &[u8], request: &Request) -> u32 {
        let bits = self.send(packet, request).state.bits;
        assert_ne!(bits & conntrack::bits::TRACKED, 0);
        bits & !conntrack::bits::TRACKED
    }
}

pub(crate) fn commit() -> Request {
    Request { commit: true, ..Request::default() }
}

pub(crate) fn look() -> Request {
    Request::default()
}

/// Host 1 to host 2.
pub(crate) fn v4(protocol: u8) -> Tuple {
    Tuple::new(([10, 0, 0, 1].into(), [10, 0, 0, 2].into()), protocol, 0)
}

pub(crate) fn v6(protocol: u8) -> Tuple {
    let host = |n| [0xfd00, 0, 0, 0, 0, 0, 0, n].into();
    Tuple::new((host(1), host(2)), protocol, 0)
}
