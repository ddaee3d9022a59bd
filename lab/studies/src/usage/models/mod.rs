//! Execution models by the work per packet: run to completion, pipeline and inline, with the same bridge under each.
//!
//! Models alternate within a round, so that other load on the machine affects all alike; each figure is the median over
//! rounds. Rates are given in total and per busy CPU, because a model with two CPUs to itself should be twice as fast.
//! There are two CPUs, of which source and sink need one; models with as many cores as they need are simulated
//! ([`simulated`]) and shown separately.

mod bench;
mod crossing;
mod layout;
mod load;
pub mod simulated;

pub use crossing::{Crossing, crossing};
pub use layout::Layout;
pub use simulated::Simulated;

use super::budget::BudgetError;
use super::delay::Delay;
use crate::usage::budget::failed;
use bench::Reading;
use measure::Clock;
use measure::statistics::median;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Work per packet, in cycles of the time-stamp counter.
pub const WORK_CYCLES: [u32; 7] = [0, 50, 100, 200, 500, 1_000, 2_000];
/// Number of measurements of each case.
pub const ROUNDS: usize = 3;
/// Readings of the whole study, including simulated ones.
pub const READINGS: usize = WORK_CYCLES.len() * (Layout::ALL.len() * ROUNDS + simulated::Cores::ALL.len());

/// Result of one model under one amount of work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The model, and the placement of its threads.
    pub layout: Layout,
    /// Requested work per packet, in cycles of the time-stamp counter.
    pub work_cycles: u32,
    /// Requested work per packet, in nanoseconds.
    pub work_ns: f64,
    /// Packets per second received: median over rounds.
    pub pps: f64,
    /// Smallest rate of the rounds.
    pub least_pps: f64,
    /// Largest rate of the rounds.
    pub most_pps: f64,
    /// Busy CPUs, including source and sink: median over rounds.
    pub cpus: f64,
    /// Packets per second per busy CPU.
    pub pps_per_cpu: f64,
    /// Packets sent to the switch, over all rounds.
    pub sent: u64,
    /// Packets received from the switch.
    pub came: u64,
    /// Packets that the switch counted as lost.
    pub lost: u64,
}

/// Results of the whole study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Models {
    /// Results measured on two CPUs.
    pub rows: Vec<Row>,
    /// Simulated results with as many cores as the models need.
    pub simulated: Vec<Simulated>,
}

/// Called with the name of the next reading; may stop the run.
pub type OnStep<'a> = &'a mut dyn FnMut(&str) -> Result<(), BudgetError>;

/// Measures and simulates all cases.
pub fn measure(cpus: [usize; 2], length: Duration, told: OnStep<'_>) -> Result<Models, BudgetError> {
    let rows = over(&WORK_CYCLES, ROUNDS, cpus, length, told)?;
    let mut simulated = Vec::new();
    for (cores, work) in simulated::cases() {
        told(&format!("simulated: {}, {work} cycles", cores.name()))?;
        simulated.push(simulated::simulate(cores, work).map_err(failed)?);
    }
    Ok(Models { rows, simulated })
}

fn over(
    work: &[u32],
    rounds: usize,
    cpus: [usize; 2],
    length: Duration,
    told: OnStep<'_>,
) -> Result<Vec<Row>, BudgetError> {
    measure::pinning::pin(cpus[0])?;
    let delay = Delay::calibrated();
    let clock = Clock::calibrated();
    let nanoseconds = |cycles: u32| clock.seconds(0, u64::from(cycles)) * 1e9;
    let cases: Vec<(Layout, u32)> =
        work.iter().flat_map(|&cycles| Layout::ALL.map(|layout| (layout, cycles))).collect();
    let mut readings: Vec<Vec<Reading>> = vec![Vec::new(); cases.len()];
    for _ in 0..rounds {
        for (&(layout, cycles), readings) in cases.iter().zip(&mut readings) {
            told(&format!("{}, {cycles} cycles", layout.name()))?;
            readings.push(bench::read(layout, cpus, &delay.set(nanoseconds(cycles)), length)?);
        }
    }
    let rows = cases.iter().zip(&readings);
    Ok(rows.map(|(&(layout, cycles), of)| row(layout, (cycles, nanoseconds(cycles)), of)).collect())
}

