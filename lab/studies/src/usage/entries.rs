//! Flow entries: time per packet and memory by the number of entries of an OpenFlow bridge.
//!
//! Each destination address has an entry, and packets go to all of them in turn, the worst order for caches. Beside it
//! the learning bridge forwards the same packets. Guests and switch share one thread, and only the rounds of the switch
//! are timed, so that a reading has no transfers between cores.

use super::budget::{BudgetError, failed};
use super::journal::Journal;
use counted::rig::{BURST, Extras, Flows, Rig, Shape};
use counted::stations::Stations;
use flow::CacheCounts;
use measure::Clock;
use measure::pinning::pin;
use port::virtio_user::RingKind;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// Numbers of entries: up to the largest that the study of Lagopus names.
pub const ENTRIES: [u32; 4] = [2, 100, 10_000, 1_000_000];
const PORTS: usize = 2;
const QUEUE_SIZE: u16 = 256;
/// Bytes of a frame, without checksum.
const SIZE: usize = 64;

/// Readings with one number of entries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Flow entries, and stations of the learning bridge.
    pub entries: u32,
    /// Nanoseconds per packet through the learning bridge.
    pub bridge_ns: f64,
    /// Nanoseconds per packet through the flow tables.
    pub flows_ns: f64,
    /// Entries added in a second.
    pub added_per_second: f64,
    /// Resident memory of an entry, in bytes; unreliable for few entries.
    pub bytes: f64,
    /// Shares of the packets whose result was found in the cache of heads, in that of megaflows, and in the tables.
    pub found: [f64; 3],
}

/// Measures the rows that the journal lacks, on the first CPU.
pub fn measure(cpus: [usize; 2], length: Duration, journal: &mut Journal<'_>) -> Result<(), BudgetError> {
    pin(cpus[0])?;
    for entries in ENTRIES {
        if journal.results.entries.iter().any(|row| row.entries == entries) {
            journal.skip();
            continue;
        }
        journal.next(&format!("{entries} entries"))?;
        journal.results.entries.push(row(entries, length)?);
        journal.keep()?;
    }
    Ok(())
}

pub(super) fn row(entries: u32, length: Duration) -> Result<Row, BudgetError> {
    let (bridge_ns, _) = reading(entries, None, length)?;
    let (flows_ns, loaded) = reading(entries, Some(Flows::OfAddresses), length)?;
    let (count, took, bytes, found) = loaded.unwrap_or_default();
    Ok(Row {
        entries,
        bridge_ns,
        flows_ns,
        added_per_second: count as f64 / took.as_secs_f64(),
        bytes: bytes as f64 / count as f64,
        found,
    })
}

/// Number of flows, the time and memory of their addition, and [`Row::found`].
type Loaded = (usize, Duration, u64, [f64; 3]);

/// Nanoseconds per packet.
fn reading(
    entries: u32,
    flows: Option<Flows>,
    length: Duration,
) -> Result<(f64, Option<Loaded>), BudgetError> {
    let clock = Clock::calibrated();
    let stations = Stations::new(entries as usize, PORTS);
    let mut rig = rig(stations, flows, &clock)?;
    let mut load = Load::default();
    // Every entry once, so that what is kept for each packet is there.
    while load.sent < stations.per_port() {
        load.turn(&mut rig, &clock)?;
    }
    let (before, begin) = (counts(&rig)?, Instant::now());
    load = Load { sent: load.sent, ..Load::default() };
    while begin.elapsed() < length {
        load.turn(&mut rig, &clock)?;
    }
    let found = counts(&rig)?.zip(before).map_or([0.0; 3], |(after, before)| shares(&after, &before));
    let loaded = rig.flows.as_ref().map(|flows| (flows.count, flows.took, flows.bytes, found));
    Ok((load.spent * 1e9 / load.packets as f64, loaded))
}

fn rig(stations: Stations, flows: Option<Flows>, clock: &Clock) -> Result<Rig, BudgetError> {
    // One process has one kernel, which an earlier reading has chosen.
    let kernel = mem::copy::settle(mem::copy::choose(|| clock.ticks()));
    let ticks_per_ns = clock.seconds(0, 1_000_000_000).recip();
    let shape = Shape { ring: RingKind::Split, queue_size: QUEUE_SIZE, stations, kernel, ticks_per_ns };
    let rig = Rig::with(&shape, &Extras { flows, ..Extras::default() });
    rig.map_err(|error| failed(format_args!("{error:#}")))
}

fn counts(rig: &Rig) -> Result<Option<CacheCounts>, BudgetError> {
    rig.flows.as_ref().map(|flows| flows.cache_counts().map_err(failed)).transpose()
}

fn shares(after: &CacheCounts, before: &CacheCounts) -> [f64; 3] {
    let found = [after.head - before.head, after.megaflow - before.megaflow, after.tables - before.tables];
    let all = found.iter().sum::<u64>() as f64;
    found.map(|found| if all > 0.0 { found as f64 / all } else { 0.0 })
}

/// Packets to all stations in turn, and the time of the switch.
#[derive(Default)]
struct Load {
    /// Packets sent by each port.
    sent: usize,
    packets: usize,
    /// Seconds.
    spent: f64,
}

impl Load {
    /// A full burst from each port.
    fn turn(&mut self, rig: &mut Rig, clock: &Clock) -> Result<(), BudgetError> {
        let stations = rig.stations;
        rig.send(PORTS, self.sent, SIZE, |port, n| stations.mac(1 - port, n));
        self.sent += BURST;
        let start = clock.ticks();
        rig.worker.round();
        self.spent += clock.seconds(start, clock.ticks());
        self.packets += rig.collect().map_err(failed)?;
        Ok(())
    }
}
