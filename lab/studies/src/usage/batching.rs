//! Batching twice: what a burst brought, sent at once, against the same kept back until there are N.
//!
//! Receiving brings packets in bursts as it is. A second batch before sending saves nothing where the first is large, and
//! where it is small, which is when there is little to do, every packet waits for others. Our buffer copies what it keeps
//! (`docs/decisions/0067-buffered-transmit-as-a-wrapper.md`), so the fair neighbour of a buffer of N is a buffer of one.

use super::budget::BudgetError;
use super::journal::Journal;
use generator::meter::Summary;
use generator::rate::Rate;
use generator::rig::Bench;
use generator::rig::Outcome;
use measure::seats::pin;
use port::wrap::TxCoalesce;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Buffers that are compared; 0: none.
pub const SIZES: [u16; 8] = [0, 1, 4, 8, 32, 64, 128, 256];
/// Loads, in parts of what passes without a buffer.
pub const LOADS: [f64; 4] = [0.01, 0.1, 0.5, 0.9];
const KEY: u32 = 0x144;

/// One buffer under one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Packets that are sent together; 0: at once.
    pub buffer: u16,
    /// The load in parts of what passes without a buffer; none: as much as passes.
    pub load: Option<f64>,
    /// Packets a second that were sent to the switch, and that came back.
    pub sent_pps: f64,
    /// See `sent_pps`.
    pub received_pps: f64,
    /// Of the packets sent, the part that was lost.
    pub loss: f64,
    /// From the time that a packet was given to the port until it was taken back, in nanoseconds.
    pub latency_ns: Summary,
    /// RFC 3550, in nanoseconds.
    pub jitter_ns: f64,
}

/// Measures what the journal lacks of it: the switch on the first CPU, the generator on the second.
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
    let tx_coalesce = (buffer > 0).then_some(TxCoalesce { packets: buffer, within: None });
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
