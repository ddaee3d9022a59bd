//! Ports of a run, and work that its thread does beside them. Independent of the amount of traffic and of its results.

use super::super::meter::Meter;
use super::super::tag::TAG;
use super::{Phase, Progress, RigError, Watch};
use engine::LocalPort;
use mem::copy::Kernel;
use port::memif::Options;
use port::patch::{Exchange, Patch};
use port::{Flush, Now};
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

/// Interval between two polls of ports that are not ready.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Maximum number of bursts taken from a queue per call.
const MAX_BURSTS: usize = 4;

/// Receives frames and records them in the meter. Returns their number. Takes several bursts per queue: with only one
/// per sent burst, the backlog of a stall would persist at the highest load.
#[inline]
pub fn receive<K: Kernel>(from: &mut LocalPort, meter: &mut Meter, clock: impl Fn() -> u64) -> usize {
    from.receive(
        MAX_BURSTS,
        || Now(clock()),
        |burst| {
            let now = clock();
            for i in 0..burst.len() {
                let tail = burst.frame(i).tail::<K, TAG>();
                meter.take(tail.as_ref(), burst.frame_len(i), now);
            }
        },
    )
}

/// Additional work of the generator's thread in every turn, such as an inline switch.
pub struct InlineWork(Box<dyn FnMut() + Send>);

impl InlineWork {
    /// Calls `turn` in every turn; it must not block.
    pub fn new(turn: impl FnMut() + Send + 'static) -> Self {
        Self(Box::new(turn))
    }
}

impl std::fmt::Debug for InlineWork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InlineWork").finish_non_exhaustive()
    }
}

/// The ports of a run.
#[derive(Debug)]
pub struct RigPorts {
    /// Sending port.
    pub send: LocalPort,
    /// Receiving port; default: the sending port.
    pub receive: Option<LocalPort>,
    /// Work between sending and receiving.
    pub inline_work: Option<InlineWork>,
}

impl RigPorts {
    /// Two connected ports without a switch; measures the generator's own contribution to results.
    pub fn wire() -> Result<Self, RigError> {
        let exchange = Exchange::default();
        let end = |name: &str, peer: &str| {
            let made = Patch::new(name, peer, Options::default(), &exchange);
            made.map(|pair| LocalPort::new(name, Box::new(pair))).map_err(|e| RigError::Wire(e.to_string()))
        };
        Ok(Self {
            send: end("wire-a", "wire-b")?,
            receive: Some(end("wire-b", "wire-a")?),
            inline_work: None,
        })
    }

    pub(super) fn ports(&mut self) -> impl Iterator<Item = &mut LocalPort> {
        std::iter::once(&mut self.send).chain(&mut self.receive)
    }

    /// Opens all ports and waits until they carry packets.
    pub fn open(&mut self, timeout: Duration, watch: Watch<'_>) -> Result<(), RigError> {
        let began = Instant::now();
        self.ports().for_each(|rig_port| rig_port.open(began));
        loop {
            self.poll_control();
            let Some(waiting) = self.ports().find(|rig_port| !rig_port.is_ready()) else { return Ok(()) };
            if began.elapsed() > timeout {
                let (name, state) = (waiting.name().to_owned(), waiting.state());
                return Err(RigError::NotReady { name, timeout, state });
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
    pub(super) fn run_inline_work(&mut self) {
        if let Some(InlineWork(turn)) = &mut self.inline_work {
            turn();
        }
    }

    /// Whether all ports carry packets.
    pub fn is_ready(&mut self) -> bool {
        self.poll_control();
        self.ports().all(|rig_port| rig_port.is_ready())
    }

    /// Closes all ports.
    pub fn close(&mut self) {
        self.ports().for_each(LocalPort::close);
    }

    pub(super) fn poll_control(&mut self) {
        let now = Instant::now();
        self.ports().for_each(|rig_port| rig_port.poll_control(now));
    }

    /// Flushes the ports' transmit queues, as far as `due`. Returns whether anything was sent.
    #[inline]
    pub(super) fn flush(&mut self, at: u64, due: Flush) -> bool {
        self.ports().fold(false, |sent, rig_port| rig_port.flush(Now(at), due) | sent)
    }

    pub(super) fn notify(&mut self) {
        // Orders published entries before the loads of the peers' suppression fields.
        fence(Ordering::SeqCst);
        self.ports().for_each(LocalPort::notify);
    }
}
