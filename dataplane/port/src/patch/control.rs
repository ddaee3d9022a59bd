//! Control side: registers, connects, detects that the other end has left, reconnects.
//!
//! A round of queues starts when both ends are registered and ends when either leaves; all its state is then dropped,
//! and packets in its rings are lost. Never blocks, never reads a clock.

use super::exchange::{Exchange, Lookup, Registration};
use crate::eventfd;
use crate::handover::{HandOver, NotHandedOver};
use crate::memif::joined::Joined;
use crate::memif::queue::Rings;
use crate::memif::{MemifError, Options};
use crate::{Attach, PortControl, PortFault, PortState, PortStatus, QueueStatus};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Pause of an end after a fault.
const PAUSE: Duration = Duration::from_secs(1);
/// Time after which the absence of the peer is the reason for waiting. Both ends are usually created together.
const ABSENT: Duration = Duration::from_secs(1);

/// One end of a patch pair.
#[derive(Debug)]
pub struct Patch {
    peer: String,
    options: Options,
    registration: Registration,
    doorbell: Arc<OwnedFd>,
    joined: Option<Arc<Joined>>,
    /// Number of queue pairs started in the engine.
    running: u16,
    resume: Option<Instant>,
    /// When the peer was missing for the first time.
    absent: Option<Instant>,
    state: PortState,
    connects: u64,
}

impl Patch {
    /// Creates the end `name`, to be connected with the end `peer`. Of `options`, queue pairs, ring size and buffer
    /// size are used; the effective values are the minimum queue and ring counts and the maximum buffer size of both
    /// ends.
    ///
    /// # Errors
    /// If options are out of range, or the process is out of file descriptors.
    pub fn new(name: &str, peer: &str, options: Options, exchange: &Exchange) -> Result<Self, MemifError> {
        options.check()?;
        let doorbell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self {
            peer: peer.into(),
            options,
            registration: exchange.registration(name, peer),
            doorbell: Arc::new(doorbell),
            joined: None,
            running: 0,
            resume: None,
            absent: None,
            state: PortState::Waiting(None),
            connects: 0,
        })
    }

    fn check(&mut self, now: Instant, engine: &mut dyn Attach) {
        if self.joined.as_ref().is_some_and(|joined| !self.registration.is_current(joined)) {
            self.stop(engine);
            self.state = PortState::Waiting(Some(PortFault::Disconnected("peer")));
            // The next call connects, so that the status shows the disconnect in between.
            self.resume = Some(now);
            return;
        }
        let begun = match self.registration.register(self.options, &self.doorbell) {
            Ok(Lookup::Rings(rings, joined)) => self.start(rings, joined, engine),
            Ok(Lookup::Absent) => {
                self.wait(now);
                Ok(())
            }
            Ok(Lookup::Same) => Ok(()),
            Err(fault) => Err(fault),
        };
        if let Err(fault) = begun {
            self.fault(now, fault, engine);
        }
    }

    /// Without a peer.
    fn wait(&mut self, now: Instant) {
        let since = *self.absent.get_or_insert(now);
        if self.state == PortState::Waiting(None) && now >= since + ABSENT {
            let reason = PortFault::Unreachable(format!("port \"{}\" is missing or not ready", self.peer));
            self.state = PortState::Waiting(Some(reason));
        }
    }

    fn start(&mut self, rings: Rings, joined: Arc<Joined>, engine: &mut dyn Attach) -> Result<(), PortFault> {
        (self.joined, self.absent) = (Some(joined), None);
        self.connects += 1;
        let (rx, tx) = rings.start()?;
        for (pair, (rx, tx)) in (0..).zip(rx.into_iter().zip(tx)) {
            engine.start_tx(pair, tx);
            engine.start_rx(pair, rx);
            self.running = pair + 1;
            if let Some(failure) = engine.failure() {
                return Err(failure);
            }
        }
        self.state = PortState::Connected;
        Ok(())
    }

    fn stop(&mut self, engine: &mut dyn Attach) {
        for pair in 0..std::mem::take(&mut self.running) {
            drop(engine.stop_rx(pair));
            drop(engine.stop_tx(pair));
        }
        self.joined = None;
    }
}

impl PortControl for Patch {
    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        (self.state != PortState::Closed).then(|| self.doorbell.as_fd())
    }

    fn deadline(&self) -> Option<Instant> {
        let absent =
            self.absent.filter(|_| self.state == PortState::Waiting(None)).map(|since| since + ABSENT);
        self.resume.into_iter().chain(absent).min()
    }

    fn handle(&mut self, now: Instant, engine: &mut dyn Attach) {
        eventfd::clear(&self.doorbell);
        if self.state == PortState::Closed || self.resume.is_some_and(|at| now < at) {
            return;
        }
        self.resume = None;
        self.check(now, engine);
    }

    fn fault(&mut self, now: Instant, fault: PortFault, engine: &mut dyn Attach) {
        self.stop(engine);
        self.registration.unregister();
        self.resume = Some(now + PAUSE);
        self.state = PortState::Faulted(fault);
    }

    fn close(&mut self, engine: &mut dyn Attach) {
        self.stop(engine);
        self.registration.unregister();
        self.resume = None;
        self.state = PortState::Closed;
    }

    fn as_handover(&mut self) -> Result<&mut dyn HandOver, NotHandedOver> {
        Err(NotHandedOver::Internal)
    }

    fn status(&self) -> PortStatus {
        let (size, bytes) = self.joined.as_ref().map_or((0, 0), |joined| joined.shape());
        let queue = QueueStatus { size, rx_running: true, tx_running: true };
        PortStatus {
            state: self.state.clone(),
            kind: "patch",
            place: self.peer.clone(),
            features: vec![],
            queues: vec![queue; usize::from(self.running)],
            connects: self.connects,
            memory: (usize::from(self.joined.is_some()), bytes),
        }
    }
}

impl Drop for Patch {
    /// Leaves the exchange.
    fn drop(&mut self) {
        if self.state != PortState::Closed {
            self.registration.unregister();
        }
    }
}
