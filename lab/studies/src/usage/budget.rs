//! The budget: what receiving, sending and buffered sending cost, and the rate that follows from it beside the rate that is.
//!
//! The costs of calls by burst size are those of one thread that does nothing else, with every line in its cache, as the
//! project notes of a router on DPDK took them: each call between two readings of the counter, and of that the cost of
//! reading it. What a rate is predicted from are the same costs where packets come from another CPU and go to one.

use super::checkpoint::any_number;
use super::delay::{Delay, Reading, readings};
use super::journal::Journal;
use super::queues::{Frames, Wire, discard};
use generator::rig::RigError;
use measure::seats::pin;
use measure::statistics::median;
use measure::{Clock, Processor, SeatsError};
use mem::copy::chosen;
use port::wrap::TxCoalesce;
use port::{BURST, Burst, BurstStats, PLACES, PortFault, RxQueue, TxQueue};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Bytes of a frame, without its checksum.
const SIZE: usize = 64;
const RING: u16 = 1024;
/// Packets that are sent together in the buffered column.
const BUFFERED: u16 = 32;
/// Runs of each kind for a prediction.
const ROUNDS: usize = 5;
/// Burst sizes of the table.
pub const BURSTS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Delays of the predictions, in nanoseconds for each packet.
pub const DELAYS_NS: [f64; 6] = [0.0, 20.0, 50.0, 100.0, 300.0, 1_000.0];

/// What a call costs with so many packets, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calls {
    /// Packets of a call.
    pub burst: usize,
    /// Receiving them and giving their buffers back.
    #[serde(deserialize_with = "any_number")]
    pub rx_ns: f64,
    /// Sending them at once.
    #[serde(deserialize_with = "any_number")]
    pub tx_ns: f64,
    /// Sending them through a buffer of 32.
    #[serde(deserialize_with = "any_number")]
    pub buffered_ns: f64,
}

/// A rate that was predicted and one that was measured, in packets a second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Work on each packet, in nanoseconds: what was asked for, and what it takes.
    #[serde(deserialize_with = "any_number")]
    pub delay_ns: f64,
    /// The same as it was read.
    #[serde(deserialize_with = "any_number")]
    pub took_ns: f64,
    /// What receiving and sending a packet costs, in nanoseconds: taken in runs of their own, under the same work.
    #[serde(deserialize_with = "any_number")]
    pub path_ns: f64,
    /// One packet for so many nanoseconds.
    #[serde(deserialize_with = "any_number")]
    pub predicted_pps: f64,
    /// What came through.
    #[serde(deserialize_with = "any_number")]
    pub measured_pps: f64,
    /// Of the time, the part in which nothing was there: with much of it the source was the limit, and not the cost.
    #[serde(deserialize_with = "any_number")]
    pub idle: f64,
}

impl Prediction {
    /// How far the prediction is off, in per cent of what was measured.
    pub fn error_percent(&self) -> f64 {
        (self.predicted_pps / self.measured_pps - 1.0) * 100.0
    }
}

/// The whole experiment.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Budget {
    /// Nanoseconds of the delay's shortest step.
    #[serde(deserialize_with = "any_number")]
    pub step_ns: f64,
    /// The delays themselves.
    pub delays: Vec<Reading>,
    /// The costs of calls.
    pub calls: Vec<Calls>,
    /// Predictions, each beside its measurement.
    pub predictions: Vec<Prediction>,
}

