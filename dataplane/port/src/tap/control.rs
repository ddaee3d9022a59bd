//! Control side: opens the interface, and reopens it after a loss.
//!
//! The interface is opened at port creation, so that errors are reported at once. If a worker reports it removed, or
//! its namespace's name refers to another namespace, its queues are stopped and all resources released; it is then
//! created or found again with exponential back-off. If only its queues cannot be created, or fail, for lack of memory or
//! because a worker panicked, the interface stays, with the addresses that its namespace has given it. While the link is
//! down, the port waits and its queues stay. Never waits for a peer, never reads a clock.

use super::device::Device;
use super::error::TapError;
use super::options::{Io, Options};
use super::slots::{SLOTS, Slots};
use super::waiting::Waiting;
use super::{rx, tx, uring};
use crate::Remedy;
use crate::backoff::Backoff;
use crate::handover::{HandOver, NotHandedOver};
use crate::{
    Attach, Capabilities, PortControl, PortFault, PortState, PortStatus, QueueState, QueueStatus, RxQueue,
    TxQueue,
};
use rustix::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Check interval of the namespace's name and of the link, whose notifications may be lost.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// A queue pair for the engine.
type Pair = (Box<dyn RxQueue>, Box<dyn TxQueue>);

/// A port over a TAP interface.
#[derive(Debug)]
pub struct Tap {
    pub(super) options: Options,
    io: Io,
    pub(super) device: Option<Device>,
    /// Number of queue pairs started in the engine.
    pub(super) running: u16,
    /// Time at which all queue pairs were started.
    pub(super) started: Option<Instant>,
    /// Time of the next action.
    pub(super) due: Option<Instant>,
    backoff: Backoff,
    pub(super) state: PortState,
    pub(super) connects: u64,
    /// By pair: frames of the queues that ran before, if the port was stopped for a hand-over.
    pub(super) waiting: Vec<Waiting>,
}

impl Tap {
    /// Creates or finds the interface and brings it up. Packets flow once the engine drives the port.
    pub fn open(options: Options, now: Instant) -> Result<Self, TapError> {
        let device = Device::open(&options)?;
        Ok(Self { device: Some(device), due: Some(now), ..Self::successor(options)? })
    }

    /// A port that continues the one of another process ([`HandOver::take_over`]). Until then it does nothing.
    pub fn successor(options: Options) -> Result<Self, TapError> {
        options.check()?;
        Ok(Self {
            io: choose(options.io)?,
            options,
            device: None,
            running: 0,
            started: None,
            due: None,
            backoff: Backoff::default(),
            state: PortState::Waiting(None),
            connects: 0,
            waiting: Vec::new(),
        })
    }

    /// Opens the interface if needed, and starts its queues.
    pub(super) fn begin(&mut self, now: Instant, engine: &mut dyn Attach) -> Result<(), PortFault> {
        if self.device.is_none() {
            let opened = Device::open(&self.options);
            self.device = Some(opened.map_err(|error| PortFault::Interface(error.in_one_line()))?);
        }
        self.start(engine)?;
        self.started = Some(now);
        self.connects += 1;
        Ok(())
    }

    /// Starts the queues of the open interface, which receive the waiting frames first.
    pub(super) fn start(&mut self, engine: &mut dyn Attach) -> Result<(), PortFault> {
        for (pair, (rx, tx)) in (0..).zip(self.queues()?) {
            engine.start_tx(pair, tx);
            engine.start_rx(pair, rx);
            self.running = pair + 1;
            if let Some(failure) = engine.failure() {
                self.take_back(engine);
                return Err(failure);
            }
        }
        self.waiting.clear();
        Ok(())
    }

    /// Stops the queues, and keeps the frames that they have left. A queue that did not start has left all of its own.
    pub(super) fn take_back(&mut self, engine: &mut dyn Attach) {
        let pairs = std::mem::take(&mut self.running);
        self.waiting.resize_with(self.waiting.len().max(pairs.into()), Waiting::default);
        for (pair, waiting) in (0..pairs).zip(&mut self.waiting) {
            let left = engine.stop_rx(pair).map(RxQueue::freeze);
            drop(engine.stop_tx(pair));
            if let Some(QueueState::Frames(frames)) = left {
                *waiting = frames.into();
            }
        }
    }

    /// Releases an interface without queues that was deleted, or whose namespace is gone.
    pub(super) fn leave_gone(&mut self) {
        let is_gone = |device: &Device| !device.is_at_home() || !device.exists();
        if self.started.is_none() && self.device.as_ref().is_some_and(is_gone) {
            self.drop_device();
        }
    }

    fn drop_device(&mut self) {
        self.device = None;
        self.waiting.clear();
    }

    fn queues(&self) -> Result<Vec<Pair>, PortFault> {
        let mut waiting = self.waiting.iter().cloned();
        let Some(device) = &self.device else { return Ok(Vec::new()) };
        let (queues, io) = (device.queues(), self.io);
        let mut rx = |pair| {
            let waiting = waiting.next().unwrap_or_default();
            match io {
                Io::Calls => rx::start(queues, pair, waiting),
                Io::Uring | Io::UringSqpoll => uring::start_rx(queues, pair, io == Io::UringSqpoll, waiting),
            }
        };
        let pair =
            |pair| Ok((rx(pair)?, tx::start(queues, device.watch().link(), device.capabilities(), io)?));
        (0..queues.len()).map(pair).collect()
    }

