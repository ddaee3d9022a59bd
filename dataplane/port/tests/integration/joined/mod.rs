//! A virtio-user port and a vhost-user port, connected in one process over a real socket.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test uses its own part; a failure here is the test's"
)]

use crate::hand::{self, burst_of, receive, send};
use port::vhost_user::fake::FakeEngine;
use port::vhost_user::{self, VhostUser};
use port::virtio_user::{self, RingKind, VirtioUser};
use port::{PortControl, RxQueue, TxQueue};
use std::path::Path;
use std::time::{Duration, Instant};

pub(crate) const KINDS: [RingKind; 4] = RingKind::ALL;
/// Rounds after which two ports in one process have finished their handshake.
const ROUNDS: usize = 2000;

/// A port with an engine that only holds its queues.
pub(crate) struct Side<P> {
    pub(crate) port: P,
    pub(crate) engine: FakeEngine,
}

impl<P: PortControl> Side<P> {
    pub(crate) fn new(port: P) -> Self {
        Self { port, engine: FakeEngine::default() }
    }

    pub(crate) fn handle(&mut self, now: Instant) {
        self.port.handle(now, &mut self.engine);
    }

    pub(crate) fn rx(&mut self, pair: u16) -> &mut dyn RxQueue {
        self.engine.rx.get_mut(&pair).unwrap().as_mut()
    }

    pub(crate) fn tx(&mut self, pair: u16) -> &mut dyn TxQueue {
        self.engine.tx.get_mut(&pair).unwrap().as_mut()
    }
}

/// A front end and a back end, and the time passed to both.
pub(crate) struct Joined {
    pub(crate) front: Side<VirtioUser>,
    pub(crate) back: Side<VhostUser>,
    pub(crate) now: Instant,
}

pub(crate) fn options(ring: RingKind) -> virtio_user::Options {
    virtio_user::Options { ring, queue_size: 256, ..Default::default() }
}

impl Joined {
    /// Creates both ports; the back end listens.
    pub(crate) fn new(path: &Path, front: virtio_user::Options, back: vhost_user::Options) -> Self {
        let now = Instant::now();
        let back = Side::new(VhostUser::listen(path, back).unwrap());
        let front = Side::new(VirtioUser::connect(path, front, now).unwrap());
        let mut joined = Self { front, back, now };
        joined.settle();
        joined
    }

    /// Runs both until neither has work left; time advances a little in each round.
    pub(crate) fn settle(&mut self) {
        for _ in 0..ROUNDS {
            self.now += Duration::from_millis(1);
            self.front.handle(self.now);
            self.back.handle(self.now);
        }
    }

    /// Sends `frames` from the front end. Returns the received frames.
    pub(crate) fn there(&mut self, pair: u16, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
        pass(self.front.tx(pair), self.back.engine.rx.get_mut(&pair).unwrap().as_mut(), frames)
    }

    /// Sends `frames` from the back end. Returns the received frames.
    pub(crate) fn back(&mut self, pair: u16, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
        pass(self.back.tx(pair), self.front.engine.rx.get_mut(&pair).unwrap().as_mut(), frames)
    }
}

/// All frames of a burst, complete.
pub(crate) fn contents(burst: &port::Burst) -> Vec<Vec<u8>> {
    (0..burst.len()).map(|i| hand::read(burst, i)).collect()
}

/// Sends at most 64 `frames`, and returns the received ones; none may be lost.
pub(crate) fn pass(tx: &mut dyn TxQueue, rx: &mut dyn RxQueue, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let (done, stats) = send(tx, &burst_of(frames)).unwrap();
    assert_eq!((done, stats.packets, stats.lost), (frames.len(), frames.len() as u64, 0));
    drain(rx)
}

pub(crate) fn drain(rx: &mut dyn RxQueue) -> Vec<Vec<u8>> {
    let mut all = vec![];
    loop {
        let (burst, stats) = receive(rx).unwrap();
        assert_eq!((stats.packets, stats.lost), (burst.len() as u64, 0));
        if burst.is_empty() {
            return all;
        }
        all.extend(contents(&burst));
        rx.complete(burst.buf_ids());
    }
}
