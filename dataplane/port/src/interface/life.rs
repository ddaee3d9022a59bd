//! Life cycle of a port over an interface: open, run, fail, reopen after a pause.
//!
//! The first open happens at port creation, so that a wrong name fails at once. Later losses (the interface is deleted,
//! a queue fails) stop the port with a reason; it retries with exponential back-off until the interface exists again.
//! While the link is down, the queues stay, because opening a port resets the link of some interfaces; the port waits.
//! Blocks only in the system calls of opening; never reads a clock.

use super::{InterfaceError, Place, Watch};
use crate::backoff::Backoff;
use crate::handover::{HandOver, NotHandedOver};
use crate::netns::Identity;
use crate::{
    Attach, PortControl, PortDetail, PortDetails, PortFault, PortState, PortStatus, QueueState, QueueStatus,
    RssTable, RxQueue, TxQueue,
};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Check interval of a running port.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// A queue pair for the engine.
pub(crate) type Pair = (Box<dyn RxQueue>, Box<dyn TxQueue>);

/// Interface-specific part of a port.
pub(crate) trait Kind: Debug + Send + 'static {
    /// Name in the configuration file.
    const NAME: &'static str;

    /// Whether another process can continue the queues.
    const HANDS_OVER: bool = false;

    /// Interface and namespace.
    fn place(&self) -> &Place;

    /// Opens the port on the interface. Called in the interface's namespace.
    fn open(&self, watch: &Watch) -> Result<Opened, InterfaceError>;

    /// Opens the port with queues that were stopped, here or in another process.
    fn adopt(&self, _: &Watch, _: Stopped) -> Result<Opened, InterfaceError> {
        let why = "they belong to the process that created them";
        Err(InterfaceError::NotAdopted(self.place().clone(), PortFault::State(why)))
    }
}

/// Stopped queues.
#[derive(Default)]
pub(crate) struct Stopped {
    /// Socket of each queue pair, and the state of its receive queue.
    pub(crate) queues: Vec<(Arc<OwnedFd>, QueueState)>,
    /// Number of frames that the kernel has dropped before.
    pub(crate) missed: u64,
}

/// An opened port.
pub(crate) struct Opened {
    /// Queue pairs for the engine.
    pub(crate) pairs: Vec<Pair>,
    /// How the interface distributes flows over its queues, if it says so.
    pub(crate) rss: Option<RssTable>,
    /// Features in use, for display.
    pub(crate) features: Vec<&'static str>,
    /// Number of entries of each ring.
    pub(crate) size: u16,
    /// Number of memory regions, and their total size in bytes.
    pub(crate) memory: (usize, u64),
    /// Returns the number of frames dropped by the kernel since the port was opened.
    pub(crate) missed: Box<dyn Fn() -> u64 + Send>,
    /// The socket of each queue pair, if another process can continue it.
    pub(crate) sockets: Vec<Arc<OwnedFd>>,
    /// Resources to keep until the port stops.
    pub(crate) keep: HeldResource,
}

/// Type-erased resource, held until dropped.
pub(crate) struct HeldResource {
    _held: Box<dyn Send>,
}

impl HeldResource {
    pub(crate) fn new(held: impl Send + 'static) -> Self {
        Self { _held: Box::new(held) }
    }
}

/// A running port.
pub(super) struct Running {
    pub(super) watch: Watch,
    pub(super) opened: Opened,
    pub(super) queues: u16,
    pub(super) since: Option<Instant>,
    /// Identity of the namespace that the name referred to.
    home: Option<Identity>,
}

/// A port over an interface.
pub(crate) struct InterfacePort<K> {
    pub(super) kind: K,
    pub(super) running: Option<Running>,
    pub(super) state: PortState,
    backoff: Backoff,
    /// Time of the next retry or check.
    pub(super) due: Option<Instant>,
    pub(super) connects: u64,
    /// States of the receive queues, if they were stopped for a hand-over.
    pub(super) stopped: Vec<QueueState>,
}

