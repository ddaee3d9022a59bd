//! A back end that disconnects and reconnects leaves no resources behind.

use crate::common::footprint;
use crate::hand::{burst_of, frame, send};
use port::vhost_user::fake::FakeEngine;
use port::vhost_user::{self, VhostUser};
use port::virtio_user::{Options, RingKind, VirtioUser};
use port::{PortControl, PortFault, PortState};
use std::time::{Duration, Instant};

/// Maximum rounds of both sides until a condition holds.
const ROUNDS: usize = 20_000;

struct Front {
    port: VirtioUser,
    engine: FakeEngine,
    now: Instant,
}

impl Front {
    /// Runs both sides until the front end's queues run, or do not. The back end has its own engine.
    fn until(&mut self, mut back: Option<(&mut VhostUser, &mut FakeEngine)>, runs: bool) {
        for _ in 0..ROUNDS {
            self.now += Duration::from_millis(1);
            self.port.handle(self.now, &mut self.engine);
            if let Some((port, engine)) = &mut back {
                port.handle(self.now, *engine);
            }
            if self.engine.rx.is_empty() != runs && self.engine.tx.is_empty() != runs {
                return;
            }
        }
        panic!("nothing happened: {:?}", self.port.status());
    }
}

pub(crate) fn virtio_user_back_ends_leave_no_resources() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    for ring in [RingKind::Split, RingKind::PackedInOrder] {
        let now = Instant::now();
        let options = Options { ring, queue_size: 256, queue_pairs: 2, ..Default::default() };
        let port = VirtioUser::connect(&path, options, now).unwrap();
        let mut front = Front { port, engine: FakeEngine::default(), now };
        front.until(None, false);
        // Measured after the first back end: a thread's first signal creates its signalling context permanently.
        let mut before = None;
        for n in 1..=101 {
            let offer = vhost_user::Options { queue_pairs: 2, ..Default::default() };
            let (mut back, mut engine) = (VhostUser::listen(&path, offer).unwrap(), FakeEngine::default());
            front.until(Some((&mut back, &mut engine)), true);
            assert_eq!(front.port.status().connects, n);
            let frames = burst_of(&[frame(64, 1)]);
            let tx = front.engine.tx.get_mut(&1).unwrap();
            assert_eq!(send(tx.as_mut(), &frames).unwrap().0, 1);
            if n % 3 == 0 {
                // A worker reports a broken ring.
                front.port.fault(front.now, PortFault::MemoryLost, &mut front.engine);
                assert_eq!(front.port.status().state, PortState::Faulted(PortFault::MemoryLost));
            }
            drop((back, engine));
            front.until(None, false);
            let left = footprint();
            assert_eq!(left, *before.get_or_insert(left), "after back end {n}");
        }
        front.port.close(&mut front.engine);
        drop(front);
    }
}