fn row(layout: Layout, (work_cycles, work_ns): (u32, f64), readings: &[Reading]) -> Row {
    let middle = |of: fn(&Reading) -> f64| {
        median(&mut readings.iter().map(of).collect::<Vec<_>>()).unwrap_or(f64::NAN)
    };
    let rate = |reading: &Reading| reading.throughput.packets as f64 / reading.throughput.seconds;
    let sum = |of: fn(&Reading) -> u64| readings.iter().map(of).sum();
    Row {
        layout,
        work_cycles,
        work_ns,
        pps: middle(rate),
        least_pps: readings.iter().map(rate).fold(f64::INFINITY, f64::min),
        most_pps: readings.iter().map(rate).fold(0.0, f64::max),
        cpus: middle(|reading| reading.throughput.cpu_seconds / reading.throughput.seconds),
        pps_per_cpu: middle(|reading| reading.throughput.packets as f64 / reading.throughput.cpu_seconds),
        sent: sum(|reading| reading.sent),
        came: sum(|reading| reading.came),
        lost: sum(|reading| reading.lost),
    }
}

/// Compared quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Packets per second.
    Rate,
    /// Packets per second per CPU.
    RatePerCpu,
}

/// Returns the curve of one model, by cycles of work.
pub fn curve(rows: &[Row], layout: Layout, measure: Measure) -> Vec<(f64, f64)> {
    let point = |row: &Row| {
        let y = if measure == Measure::Rate { row.pps } else { row.pps_per_cpu };
        (f64::from(row.work_cycles), y)
    };
    rows.iter().filter(|row| row.layout == layout).map(point).collect()
}

/// Returns every pair of layouts with the crossings of their curves, in cycles of work.
pub fn crossings(rows: &[Row], measure: Measure) -> Vec<([Layout; 2], Crossing)> {
    let pairs = Layout::ALL
        .iter()
        .enumerate()
        .flat_map(|(n, &one)| Layout::ALL[n + 1..].iter().map(move |&other| [one, other]));
    let there = |layout: Layout| rows.iter().any(|row| row.layout == layout);
    let pairs = pairs.filter(|[one, other]| there(*one) && there(*other));
    pairs
        .map(|[one, other]| {
            ([one, other], crossing(&curve(rows, one, measure), &curve(rows, other, measure)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn under_every_model_each_packet_is_sent_or_counted_as_lost() {
        let mut told = 0;
        let work = [0, 200];
        let rows = over(&work, 1, [0, 1], Duration::from_millis(5), &mut |_| {
            told += 1;
            Ok(())
        })
        .unwrap();
        assert_eq!((rows.len(), told), (10, 10));
        for row in &rows {
            assert!(row.came > 0, "{row:?}");
            assert_eq!(row.sent, row.came + row.lost, "{row:?}");
            assert!((row.work_ns > 0.0) == (row.work_cycles > 0));
        }
        for layout in Layout::ALL {
            assert_eq!(curve(&rows, layout, Measure::Rate).len(), 2);
        }
        assert_eq!(crossings(&rows, Measure::RatePerCpu).len(), 10);
    }

    #[test]
    fn a_row_has_medians_and_the_least_and_most() {
        let reading = |packets| Reading {
            throughput: load::Throughput { packets, seconds: 2.0, cpu_seconds: 4.0 },
            sent: 10,
            came: 9,
            lost: 1,
        };
        let row = row(Layout::Inline, (50, 25.0), &[reading(400), reading(100), reading(300)]);
        assert_eq!((row.pps, row.least_pps, row.most_pps), (150.0, 50.0, 200.0));
        assert_eq!((row.cpus, row.pps_per_cpu), (2.0, 75.0));
        assert_eq!((row.sent, row.came, row.lost), (30, 27, 3));
    }
}
