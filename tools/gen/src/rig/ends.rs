//! Ports of a run, and work that its thread does beside them. Independent of the amount of traffic and of its results.

use super::{Phase, Progress, RigError, Side, Watch};
use port::memif::Options;
use port::patch::{Exchange, Patch};
use port::{Flush, PortState};
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

/// Interval between two polls of ports that are not ready.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Additional work of the generator's thread in every turn, such as an inline switch.
pub struct Beside(Box<dyn FnMut() + Send>);

impl Beside {
    /// Calls `turn` in every turn; it must not block.
    pub fn new(turn: impl FnMut() + Send + 'static) -> Self {
        Self(Box::new(turn))
    }
}

impl std::fmt::Debug for Beside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Beside").finish_non_exhaustive()
    }
}

/// The ports of a run.
#[derive(Debug)]
pub struct Ends {
    /// Sending port.
    pub send: Side,
    /// Receiving port; default: the sending port.
    pub receive: Option<Side>,
    /// Work between sending and receiving.
    pub beside: Option<Beside>,
}

impl Ends {
    /// Two connected ports without a switch; measures the generator's own contribution to results.
    pub fn wire() -> Result<Self, RigError> {
        let exchange = Exchange::default();
        let end = |name: &str, peer: &str| {
            let made = Patch::new(name, peer, Options::default(), &exchange);
            made.map(|pair| Side::new(name, Box::new(pair))).map_err(|e| RigError::Wire(e.to_string()))
        };
        Ok(Self { send: end("wire-a", "wire-b")?, receive: Some(end("wire-b", "wire-a")?), beside: None })
    }

    pub(super) fn sides(&mut self) -> impl Iterator<Item = &mut Side> {
        std::iter::once(&mut self.send).chain(&mut self.receive)
    }

    /// Opens all ports and waits until they carry packets.
    pub fn open(&mut self, timeout: Duration, watch: Watch<'_>) -> Result<(), RigError> {
        let began = Instant::now();
        self.sides().for_each(|side| side.open(began));
        loop {
            self.tend();
            let Some(waiting) = self.sides().find(|side| !side.is_ready()) else { return Ok(()) };
            if began.elapsed() > timeout {
                let status = waiting.status();
                let fault = status.last_fault.map(|fault| format!(", after: {fault}")).unwrap_or_default();
                let state = match &status.state {
                    PortState::Waiting => "waiting for a connection".to_owned(),
                    PortState::Connected => "connected, without a running queue".to_owned(),
                    PortState::Faulted(fault) => fault.to_string(),
                    PortState::Closed => "closed".to_owned(),
                };
                let state = format!("{state}{fault}, at {}", status.place);
                return Err(RigError::NotReady { name: waiting.name().to_owned(), timeout, state });
            }
            let progress = Progress { phase: Phase::Waiting, since: began.elapsed(), sent: 0, received: 0 };
            if !watch(progress) {
                return Err(RigError::Ended);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Runs the additional work.
    #[inline]
    pub(super) fn step_aside(&mut self) {
        if let Some(Beside(turn)) = &mut self.beside {
            turn();
        }
    }

    /// Whether all ports carry packets.
    pub fn is_ready(&mut self) -> bool {
        self.tend();
        self.sides().all(|side| side.is_ready())
    }

    /// Closes all ports.
    pub fn close(&mut self) {
        self.sides().for_each(Side::close);
    }

    pub(super) fn tend(&mut self) {
        let now = Instant::now();
        self.sides().for_each(|side| side.tend(now));
    }

    /// Flushes the ports' transmit queues, as far as `due`. Returns whether anything was sent.
    #[inline]
    pub(super) fn flush(&mut self, at: u64, due: Flush) -> bool {
        self.sides().fold(false, |sent, side| side.flush(port::Now(at), due) | sent)
    }

    pub(super) fn notify(&mut self) {
        // Orders published entries before the loads of the peers' suppression fields.
        fence(Ordering::SeqCst);
        self.sides().for_each(Side::notify);
    }
}
