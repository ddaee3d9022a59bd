//! A port with a policer or queues around another port.
//!
//! Queues are wrapped on their way to the engine. A port with neither is returned unchanged and has no overhead.

use crate::police::{PoliceRx, SharedPolicer};
use crate::policer::Policer;
use crate::shape::{ReleaseRx, ShapeTx, Shaper};
use port::{Attach, PortControl, PortDetails, PortFault, PortStatus, QueueId, RssTable, RxQueue, TxQueue};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Refresh interval of the counters.
const STATUS_INTERVAL: Duration = Duration::from_millis(500);
/// Engine pair number of the queue that sends a pair's shaped packets, `ORed` with the pair. Ports have fewer pairs, and
/// `port::wrap` uses the next bit.
const RELEASE_PAIR: u16 = 0x4000;

/// Adds a policer and queues to a port.
pub fn wrap(
    inner: Box<dyn PortControl>,
    policer: Option<Policer>,
    shaper: Option<Arc<Shaper>>,
) -> Box<dyn PortControl> {
    if policer.is_none() && shaper.is_none() {
        return inner;
    }
    let policer = policer.map(|policer| Arc::new(SharedPolicer::new(policer)));
    Box::new(QosPort { inner, parts: Parts { policer, shaper }, next_status: None, closed: false })
}

struct Parts {
    policer: Option<Arc<SharedPolicer>>,
    shaper: Option<Arc<Shaper>>,
}

struct QosPort {
    inner: Box<dyn PortControl>,
    parts: Parts,
    next_status: Option<Instant>,
    closed: bool,
}

impl QosPort {
    /// Runs `act` on the inner port, with an engine that wraps its queues.
    fn with(&mut self, engine: &mut dyn Attach, act: impl FnOnce(&mut dyn PortControl, &mut dyn Attach)) {
        act(self.inner.as_mut(), &mut Wrapping { engine, parts: &self.parts });
    }
}

impl PortControl for QosPort {
    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.poll_fd()
    }

    fn deadline(&self) -> Option<Instant> {
        self.inner.deadline().into_iter().chain(self.next_status).min()
    }

    fn handle(&mut self, now: Instant, engine: &mut dyn Attach) {
        self.with(engine, |inner, engine| inner.handle(now, engine));
        let counts = self.parts.policer.is_some() && !self.closed;
        if counts && self.next_status.is_none_or(|at| at <= now) {
            self.next_status = Some(now + STATUS_INTERVAL);
        }
    }

    fn fault(&mut self, now: Instant, fault: PortFault, engine: &mut dyn Attach) {
        self.with(engine, |inner, engine| inner.fault(now, fault, engine));
    }

    fn close(&mut self, engine: &mut dyn Attach) {
        self.with(engine, |inner, engine| inner.close(engine));
        (self.closed, self.next_status) = (true, None);
    }

    fn status(&self) -> PortStatus {
        self.inner.status()
    }

    fn rss(&self) -> Option<RssTable> {
        self.inner.rss()
    }

    fn details(&self) -> PortDetails {
        let mut details = self.inner.details();
        details.extend(self.parts.policer.iter().flat_map(|policer| policer.details()));
        details
    }
}

/// The engine seen by the inner port.
struct Wrapping<'a> {
    engine: &'a mut dyn Attach,
    parts: &'a Parts,
}

impl Attach for Wrapping<'_> {
    fn start_rx(&mut self, pair: u16, queue: Box<dyn RxQueue>) {
        let queue = match &self.parts.policer {
            // A release queue of a wrapper brings no packets.
            Some(policer) if pair < port::MAX_QUEUE_PAIRS => policed(queue, policer.clone()),
            _ => queue,
        };
        self.engine.start_rx(pair, queue);
    }

    fn stop_rx(&mut self, pair: u16) -> Option<Box<dyn RxQueue>> {
        self.engine.stop_rx(pair)
    }

    fn start_tx(&mut self, pair: u16, mut queue: Box<dyn TxQueue>) {
        let Some(shaper) = &self.parts.shaper else { return self.engine.start_tx(pair, queue) };
        let release = ReleaseRx::new(shaper.clone(), pair, queue.fork());
        self.engine.start_tx(pair, shaped(queue, shaper.clone()));
        self.engine.start_rx(RELEASE_PAIR | pair, Box::new(release));
    }

    fn stop_tx(&mut self, pair: u16) -> Option<Box<dyn TxQueue>> {
        // The release queue sends to the same ring, so it is stopped first.
        if self.parts.shaper.is_some() {
            drop(self.engine.stop_rx(RELEASE_PAIR | pair));
        }
        self.engine.stop_tx(pair)
    }

    fn refresh(&mut self) {
        self.engine.refresh();
    }

    fn inject(&mut self, frame: &[u8]) {
        self.engine.inject(frame);
    }

    fn failure(&self) -> Option<PortFault> {
        self.engine.failure()
    }

    /// The release queue of a pair sends to the pair's transmit queue.
    fn faulty_queue(&self) -> Option<QueueId> {
        self.engine.faulty_queue().map(|queue| match queue {
            QueueId::Rx(pair) if pair & RELEASE_PAIR != 0 => QueueId::Tx(pair & !RELEASE_PAIR),
            queue => queue,
        })
    }

    fn epoch(&self) -> u64 {
        self.engine.epoch()
    }
}

fn policed(queue: Box<dyn RxQueue>, policer: Arc<SharedPolicer>) -> Box<dyn RxQueue> {
    mem::with_kernel!(mem::copy::chosen(), K => Box::new(PoliceRx::<K>::new(queue, policer)))
}

fn shaped(queue: Box<dyn TxQueue>, shaper: Arc<Shaper>) -> Box<dyn TxQueue> {
    mem::with_kernel!(mem::copy::chosen(), K => Box::new(ShapeTx::<K>::new(queue, shaper)))
}
