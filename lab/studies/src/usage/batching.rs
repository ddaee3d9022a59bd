//! Transmit batching: bursts sent at once, compared with packets held until there are N.
//!
//! Receiving already yields bursts. A second batch before sending saves nothing if the burst is large; if it is small,
//! at low load, every packet waits for others. Our buffer copies the packets it holds
//! (`docs/decisions/0067-buffered-transmit-as-a-wrapper.md`), so the baseline of a buffer of N is a buffer of one.

use super::budget::BudgetError;
use super::journal::Journal;
use generator::meter::Summary;
use generator::rate::Rate;
use generator::rig::Bench;
use generator::rig::Outcome;
use measure::pinning::pin;
use port::wrap::TxCoalesce;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Compared buffer sizes in packets; 0: no buffer.
pub const SIZES: [u16; 8] = [0, 1, 4, 8, 32, 64, 128, 256];
/// Loads as fractions of the throughput without a buffer.
pub const LOADS: [f64; 4] = [0.01, 0.1, 0.5, 0.9];
const KEY: u32 = 0x144;

/// Result of one buffer size under one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Packets sent together; 0: sent at once.
    pub buffer: u16,
    /// Load as a fraction of the throughput without a buffer; `None`: maximum load.
    pub load: Option<f64>,
    /// Packets per second sent to the switch.
    pub sent_pps: f64,
    /// Packets per second received back.
    pub received_pps: f64,
    /// Fraction of the sent packets that was lost.
    pub loss: f64,
    /// Time from passing a packet to the port until receiving it back, in nanoseconds.
    pub latency_ns: Summary,
    /// Jitter as defined by RFC 3550, in nanoseconds.
    pub jitter_ns: f64,
}

/// Measures the rows that the journal lacks: the switch on the first CPU, the generator on the second.
pub fn measure(cpus: [usize; 2], length: Duration, journal: &mut Journal<'_>) -> Result<(), BudgetError> {
    pin(cpus[1])?;
    let loads = || std::iter::once(None).chain(LOADS.map(Some));
    for (buffer, load) in SIZES.into_iter().flat_map(|buffer| loads().map(move |load| (buffer, load))) {
        if find(&journal.results.batching, buffer, load).is_some() {
            journal.skip();
            continue;
        }
        let shown = load.map_or("as much as passes".to_owned(), |load| format!("load {load}"));
        journal.next(&format!("buffer {buffer}, {shown}"))?;
        let most = find(&journal.results.batching, SIZES[0], None).map(|row| row.received_pps);
        let rate = load.zip(most).map_or(Rate::Unlimited, |(load, most)| Rate::Frames(most * load));
        journal.results.batching.push(run(cpus[0], buffer, load, rate, length)?);
        journal.keep()?;
    }
    Ok(())
}

fn find(rows: &[Row], buffer: u16, load: Option<f64>) -> Option<&Row> {
    rows.iter().find(|row| row.buffer == buffer && row.load == load)
}

fn run(
    cpu: usize,
    buffer: u16,
    load: Option<f64>,
    rate: Rate,
    duration: Duration,
) -> Result<Row, BudgetError> {
    let tx_coalesce = (buffer > 0).then_some(TxCoalesce { frames: buffer, delay: None });
    let bench = Bench::start(cpu, tx_coalesce)?;
    let outcome = bench.loaded(rate, duration, KEY)?;
    bench.stop()?;
    Ok(row(buffer, load, &outcome))
}

fn row(buffer: u16, load: Option<f64>, outcome: &Outcome) -> Row {
    let Outcome { sent_pps, received_pps, loss_ratio, .. } = *outcome;
    let stream = outcome.streams.first();
    Row {
        buffer,
        load,
        sent_pps,
        received_pps,
        loss: loss_ratio,
        latency_ns: stream.map(|stream| stream.latency_ns).unwrap_or_default(),
        jitter_ns: stream.map(|stream| stream.jitter_ns).unwrap_or_default(),
    }
}
