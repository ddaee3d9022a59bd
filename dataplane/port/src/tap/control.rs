//! The port's life: an interface that is there, or one that is tried for again.
//!
//! The interface is made when the port is, so that a mistake is told at once. When a worker finds it gone, or its
//! namespace's name leads elsewhere, its queues are stopped and everything of it is let go; then it is made or found
//! again, after a pause that grows. Never blocks, never reads a clock.

use super::device::Device;
use super::error::TapError;
use super::options::{Io, Options};
use super::slots::{SLOTS, Slots};
use super::{rx, tx, uring};
use crate::backoff::Backoff;
use crate::{
    Attach, Capabilities, PortControl, PortFault, PortState, PortStatus, QueueStatus, RxQueue, TxQueue,
};
use rustix::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// How often the name of a namespace is looked at.
const LOOK: Duration = Duration::from_secs(2);

/// A queue pair, ready for the engine.
type Pair = (Box<dyn RxQueue>, Box<dyn TxQueue>);

/// A port that is a TAP interface.
#[derive(Debug)]
pub struct Tap {
    options: Options,
    io: Io,
    device: Option<Device>,
    /// Queue pairs that the engine has.
    running: u16,
    /// When it took all of them.
    started: Option<Instant>,
    /// When there is something to do.
    due: Option<Instant>,
    backoff: Backoff,
    state: PortState,
    last_fault: Option<PortFault>,
    connects: u64,
}

impl Tap {
    /// Makes or finds the interface and brings it up. Packets flow once the engine drives the port.
    pub fn open(options: Options, now: Instant) -> Result<Self, TapError> {
        let io = choose(options.io)?;
        let device = Device::open(&options)?;
        Ok(Self {
            options,
            io,
            device: Some(device),
            running: 0,
            started: None,
            due: Some(now),
            backoff: Backoff::default(),
            state: PortState::Waiting,
            last_fault: None,
            connects: 0,
        })
    }

    /// Has an interface, or tries for one, and has its queues run.
    fn begin(&mut self, now: Instant, engine: &mut dyn Attach) -> Result<(), PortFault> {
        if self.device.is_none() {
            let opened = Device::open(&self.options);
            self.device = Some(opened.map_err(|error| PortFault::Interface(error.to_string()))?);
        }
        for (pair, (rx, tx)) in (0..).zip(self.queues()?) {
            engine.start_tx(pair, tx);
            engine.start_rx(pair, rx);
            self.running = pair + 1;
            if let Some(failure) = engine.failure() {
                return Err(failure);
            }
        }
        (self.started, self.state) = (Some(now), PortState::Connected);
        self.connects += 1;
        self.due = self.next_look(now);
        Ok(())
    }

    fn queues(&self) -> Result<Vec<Pair>, PortFault> {
        let Some(device) = &self.device else { return Ok(Vec::new()) };
        let (queues, io) = (device.queues(), self.io);
        let rx = |pair| match io {
            Io::Calls => rx::start(queues, pair),
            Io::Uring | Io::UringSqpoll => uring::start_rx(queues, pair, io == Io::UringSqpoll),
        };
        let pair = |pair| Ok((rx(pair)?, tx::start(queues, device.capabilities(), io)?));
        (0..queues.len()).map(pair).collect()
    }

    /// When the namespace's name has to be looked at again.
    fn next_look(&self, now: Instant) -> Option<Instant> {
        self.device.as_ref().is_some_and(Device::has_home).then(|| now + LOOK)
    }

    fn look(&mut self, now: Instant, engine: &mut dyn Attach) {
        if self.device.as_ref().is_some_and(Device::is_at_home) {
            self.due = self.next_look(now);
            return;
        }
        let name = self.options.netns.as_deref().unwrap_or_default();
        let fault = PortFault::Interface(format!("its network namespace {name} is gone"));
        self.end(fault, now, engine);
    }

    /// Stops the queues and lets go of the interface, in that order. One that we made goes with it.
    fn end(&mut self, fault: PortFault, now: Instant, engine: &mut dyn Attach) {
        self.stop(engine);
        self.device = None;
        self.backoff.ended(self.started.take(), now);
        self.due = Some(self.backoff.begin(now));
        self.state = PortState::Faulted(fault.clone());
        self.last_fault = Some(fault);
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
    /// A worker finds out what happens to the interface; a name is looked at now and then.
    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn deadline(&self) -> Option<Instant> {
        self.due
    }

    fn handle(&mut self, now: Instant, engine: &mut dyn Attach) {
        if self.due.is_none_or(|at| now < at) {
            return;
        }
        self.due = None;
        if self.started.is_some() {
            return self.look(now, engine);
        }
        if let Err(fault) = self.begin(now, engine) {
            self.end(fault, now, engine);
        }
    }

    fn fault(&mut self, now: Instant, fault: PortFault, engine: &mut dyn Attach) {
        self.end(fault, now, engine);
    }

    fn close(&mut self, engine: &mut dyn Attach) {
        self.stop(engine);
        (self.device, self.started, self.due) = (None, None, None);
        self.state = PortState::Closed;
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
            last_fault: self.last_fault.clone(),
        }
    }
}

/// What was asked for; else `io_uring`, where the kernel gives it.
fn choose(asked: Option<Io>) -> Result<Io, TapError> {
    match (asked, uring::probe()) {
        (Some(Io::Calls), _) | (None, Err(_)) => Ok(Io::Calls),
        (Some(io), Ok(())) => Ok(io),
        (None, Ok(())) => Ok(Io::Uring),
        (Some(_), Err(error)) => Err(TapError::NoUring(error.to_string())),
    }
}

/// What may be left to be done, in the kernel's words, and how packets are moved.
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
