//! Instructions per packet of the real programs, which the model's threads execute besides their accesses.
//!
//! Counted by callgrind (valgrind 3.19, which supports AVX2 but not AVX-512), 2026-11-22, at full bursts:
//!
//! - **linerate**: `cargo xtask callgrind`, rows `split-in-order` and `packed-in-order`, traffic `pair`: the worker's
//!   whole round over two vhost-user ports in bursts of 64, bridge and look-ups included.
//! - **DPDK's switch**: Debian's `dpdk-testpmd` 22.11.11 (built for SSE4.2) as the switch of the measured comparison
//!   (`set fwd io`, two `net_vhost` ports, `--no-flush-rx`) under `valgrind --tool=callgrind --separate-threads=yes`,
//!   with DPDK's guest at full speed before it. The count is that of the whole forwarding thread, minus its empty
//!   polls, divided by its packets (`set record-burst-stats on` gives the number of empty polls; their cost was counted
//!   without a guest's traffic).
//! - **DPDK's guest**: the same in the other direction (`set fwd mac`, two `net_virtio_user` ports).
//!
//! The cost of linerate's empty poll is an estimate. The vectorised driver of DPDK's guest needs AVX-512, which
//! valgrind hides, so its packed rings were counted with the scalar driver: an upper bound.

use super::virtqueue::RingKind;
use super::{Path, Scheme};

/// Instructions per packet, and per empty poll.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Counts {
    pub(super) switch: f64,
    pub(super) guest: f64,
    pub(super) empty_poll: u64,
    pub(super) guest_empty_poll: u64,
}

impl Counts {
    /// Returns the counts at 64 and 1514 bytes, interpolated in between by the frame's number of lines.
    pub(super) fn of(path: &Path) -> Counts {
        let (small, large) = switch(path.scheme, path.ring);
        let lines = |frame: u64| frame.div_ceil(64) as f64;
        let part = (lines(path.frame) - lines(64)) / (lines(1514) - lines(64));
        Counts {
            switch: small + part * (large - small),
            guest: guest(path.ring),
            empty_poll: empty_poll(path.scheme, path.ring),
            guest_empty_poll: match path.ring {
                RingKind::Split => 123,
                RingKind::Packed => 148,
            },
        }
    }
}

/// Instructions at 64 and at 1514 bytes.
fn switch(scheme: Scheme, ring: RingKind) -> (f64, f64) {
    match (scheme, ring) {
        (Scheme::Linerate, RingKind::Split) => (373.0, 553.0),
        (Scheme::Linerate, RingKind::Packed) => (366.0, 548.0),
        (Scheme::Dpdk, RingKind::Split) => (800.0, 1337.0),
        (Scheme::Dpdk, RingKind::Packed) => (455.0, 1046.0),
    }
}

fn guest(ring: RingKind) -> f64 {
    match ring {
        RingKind::Split => 415.0,
        RingKind::Packed => 392.0,
    }
}

fn empty_poll(scheme: Scheme, ring: RingKind) -> u64 {
    match (scheme, ring) {
        (Scheme::Linerate, _) => 90,
        (Scheme::Dpdk, RingKind::Split) => 225,
        // It takes 32 buffers from its pool before it polls.
        (Scheme::Dpdk, RingKind::Packed) => 2450,
    }
}