impl<K: Debug> Debug for InterfacePort<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InterfacePort")
            .field("kind", &self.kind)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl<K: Kind> InterfacePort<K> {
    /// Opens the port. The first call of [`PortControl::handle`] passes its queues to the engine.
    pub(crate) fn open(kind: K) -> Result<Self, InterfaceError> {
        let running = Some(open(&kind)?);
        Ok(Self { running, state: PortState::Connected, connects: 1, ..Self::successor(kind) })
    }

    /// A port that continues the one of another process. Until then it does nothing.
    pub(crate) fn successor(kind: K) -> Self {
        let (running, state, backoff) = (None, PortState::Waiting(None), Backoff::default());
        Self { kind, running, state, backoff, due: None, connects: 0, stopped: Vec::new() }
    }

    /// Reopens the port once the pause is over.
    fn retry(&mut self, now: Instant) {
        if self.running.is_some() || self.due.is_none_or(|at| now < at) {
            return;
        }
        self.due = None;
        match open(&self.kind) {
            Ok(running) => {
                (self.running, self.state) = (Some(running), PortState::Connected);
                self.connects += 1;
            }
            Err(error) => self.back_off(error.into(), now),
        }
    }

    /// Passes the queues to the engine, unless already done.
    pub(super) fn start(&mut self, now: Instant, engine: &mut dyn Attach) {
        let Some(running) = self.running.as_mut().filter(|running| running.since.is_none()) else { return };
        running.since = Some(now);
        for (pair, (rx, tx)) in (0..).zip(std::mem::take(&mut running.opened.pairs)) {
            engine.start_tx(pair, tx);
            engine.start_rx(pair, rx);
            running.queues = pair + 1;
            if let Some(failure) = engine.failure() {
                return self.fail(failure, now, engine);
            }
        }
    }

    /// Checks interface, namespace and link.
    fn check(&mut self, now: Instant, engine: &mut dyn Attach) {
        let Some(running) = &self.running else { return };
        running.watch.drain();
        let place = self.kind.place();
        let text = if running.watch.is_gone() {
            format!("{place} was deleted or renamed; the port tries again until it is back")
        } else if !is_home(place, running.home) {
            format!(
                "the namespace of {place} was deleted; the port tries again until there is one of that name"
            )
        } else {
            // Netlink reports the removal of an interface, but not of a namespace, nor missed frames: poll for those.
            self.due = Some(now + CHECK_INTERVAL);
            self.state = running.watch.port_state();
            return;
        };
        self.fail(PortFault::Interface(text), now, engine);
    }

    pub(super) fn fail(&mut self, fault: PortFault, now: Instant, engine: &mut dyn Attach) {
        let since = self.running.as_ref().and_then(|running| running.since);
        self.backoff.ended(since, now);
        self.stop(engine);
        self.back_off(fault, now);
    }

    fn back_off(&mut self, fault: PortFault, now: Instant) {
        self.due = Some(self.backoff.begin(now));
        self.state = PortState::Faulted(fault);
    }

    /// Stops the queues before releasing their resources.
    fn stop(&mut self, engine: &mut dyn Attach) {
        let Some(Running { queues, opened, watch, .. }) = self.running.take() else { return };
        for pair in 0..queues {
            drop(engine.stop_rx(pair));
            drop(engine.stop_tx(pair));
        }
        drop((opened.keep, watch));
    }

    fn queue_status(&self) -> Vec<QueueStatus> {
        let Some(running) = &self.running else { return Vec::new() };
        let status = |_| QueueStatus { size: running.opened.size, rx_running: true, tx_running: true };
        (0..running.queues).map(status).collect()
    }
}

/// Finds the interface and opens the port, in the interface's namespace.
fn open<K: Kind>(kind: &K) -> Result<Running, InterfaceError> {
    open_by(kind, |watch| kind.open(watch))
}

/// Finds the interface, and opens the port by `open`, in the interface's namespace.
pub(super) fn open_by<K: Kind>(
    kind: &K,
    open: impl FnOnce(&Watch) -> Result<Opened, InterfaceError>,
) -> Result<Running, InterfaceError> {
    let found = kind.place().within(|| {
        let watch = Watch::new(kind.place())?;
        let opened = open(&watch)?;
        Ok((watch, opened))
    });
    let ((watch, opened), home) = found?;
    Ok(Running { watch, opened, queues: 0, since: None, home })
}

/// Whether the name of the namespace refers to that of the port.
fn is_home(place: &Place, home: Option<Identity>) -> bool {
    place.netns.as_ref().zip(home).is_none_or(|(namespace, home)| namespace.is(home))
}

impl<K: Kind> PortControl for InterfacePort<K> {
    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        self.running.as_ref().map(|running| running.watch.as_fd())
    }

    fn deadline(&self) -> Option<Instant> {
        self.due
    }

    fn handle(&mut self, now: Instant, engine: &mut dyn Attach) {
        if self.state == PortState::Closed {
            return;
        }
        self.retry(now);
        self.start(now, engine);
        self.check(now, engine);
    }

    fn fault(&mut self, now: Instant, fault: PortFault, engine: &mut dyn Attach) {
        // A deleted interface first causes queue faults; report the deletion instead.
        self.check(now, engine);
        if self.running.is_some() {
            self.fail(fault, now, engine);
        }
    }

    fn close(&mut self, engine: &mut dyn Attach) {
        self.stop(engine);
        (self.state, self.due) = (PortState::Closed, None);
    }

    fn as_handover(&mut self) -> Result<&mut dyn HandOver, NotHandedOver> {
        if K::HANDS_OVER { Ok(self) } else { Err(NotHandedOver::Kind(K::NAME)) }
    }

    fn status(&self) -> PortStatus {
        let opened = self.running.as_ref().map(|running| &running.opened);
        PortStatus {
            state: self.state.clone(),
            kind: K::NAME,
            place: self.kind.place().to_string(),
            features: opened.map(|opened| opened.features.clone()).unwrap_or_default(),
            queues: self.queue_status(),
            connects: self.connects,
            memory: opened.map_or((0, 0), |opened| opened.memory),
        }
    }

    fn rss(&self) -> Option<RssTable> {
        self.running.as_ref()?.opened.rss.clone()
    }

    fn details(&self) -> PortDetails {
        let missed = self.running.as_ref().map(|running| (running.opened.missed)());
        missed.map(|n| (PortDetail::Missed, n.to_string())).into_iter().collect()
    }
}

#[cfg(test)]
mod tests;
