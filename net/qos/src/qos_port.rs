//! A port with a policer or queues around another port.
//!
//! Queues are wrapped on their way to the engine. A port with neither is returned unchanged and has no overhead.

use crate::police::{Policing, SharedPolicer};
use crate::policer::Policer;
use crate::shape::{ReleaseRx, ShapeTx, Shaper};
use port::handover::{HandOver, NotHandedOver};
use port::wrap::{InspectRx, Sending, WrapAttach, WrapQueues, Wrapper};
use port::{Attach, PortControl, PortDetails, PortFault, PortStatus, RssTable, RxQueue, TxQueue};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Refresh interval of the counters.
const STATUS_INTERVAL: Duration = Duration::from_millis(500);

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
        self.closed();
    }

    fn as_handover(&mut self) -> Result<&mut dyn HandOver, NotHandedOver> {
        self.inner.as_handover().map(drop).map(|()| self as _)
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

impl Wrapper for QosPort {
    fn with<R>(
        &mut self,
        engine: &mut dyn Attach,
        act: impl FnOnce(&mut dyn PortControl, &mut dyn Attach) -> R,
    ) -> R {
        act(self.inner.as_mut(), &mut WrapAttach::new(engine, &self.parts))
    }

    fn closed(&mut self) {
        (self.closed, self.next_status) = (true, None);
    }
}

impl WrapQueues for Parts {
    /// Ports have fewer pairs, and `port::wrap` uses the next bit.
    const RELEASE_PAIR: u16 = 0x4000;

    fn rx(&self, pair: u16, queue: Box<dyn RxQueue>) -> Result<Box<dyn RxQueue>, PortFault> {
        Ok(match &self.policer {
            // A release queue of a wrapper brings no packets.
            Some(policer) if pair < port::MAX_QUEUE_PAIRS => policed(queue, policer.clone()),
            _ => queue,
        })
    }

    fn tx(&self, pair: u16, mut queue: Box<dyn TxQueue>) -> Result<Sending, PortFault> {
        let Some(shaper) = &self.shaper else { return Ok((queue, None)) };
        let release = ReleaseRx::new(shaper.clone(), pair, queue.fork());
        Ok((shaped(queue, shaper.clone()), Some(Box::new(release))))
    }
}

fn policed(queue: Box<dyn RxQueue>, policer: Arc<SharedPolicer>) -> Box<dyn RxQueue> {
    mem::with_kernel!(mem::copy::chosen(), K => Box::new(InspectRx::new(queue, Policing::<K>::new(policer))))
}

fn shaped(queue: Box<dyn TxQueue>, shaper: Arc<Shaper>) -> Box<dyn TxQueue> {
    mem::with_kernel!(mem::copy::chosen(), K => Box::new(ShapeTx::<K>::new(queue, shaper)))
}
