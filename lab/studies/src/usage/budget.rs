//! Cycle budget: costs of receiving, sending and buffered sending, and the rate predicted from them beside the measured
//! rate.
//!
//! Call costs by burst size are those of a single thread with every line in its cache, measured like the project notes
//! of a router on DPDK: each call between two readings of the counter, minus the cost of reading it. Rates are
//! predicted from the same costs with packets coming from another CPU and going to one.

use super::checkpoint::any_number;
use super::delay::{Delay, Reading, readings};
use super::journal::Journal;
use super::queues::{Frames, Wire, discard};
use generator::rig::RigError;
use measure::pinning::pin;
use measure::statistics::median;
use measure::{Clock, PinningError};
use mem::copy::chosen;
use port::wrap::TxCoalesce;
use port::{BURST, Burst, BurstStats, PLACES, PortFault, RxQueue, TxQueue};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Frame size in bytes, without checksum.
const SIZE: usize = 64;
const RING: u16 = 1024;
/// Buffer size of the buffered column, in packets.
const BUFFERED: u16 = 32;
/// Runs of each kind per prediction.
const ROUNDS: usize = 5;
/// Burst sizes of the table.
pub const BURSTS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Delays of the predictions, in nanoseconds per packet.
pub const DELAYS_NS: [f64; 6] = [0.0, 20.0, 50.0, 100.0, 300.0, 1_000.0];

/// Cost of a call by burst size, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calls {
    /// Packets per call.
    pub burst: usize,
    /// Receiving and giving the buffers back.
    #[serde(deserialize_with = "any_number")]
    pub rx_ns: f64,
    /// Sending at once.
    #[serde(deserialize_with = "any_number")]
    pub tx_ns: f64,
    /// Sending through a buffer of 32.
    #[serde(deserialize_with = "any_number")]
    pub buffered_ns: f64,
}

/// Predicted and measured rate, in packets per second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Requested work per packet, in nanoseconds.
    #[serde(deserialize_with = "any_number")]
    pub delay_ns: f64,
    /// Measured duration of that work, in nanoseconds.
    #[serde(deserialize_with = "any_number")]
    pub took_ns: f64,
    /// Cost of receiving and sending a packet, in nanoseconds, measured in separate runs under the same work.
    #[serde(deserialize_with = "any_number")]
    pub path_ns: f64,
    /// Predicted rate: one packet per `path_ns + took_ns`.
    #[serde(deserialize_with = "any_number")]
    pub predicted_pps: f64,
    /// Measured rate.
    #[serde(deserialize_with = "any_number")]
    pub measured_pps: f64,
    /// Fraction of the time without packets: if large, the source is the bottleneck.
    #[serde(deserialize_with = "any_number")]
    pub idle: f64,
}

impl Prediction {
    /// Error of the prediction, in per cent of the measured rate.
    pub fn error_percent(&self) -> f64 {
        (self.predicted_pps / self.measured_pps - 1.0) * 100.0
    }
}

/// Results of the whole experiment.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Budget {
    /// Nanoseconds of the delay's shortest step.
    #[serde(deserialize_with = "any_number")]
    pub step_ns: f64,
    /// Measured delays.
    pub delays: Vec<Reading>,
    /// Costs of calls.
    pub calls: Vec<Calls>,
    /// Predictions with their measurements.
    pub predictions: Vec<Prediction>,
}

/// Error of a budget measurement.
#[derive(Debug, thiserror::Error)]
pub enum BudgetError {
    /// Queues could not be created.
    #[error(transparent)]
    Wire(#[from] RigError),
    /// A queue of the laboratory failed.
    #[error("a queue of the laboratory failed: {0}")]
    Fault(#[from] PortFault),
    /// A CPU is not available.
    #[error(transparent)]
    Cpu(#[from] PinningError),
    /// Deadlock of the simulated threads.
    #[error(transparent)]
    Deadlock(#[from] sim::Deadlock),
    /// A thread could not be started, or panicked.
    #[error("the laboratory's second thread could not run: {0}")]
    Thread(String),
    /// The observer ended the measurement.
    #[error("the measurement was interrupted before its last reading")]
    Ended,
}

/// Wraps an error of the switch under test.
pub(super) fn failed(error: impl std::fmt::Display) -> BudgetError {
    BudgetError::Wire(RigError::Wire(error.to_string()))
}

/// Duration of each part of the measurement.
#[derive(Clone, Copy, Debug)]
pub struct Lengths {
    /// Duration of a row of the call table.
    pub calls: Duration,
    /// Duration of a rate measurement.
    pub rate: Duration,
}

/// Measures the parts that the journal lacks: on the first of `cpus` the measured side, on the second the other side.
pub fn measure(cpus: [usize; 2], lengths: Lengths, journal: &mut Journal<'_>) -> Result<(), BudgetError> {
    pin(cpus[0])?;
    let delay = Delay::calibrated();
    let clock = Clock::calibrated();
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

/// Takes one reading, unless it exists.
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

/// Sum of ticks and number of readings.
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

    /// Nanoseconds per item for `n` items, without the cost of reading the counter.
    fn each(self, clock: Clock, n: u64) -> f64 {
        let reading = reading(clock) * self.readings as f64;
        (clock.seconds(0, self.ticks) * 1e9 - reading).max(0.0) / n.max(1) as f64
    }
}

/// Time between two consecutive readings, in nanoseconds.
fn reading(clock: Clock) -> f64 {
    let mut nothing = Sum::default();
    for _ in 0..10_000 {
        nothing.add(clock, || ());
    }
    clock.seconds(0, nothing.ticks) * 1e9 / nothing.readings as f64
}

fn cost_of_calls(clock: Clock, packets: usize, length: Duration) -> Result<Calls, BudgetError> {
    let (rx_ns, tx_ns) = calls_over(clock, packets, length, None)?;
    let tx_coalesce = TxCoalesce { frames: BUFFERED, delay: None };
    let (_, buffered_ns) = calls_over(clock, packets, length, Some(tx_coalesce))?;
    Ok(Calls { burst: packets, rx_ns, tx_ns, buffered_ns })
}

/// Costs of receiving and sending, in nanoseconds per packet, with one thread at both ends of a wire.
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

/// Result of the forwarding thread.
#[derive(Default)]
struct Forwarded {
    packets: u64,
    path: Sum,
    idle: Sum,
    seconds: f64,
}

/// Predicts a rate from the path's cost under this work, and measures it without timing calls, in turn.
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

/// Runs `act` between two wires, while a thread on CPU `other` sends and receives at the other ends as fast as
/// possible.
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

/// Serves the other side of both wires. It empties the receiving wire before filling the sending one, so that the
/// measured side never waits for room.
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

/// Receives, works and sends for `length`. With `COUNTED`, sums the time outside the work.
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

/// Sends as many packets as there is room for, and gives the buffers back.
fn give(rx: &mut dyn RxQueue, tx: &mut dyn TxQueue, burst: &Burst) -> Result<(), PortFault> {
    tx.tx(burst, &PLACES[..burst.len()], &mut BurstStats::default())?;
    rx.complete(burst.buf_ids());
    Ok(())
}
