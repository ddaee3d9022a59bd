//! Source and sink of the study: one thread that sends one burst repeatedly and receives the forwarded packets.
//!
//! At most as many packets as the shortest ring holds are in transit, so no model loses packets to a full ring: a slow
//! switch slows the source down. Other losses are counted by the switch.

use crate::usage::budget::BudgetError;
use crate::usage::budget::failed;
use crate::usage::queues::discard;
use engine::AttachedQueues;
use generator::schedule::Pace;
use generator::{Description, Sizes, Source};
use port::memif::Options;
use port::patch::{Exchange, Patch};
use port::{BURST, Burst, BurstStats, GeneratedBurst, PLACES, PortControl, PortFault, RxQueue, TxQueue};
use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

/// Frame size in bytes, without checksum.
const SIZE: u16 = 64;
/// Flows per burst, for models that spread by flow.
const FLOWS: u32 = 64;
const KEY: u32 = 0x70de1;
/// Entries of the ports' rings.
const RING: u16 = 1024;
/// Maximum number of packets in transit.
const WINDOW: u64 = RING as u64 - BURST as u64;
/// Bursts between two clock readings.
const TURNS: usize = 64;
/// Timeout for ports to connect.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Time without a packet after which missing packets count as lost.
const SILENCE: Duration = Duration::from_millis(100);

/// Result of a measurement interval.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Throughput {
    pub(super) packets: u64,
    pub(super) seconds: f64,
    /// CPU seconds of this process.
    pub(super) cpu_seconds: f64,
}

/// One end of a cable to the switch.
struct End {
    rx: Box<dyn RxQueue>,
    tx: Box<dyn TxQueue>,
    _control: Box<dyn PortControl>,
}

/// Source and sink.
pub(super) struct Load {
    send: End,
    receive: End,
    source: Source,
    burst: GeneratedBurst,
    taken: Burst,
    pub(super) sent: u64,
    pub(super) came: u64,
}

/// Creates a patch port with rings of `RING` entries.
pub(super) fn pair(name: &str, peer: &str, exchange: &Exchange) -> Result<Box<dyn PortControl>, BudgetError> {
    let options = Options { ring_size: RING, ..Options::default() };
    Ok(Box::new(Patch::new(name, peer, options, exchange).map_err(failed)?))
}

/// Connects a port, whose other end belongs to the switch.
fn open(mut control: Box<dyn PortControl>) -> Result<End, BudgetError> {
    let (mut queues, until) = (AttachedQueues::default(), Instant::now() + TIMEOUT);
    while !queues.is_ready() {
        if Instant::now() > until {
            return Err(failed("a port of the switch did not connect in time"));
        }
        control.handle(Instant::now(), &mut queues);
        std::thread::sleep(Duration::from_micros(200));
    }
    let (rx, tx) = queues.into_both().ok_or_else(|| failed("a port has no queues"))?;
    Ok(End { rx, tx, _control: control })
}

impl Load {
    /// Creates the load between two ports: sends through the first, receives from the second.
    pub(super) fn new([send, receive]: [Box<dyn PortControl>; 2]) -> Result<Self, BudgetError> {
        let stream = Description { size: Sizes::Fixed(SIZE), flows: FLOWS, ..Description::default() };
        let plan = stream.plan().map_err(failed)?;
        let mut source =
            Source::new(vec![(plan, None)], Pace::Constant, 0, BURST as u64, KEY).map_err(failed)?;
        let mut burst = GeneratedBurst::new();
        mem::with_kernel!(mem::copy::chosen(), K => { source.fill::<K>(&mut burst, 1); });
        let (send, receive) = (open(send)?, open(receive)?);
        Ok(Self { send, receive, source, burst, taken: Burst::new(), sent: 0, came: 0 })
    }

    /// Announces the receiver's address, so that the switch need not flood.
    pub(super) fn announce(&mut self) -> Result<(), PortFault> {
        let mut burst = Burst::new();
        for answer in self.source.announcements() {
            burst.begin(0);
            burst.push_own(&answer);
            self.receive.tx.tx(&burst, &PLACES[..burst.len()], &mut BurstStats::default())?;
        }
        fence(Ordering::SeqCst);
        self.receive.tx.notify();
        Ok(())
    }

    /// Sends and receives for `length`, and calls `between` after each burst.
    pub(super) fn run(
        &mut self,
        length: Duration,
        shares: bool,
        between: &mut dyn FnMut(),
    ) -> Result<Throughput, PortFault> {
        let (before, began, cpu) = (self.came, Instant::now(), cpu_seconds());
        while began.elapsed() < length {
            for _ in 0..TURNS {
                let moved = self.take()? + self.give()?;
                self.notify(moved);
                between();
                if moved == 0 && shares {
                    std::thread::yield_now();
                    break;
                }
            }
        }
        let seconds = began.elapsed().as_secs_f64();
        Ok(Throughput { packets: self.came - before, seconds, cpu_seconds: cpu_seconds() - cpu })
    }

    /// Receives the packets in transit, until all have arrived or none comes for `SILENCE`.
    pub(super) fn drain(&mut self, between: &mut dyn FnMut()) -> Result<(), PortFault> {
        let mut last = Instant::now();
        while self.came < self.sent && last.elapsed() < SILENCE {
            between();
            let moved = self.take()?;
            self.notify(moved);
            if moved > 0 {
                last = Instant::now();
            } else {
                std::thread::yield_now();
            }
        }
        Ok(())
    }

    /// Sends one burst if the window permits; returns the number of packets that the port accepted.
    fn give(&mut self) -> Result<usize, PortFault> {
        if self.sent + BURST as u64 > self.came + WINDOW {
            return Ok(0);
        }
        let done = self.send.tx.tx(&self.burst, &PLACES[..self.burst.len()], &mut BurstStats::default())?;
        self.sent += done as u64;
        Ok(done)
    }

    /// Receives one burst; returns the number of packets.
    fn take(&mut self) -> Result<usize, PortFault> {
        self.receive.rx.prefetch();
        let came = discard(self.receive.rx.as_mut(), &mut self.taken)?;
        self.came += came as u64;
        Ok(came)
    }

    fn notify(&mut self, moved: usize) {
        if moved > 0 {
            // Orders published entries before the loads of the switch's suppression fields.
            fence(Ordering::SeqCst);
            self.send.tx.notify();
            self.receive.rx.notify();
        }
    }
}

/// CPU seconds of all threads of this process.
fn cpu_seconds() -> f64 {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    spent.tv_sec as f64 + spent.tv_nsec as f64 / 1e9
}
