//! Engine and queues that move no packets, for tests and fuzzing of the protocol.

use super::session::Queues;
use super::setup::QueueSetup;
use crate::vhost::Features;
use crate::{Attach, Burst, BurstStats, PortFault, QueueId, QueueState, RxQueue, TxQueue};
use ring::BufId;
use rustix::fd::{AsFd, BorrowedFd};
use std::collections::BTreeMap;

/// An engine that holds queues and records calls.
#[derive(Default)]
pub struct FakeEngine {
    /// Running receive queues, by pair.
    pub rx: BTreeMap<u16, Box<dyn RxQueue>>,
    /// Running transmit queues, by pair.
    pub tx: BTreeMap<u16, Box<dyn TxQueue>>,
    /// Injected frames.
    pub injected: Vec<Vec<u8>>,
    /// Number of `refresh` calls.
    pub refreshes: usize,
    /// Faults returned by `refresh` of queues; an engine would report these with [`crate::PortControl::fault`].
    pub faults: Vec<PortFault>,
    /// Result of [`Attach::failure`]. While set, queues passed to the engine are dropped.
    pub failure: Option<PortFault>,
    /// Result of [`Attach::faulty_queue`].
    pub faulty_queue: Option<QueueId>,
}

impl std::fmt::Debug for FakeEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FakeEngine")
            .field("rx", &self.rx.keys())
            .field("tx", &self.tx.keys())
            .finish_non_exhaustive()
    }
}

impl Attach for FakeEngine {
    fn start_rx(&mut self, pair: u16, queue: Box<dyn RxQueue>) {
        if self.failure.is_some() {
            return;
        }
        assert!(self.rx.insert(pair, queue).is_none(), "receive queue {pair} was started twice");
    }

    fn stop_rx(&mut self, pair: u16) -> Option<Box<dyn RxQueue>> {
        self.rx.remove(&pair)
    }

    fn start_tx(&mut self, pair: u16, queue: Box<dyn TxQueue>) {
        if self.failure.is_some() {
            return;
        }
        assert!(self.tx.insert(pair, queue).is_none(), "transmit queue {pair} was started twice");
    }

    fn stop_tx(&mut self, pair: u16) -> Option<Box<dyn TxQueue>> {
        self.tx.remove(&pair)
    }

    fn refresh(&mut self) {
        self.refreshes += 1;
        self.faults.extend(self.rx.values_mut().filter_map(|q| q.refresh().err()));
        self.faults.extend(self.tx.values_mut().filter_map(|q| q.refresh().err()));
    }

    fn inject(&mut self, frame: &[u8]) {
        self.injected.push(frame.to_vec());
    }

    fn failure(&self) -> Option<PortFault> {
        self.failure.clone()
    }

    fn faulty_queue(&self) -> Option<QueueId> {
        self.faulty_queue
    }
}

/// A queue that checks its ring's location and reports three packets as processed when it stops.
#[derive(Debug)]
pub struct FakeQueue(QueueSetup);

/// Constructors of fake queues.
pub const QUEUES: Queues = Queues {
    rx: |setup| Ok(Box::new(FakeQueue::start(setup)?)),
    tx: |setup| Ok(Box::new(FakeQueue::start(setup)?)),
};

impl FakeQueue {
    fn start(setup: &QueueSetup) -> Result<Self, PortFault> {
        let queue = Self(setup.clone());
        queue.check().map(|()| queue)
    }

    fn check(&self) -> Result<(), PortFault> {
        let map = self.0.memory.load();
        let size = u32::from(self.0.size);
        for (name, address, len) in [
            ("descriptor", self.0.descriptors, 16 * size),
            ("driver", self.0.driver, 6 + 2 * size),
            ("device", self.0.device, 6 + 8 * size),
        ] {
            map.by_user(address, len).ok_or(PortFault::RingOutside(name))?;
        }
        Ok(())
    }

    fn stopped_at(&self) -> u32 {
        let packed = self.0.features.has(Features::RING_PACKED);
        self.0.base.wrapping_add(if packed { 0x3_0003 } else { 3 })
    }
}

impl RxQueue for FakeQueue {
    fn rx(&mut self, _: &mut Burst, _: &mut BurstStats) -> Result<(), PortFault> {
        Ok(())
    }

    fn prefetch(&self) {}

    fn complete(&mut self, _: &[BufId]) {}

    fn notify(&mut self) {}

    fn enable_notification(&mut self) -> Result<bool, PortFault> {
        Ok(false)
    }

    fn disable_notification(&mut self) {}

    fn kick_fd(&self) -> Option<BorrowedFd<'_>> {
        self.0.kick.as_ref().map(|kick| kick.as_fd())
    }

    fn refresh(&mut self) -> Result<(), PortFault> {
        self.check()
    }

    fn freeze(self: Box<Self>) -> QueueState {
        QueueState::Ring { base: self.stopped_at() }
    }
}

impl TxQueue for FakeQueue {
    fn tx(&mut self, _: &Burst, indices: &[u8], _: &mut BurstStats) -> Result<usize, PortFault> {
        Ok(indices.len())
    }

    fn notify(&mut self) {}

    fn fork(&mut self) -> Box<dyn TxQueue> {
        Box::new(Self(self.0.clone()))
    }

    fn refresh(&mut self) -> Result<(), PortFault> {
        self.check()
    }

    fn freeze(self: Box<Self>) -> QueueState {
        QueueState::Ring { base: self.stopped_at() }
    }
}