/// Why there is no budget.
#[derive(Debug, thiserror::Error)]
pub enum BudgetError {
    /// No queues.
    #[error(transparent)]
    Wire(#[from] RigError),
    /// A queue of our own broke.
    #[error("a queue of the laboratory's own broke: {0}")]
    Fault(#[from] PortFault),
    /// A CPU that is not ours.
    #[error(transparent)]
    Cpu(#[from] SeatsError),
    /// Simulated threads wait for each other.
    #[error(transparent)]
    Stuck(#[from] sim::Stuck),
    /// A thread of ours could not be had, or ended.
    #[error("the laboratory's second thread could not run: {0}")]
    Thread(String),
    /// Whoever watched it did not want more.
    #[error("it was ended before its last reading")]
    Ended,
}

/// An error of the switch under test.
pub(super) fn failed(error: impl std::fmt::Display) -> BudgetError {
    BudgetError::Wire(RigError::Wire(error.to_string()))
}

/// How long each part of it runs.
#[derive(Clone, Copy, Debug)]
pub struct Lengths {
    /// For a line of the table of calls.
    pub calls: Duration,
    /// For a rate.
    pub rate: Duration,
}

/// Measures what the journal lacks of it: on `cpus`, the first for what is measured, the second for the other side.
pub fn measure(cpus: [usize; 2], lengths: Lengths, journal: &mut Journal<'_>) -> Result<(), BudgetError> {
    pin(cpus[0])?;
    let delay = Delay::calibrated();
    let clock = Clock::calibrated(&Processor::here());
    reading_of(
        journal,
        "delays",
        |budget| !budget.delays.is_empty(),
        |budget| {
            (budget.step_ns, budget.delays) = (delay.step(), readings(&delay));
            Ok(())
        },
    )?;
    for burst in BURSTS {
        let there = |budget: &Budget| budget.calls.iter().any(|calls| calls.burst == burst);
        reading_of(journal, &format!("calls of {burst}"), there, |budget| {
            budget.calls.push(cost_of_calls(clock, burst, lengths.calls)?);
            Ok(())
        })?;
    }
    for ns in DELAYS_NS {
        let there = |budget: &Budget| budget.predictions.iter().any(|row| (row.delay_ns - ns).abs() < 0.5);
        reading_of(journal, &format!("{ns:.0} ns of work"), there, |budget| {
            budget.predictions.push(predict(cpus[1], clock, &delay, ns, lengths.rate)?);
            Ok(())
        })?;
    }
    Ok(())
}

/// Takes one reading, unless it is there.
fn reading_of(
    journal: &mut Journal<'_>,
    name: &str,
    there: impl Fn(&Budget) -> bool,
    take: impl FnOnce(&mut Budget) -> Result<(), BudgetError>,
) -> Result<(), BudgetError> {
    if journal.results.budget.as_ref().is_some_and(there) {
        journal.skip();
        return Ok(());
    }
    journal.next(name)?;
    take(journal.results.budget.get_or_insert_default())?;
    journal.keep()
}

/// Sums of ticks, and how many readings they are of.
#[derive(Clone, Copy, Default)]
struct Sum {
    ticks: u64,
    readings: u64,
}

impl Sum {
    #[inline(always)]
    fn add<T>(&mut self, clock: Clock, act: impl FnOnce() -> T) -> T {
        let from = clock.ticks();
        let done = act();
        self.ticks += clock.ticks() - from;
        self.readings += 1;
        done
    }

    fn join(&mut self, other: Self) {
        self.ticks += other.ticks;
        self.readings += other.readings;
    }

    /// Nanoseconds for each of `n`, without what reading the counter takes.
    fn each(self, clock: Clock, n: u64) -> f64 {
        let reading = reading(clock) * self.readings as f64;
        (clock.seconds(0, self.ticks) * 1e9 - reading).max(0.0) / n.max(1) as f64
    }
}

/// What two readings behind one another are apart, in nanoseconds.
fn reading(clock: Clock) -> f64 {
    let mut nothing = Sum::default();
    for _ in 0..10_000 {
        nothing.add(clock, || ());
    }
    clock.seconds(0, nothing.ticks) * 1e9 / nothing.readings as f64
}

fn cost_of_calls(clock: Clock, packets: usize, length: Duration) -> Result<Calls, BudgetError> {
    let (rx_ns, tx_ns) = calls_over(clock, packets, length, None)?;
    let tx_coalesce = TxCoalesce { packets: BUFFERED, within: None };
    let (_, buffered_ns) = calls_over(clock, packets, length, Some(tx_coalesce))?;
    Ok(Calls { burst: packets, rx_ns, tx_ns, buffered_ns })
}

/// Receiving and sending, in nanoseconds a packet, of one thread at both ends of a wire.
fn calls_over(
    clock: Clock,
    packets: usize,
    length: Duration,
    tx_coalesce: Option<TxCoalesce>,
) -> Result<(f64, f64), BudgetError> {
    let (mut wire, frames) = (Wire::new(RING, tx_coalesce)?, Frames::new(packets, SIZE));
    let (mut rx, mut tx, mut burst) = (Sum::default(), Sum::default(), Burst::new());
    let (mut sent, mut came, began) = (0, 0, Instant::now());
    while began.elapsed() < length {
        for _ in 0..256 {
            sent += tx.add(clock, || frames.send(wire.tx.as_mut(), &mut BurstStats::default()))? as u64;
            let mut counted = rx;
            let got = counted.add(clock, || discard(wire.rx.as_mut(), &mut burst))?;
            if got > 0 {
                (rx, came) = (counted, came + got as u64);
            }
        }
    }
    Ok((rx.each(clock, came), tx.each(clock, sent)))
}

/// What the forwarding thread did.
#[derive(Default)]
struct Forwarded {
    packets: u64,
    path: Sum,
    idle: Sum,
    seconds: f64,
}

/// Predicts from the cost of the path under this work, and measures without any clock on it, in turn.
fn predict(
    other: usize,
    clock: Clock,
    delay: &Delay,
    ns: f64,
    length: Duration,
) -> Result<Prediction, BudgetError> {
    let took_ns = if ns > 0.0 { delay.read(ns, (1e7 / ns) as u64 / 9).took_ns } else { 0.0 };
    let mut work = delay.set(ns);
    let (mut paths, mut rates, mut idle) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let counted = between(other, |rx, tx| forward::<true>((rx, tx), clock, &mut work, length))?;
        paths.push(counted.path.each(clock, counted.packets));
        idle.push(clock.seconds(0, counted.idle.ticks) / counted.seconds);
        let plain = between(other, |rx, tx| forward::<false>((rx, tx), clock, &mut work, length))?;
        rates.push(plain.packets as f64 / plain.seconds);
    }
    let middle = |values: &mut [f64]| median(values).unwrap_or(f64::NAN);
    let (path_ns, measured_pps, idle) = (middle(&mut paths), middle(&mut rates), middle(&mut idle));
    let predicted_pps = 1e9 / (path_ns + took_ns);
    Ok(Prediction { delay_ns: ns, took_ns, path_ns, predicted_pps, measured_pps, idle })
}

/// Runs `act` between two wires, at whose other ends a thread on CPU `other` sends and receives as fast as it goes.
fn between(
    other: usize,
    act: impl FnOnce(&mut dyn RxQueue, &mut dyn TxQueue) -> Result<Forwarded, PortFault>,
) -> Result<Forwarded, BudgetError> {
    let (mut one, mut two) = (Wire::new(RING, None)?, Wire::new(RING, None)?);
    let (source, from) = (one.tx.as_mut(), one.rx.as_mut());
    let (to, sink) = (two.tx.as_mut(), two.rx.as_mut());
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let side = scope.spawn(|| serve(other, source, sink, &over));
        let done = act(from, to);
        over.store(true, Ordering::Relaxed);
        let served = side.join().map_err(|_| BudgetError::Thread("it panicked".to_owned()))?;
        served.and(done.map_err(BudgetError::from))
    })
}

/// The other side of both wires. It empties the one before it fills the other, so that what is measured never waits for room.
fn serve(
    cpu: usize,
    source: &mut dyn TxQueue,
    sink: &mut dyn RxQueue,
    over: &AtomicBool,
) -> Result<(), BudgetError> {
    pin(cpu)?;
    let (frames, mut burst) = (Frames::new(BURST, SIZE), Burst::new());
    while !over.load(Ordering::Relaxed) {
        while discard(sink, &mut burst)? > 0 {}
        frames.send(source, &mut BurstStats::default())?;
    }
    Ok(())
}

/// Takes, works, sends, for as long as `length`. With `COUNTED`, what is not the work is summed up.
fn forward<const COUNTED: bool>(
    (rx, tx): (&mut dyn RxQueue, &mut dyn TxQueue),
    clock: Clock,
    work: &mut Delay,
    length: Duration,
) -> Result<Forwarded, PortFault> {
    let (mut burst, mut done) = (Burst::new(), Forwarded::default());
    let began = Instant::now();
    while began.elapsed() < length {
        for _ in 0..64 {
            let mut taking = Sum::default();
            timed::<COUNTED, _>(&mut taking, clock, || take(rx, &mut burst))?;
            if burst.is_untouched() {
                done.idle.join(taking);
                continue;
            }
            done.path.join(taking);
            (0..burst.len()).for_each(|_| work.run());
            timed::<COUNTED, _>(&mut done.path, clock, || give(rx, tx, &burst))?;
            done.packets += burst.len() as u64;
        }
    }
    done.seconds = began.elapsed().as_secs_f64();
    Ok(done)
}

#[inline(always)]
fn timed<const COUNTED: bool, T>(sum: &mut Sum, clock: Clock, act: impl FnOnce() -> T) -> T {
    if COUNTED { sum.add(clock, act) } else { act() }
}

fn take(rx: &mut dyn RxQueue, burst: &mut Burst) -> Result<(), PortFault> {
    burst.begin(0);
    rx.rx(burst, &mut BurstStats::default())?;
    mem::with_kernel!(chosen(), K => burst.load_heads::<K>());
    Ok(())
}

/// Sends as far as there is room, and gives the buffers back.
fn give(rx: &mut dyn RxQueue, tx: &mut dyn TxQueue, burst: &Burst) -> Result<(), PortFault> {
    tx.tx(burst, &PLACES[..burst.len()], &mut BurstStats::default())?;
    rx.complete(burst.buf_ids());
    Ok(())
}
