//! Where frames leave and where they come back: the ports of a run, and what else its thread does in every turn. How much is sent, and
//! what came, is not known here.

use super::{Phase, Progress, RigError, Side, Watch};
use port::Flush;
use port::memif::Options;
use port::patch::{Exchange, Patch};
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

/// How long it is between two looks at a port that is not ready.
const LOOK: Duration = Duration::from_millis(2);

/// What else the generator's thread does in every turn, such as a switch that runs within it.
pub struct Beside(Box<dyn FnMut() + Send>);

impl Beside {
    /// Whatever this does; it must not wait.
    pub fn new(turn: impl FnMut() + Send + 'static) -> Self {
        Self(Box::new(turn))
    }
}

impl std::fmt::Debug for Beside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Beside").finish_non_exhaustive()
    }
}

/// Where frames leave and where they come back.
#[derive(Debug)]
pub struct Ends {
    /// The sending port.
    pub send: Side,
    /// The receiving one; left out: the same.
    pub receive: Option<Side>,
    /// What runs between sending and receiving.
    pub beside: Option<Beside>,
}

impl Ends {
    /// A wire of our own, without a switch: what is measured over it is the generator's own part of every result.
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

    /// Waits until all ports carry packets.
    pub fn open(&mut self, timeout: Duration, watch: Watch<'_>) -> Result<(), RigError> {
        let began = Instant::now();
        self.sides().for_each(|side| side.open(began));
        loop {
            self.tend();
            let Some(waiting) = self.sides().find(|side| !side.is_ready()) else { return Ok(()) };
            if began.elapsed() > timeout {
                let status = waiting.status();
                let fault = status.last_fault.map(|fault| format!(", after: {fault}")).unwrap_or_default();
                let state = format!("{:?}{fault}, at {}", status.state, status.place);
                return Err(RigError::NotReady { name: waiting.name().to_owned(), timeout, state });
            }
            let progress = Progress { phase: Phase::Waiting, since: began.elapsed(), sent: 0, received: 0 };
            if !watch(progress) {
                return Err(RigError::Ended);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Lets what runs beside have its turn.
    #[inline]
    pub(super) fn step_aside(&mut self) {
        if let Some(Beside(turn)) = &mut self.beside {
            turn();
        }
    }

    /// Whether all ports carry packets now.
    pub fn is_ready(&mut self) -> bool {
        self.tend();
        self.sides().all(|side| side.is_ready())
    }

    /// Ends all ports.
    pub fn close(&mut self) {
        self.sides().for_each(Side::close);
    }

    pub(super) fn tend(&mut self) {
        let now = Instant::now();
        self.sides().for_each(|side| side.tend(now));
    }

    /// Has the ports send what they keep back, as far as it is `due`. Whether anything was sent.
    #[inline]
    pub(super) fn flush(&mut self, at: u64, due: Flush) -> bool {
        self.sides().fold(false, |sent, side| side.flush(port::Now(at), due) | sent)
    }

    pub(super) fn notify(&mut self) {
        // Orders what was published before the loads of the other sides' suppression fields.
        fence(Ordering::SeqCst);
        self.sides().for_each(Side::notify);
    }
}