    /// Checks the namespace's name and the link of the running port.
    fn check(&mut self, now: Instant, engine: &mut dyn Attach) {
        if let Some(device) = self.device.as_ref().filter(|device| device.is_at_home()) {
            device.watch().drain();
            self.state = device.watch().port_state();
            self.due = Some(now + CHECK_INTERVAL);
            return;
        }
        let name = self.options.netns.as_deref().unwrap_or_default();
        let fault = PortFault::Interface(format!("its network namespace {name} is gone"));
        self.end(fault, now, engine);
    }

    /// Stops the queues, and starts them again later. An open interface stays.
    pub(super) fn pause(&mut self, fault: PortFault, now: Instant, engine: &mut dyn Attach) {
        self.stop(engine);
        self.backoff.ended(self.started.take(), now);
        self.due = Some(self.backoff.begin(now));
        self.state = PortState::Faulted(fault);
    }

    /// Stops the queues, then releases the interface. A non-persistent interface created here is removed.
    fn end(&mut self, fault: PortFault, now: Instant, engine: &mut dyn Attach) {
        self.pause(fault, now, engine);
        self.drop_device();
    }

    fn stop(&mut self, engine: &mut dyn Attach) {
        for pair in 0..std::mem::take(&mut self.running) {
            drop(engine.stop_rx(pair));
            drop(engine.stop_tx(pair));
        }
    }

    fn queue_status(&self) -> Vec<QueueStatus> {
        let pairs = if self.device.is_some() { self.options.queue_pairs } else { 0 };
        let status = |pair| QueueStatus {
            size: SLOTS as u16,
            rx_running: pair < self.running,
            tx_running: pair < self.running,
        };
        (0..pairs).map(status).collect()
    }

    fn place(&self) -> String {
        let name = &self.options.interface;
        self.options.netns.as_ref().map_or_else(|| name.clone(), |netns| format!("{name} in {netns}"))
    }
}

impl PortControl for Tap {
    /// Workers detect the removal of the interface; the namespace's name is polled.
    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        self.started.and(self.device.as_ref()).map(|device| device.watch().as_fd())
    }

    fn deadline(&self) -> Option<Instant> {
        self.due
    }

    fn handle(&mut self, now: Instant, engine: &mut dyn Attach) {
        if self.started.is_none() {
            // An event that stays would be reported until then.
            self.device.iter().for_each(|device| device.watch().drain());
            if self.due.take_if(|at| *at <= now).is_none() {
                return;
            }
            self.leave_gone();
            if let Err(fault) = self.begin(now, engine) {
                return self.pause(fault, now, engine);
            }
        }
        self.check(now, engine);
    }

    fn fault(&mut self, now: Instant, fault: PortFault, engine: &mut dyn Attach) {
        self.pause(fault, now, engine);
        // An interface that exists is not the cause: it keeps its addresses.
        self.leave_gone();
    }

    fn close(&mut self, engine: &mut dyn Attach) {
        self.stop(engine);
        (self.device, self.started, self.due) = (None, None, None);
        self.state = PortState::Closed;
    }

    fn as_handover(&mut self) -> Result<&mut dyn HandOver, NotHandedOver> {
        Ok(self)
    }

    fn status(&self) -> PortStatus {
        let device = self.device.as_ref();
        let queues = device.map_or(0, |device| device.queues().len());
        PortStatus {
            state: self.state.clone(),
            kind: "tap",
            place: self.place(),
            features: device.map(|device| names(device.capabilities(), self.io)).unwrap_or_default(),
            queues: self.queue_status(),
            connects: self.connects,
            memory: (queues, queues as u64 * Slots::bytes()),
        }
    }
}

/// The configured mode; by default `io_uring` if available.
fn choose(requested: Option<Io>) -> Result<Io, TapError> {
    match (requested, uring::probe()) {
        (Some(Io::Calls), _) | (None, Err(_)) => Ok(Io::Calls),
        (Some(io), Ok(())) => Ok(io),
        (None, Ok(())) => Ok(Io::Uring),
        (Some(_), Err(error)) => Err(TapError::NoUring(error.to_string())),
    }
}

/// Offloads, by their kernel names, and the I/O mode.
fn names(capabilities: Capabilities, io: Io) -> Vec<&'static str> {
    let all = [
        (Capabilities::CHECKSUM, "CSUM"),
        (Capabilities::TCP4, "TSO4"),
        (Capabilities::TCP6, "TSO6"),
        (Capabilities::ECN, "TSO_ECN"),
        (Capabilities::UDP, "USO"),
    ];
    let has = all.into_iter().filter(|(bit, _)| capabilities.cover(Capabilities(*bit)));
    has.map(|(_, name)| name).chain([io.name()]).collect()
}
