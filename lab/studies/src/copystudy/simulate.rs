//! The study in the simulator: two cores, on one or two sockets, several experiments concurrently.

use std::cell::RefCell;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;

use super::path::{Guest, Host, Layout};
use super::results::{Results, Row};
use super::setting::{Direction, Selection, Setting, Variant};
use crate::parallel::in_parallel;
use crate::results::ConstantRow;
use crate::trial::Progress;
use measure::Estimate;
use measure::Kind;
use sim::Prefetchers;
use sim::run::Body;
use sim::sockets::OneSocket;
use sim::{Deadlock, Machine, Profile, Simulated, Sockets, TICKS, run};

/// Error of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimulationError {
    /// The profile has no second socket
    #[error(transparent)]
    OneSocket(#[from] OneSocket),
    /// Deadlock of the two threads
    #[error(transparent)]
    Deadlock(#[from] Deadlock),
}

/// Warm-up laps over the pool: every buffer has been used twice, so lines are in their steady state.
const LAPS_BEFORE: u64 = 2;
/// Counted batches.
const BATCHES: u64 = 16;
/// Displacement of a control's pools in bytes: a control must differ, or the simulation repeats exactly.
const MOVED: u64 = 5 * 4096 + 3 * 64;

/// Returns the cost of the copies to and from the guest, in cycles per packet.
pub fn simulate(profile: &Profile, setting: &Setting) -> Result<[f64; 2], SimulationError> {
    let layout = Layout::new(setting);
    let mut machine = Machine::new(profile, 2, layout.bytes(), Prefetchers { stream: true, adjacent: true });
    if setting.far {
        machine = machine.on(Sockets::one().with_core(1).with_memory(layout.guest()))?;
    }
    let before = LAPS_BEFORE * setting.buffers.div_ceil(32);
    let sums = Rc::new(RefCell::new([0.0; 2]));
    let (mut host, mut guest) = (Host::new(setting), Guest::new(setting));
    let results = Rc::clone(&sums);
    let now = |memory: &Simulated<'_>| memory.counters().time as f64 / TICKS as f64;
    let host: Body = Box::new(move |memory| {
        for batch in 0..before + BATCHES {
            let costs = host.batch(memory, &now);
            if batch >= before {
                let mut sums = results.borrow_mut();
                *sums = [sums[0] + costs[0], sums[1] + costs[1]];
            }
        }
    });
    let guest: Body = Box::new(move |memory| (0..before + BATCHES).for_each(|_| guest.batch(memory)));
    run(machine, vec![host, guest])?;
    let sums = *sums.borrow();
    Ok(sums.map(|sum| sum / BATCHES as f64))
}

/// Simulates the selection with `jobs` concurrent experiments. If the profile has no second socket, the variant that
/// needs one is omitted.
pub fn simulate_all(
    profile: &Profile,
    selection: &Selection,
    jobs: NonZeroUsize,
    progress: &mut dyn Progress,
) -> Result<Results, SimulationError> {
    let one_socket = profile.transfer.remote_dram.is_none() || profile.transfer.remote_core.is_none();
    let (absent, cells): (Vec<_>, Vec<_>) =
        selection.cells().into_iter().partition(|(variant, size)| one_socket && variant.setting(*size).far);
    let costs = costs(profile, &cells, jobs, progress)?;
    let mut notes = notes(&cells);
    if !absent.is_empty() {
        notes.push(format!("other-node is left out: {OneSocket}"));
    }
    Ok(Results {
        memory: Kind::Simulated,
        processor: profile.name.clone(),
        unit: "cycles".to_owned(),
        seed: 0,
        constants: ConstantRow::of(profile),
        rows: rows(&cells, &costs),
        notes,
    })
}

type Costs = [f64; 2];

fn costs(
    profile: &Profile,
    cells: &[(Variant, u64)],
    jobs: NonZeroUsize,
    progress: &mut dyn Progress,
) -> Result<Vec<Costs>, SimulationError> {
    let (mut costs, mut done) = (vec![Ok([0.0; 2]); cells.len()], 0);
    let one = |(variant, size): &(Variant, u64)| simulate(profile, &controlled(variant, *size));
    in_parallel(jobs, cells, &AtomicBool::new(false), one, |place, outcome| {
        if let Some(outcome) = outcome {
            done += 1;
            progress.step(done, cells.len(), cells[place].0.name);
            costs[place] = outcome;
        }
        ControlFlow::Continue(())
    });
    costs.into_iter().collect()
}

fn controlled(variant: &Variant, size: u64) -> Setting {
    let setting = variant.setting(size);
    if variant.is_control() { Setting { moved: MOVED, ..setting } } else { setting }
}

fn rows(cells: &[(Variant, u64)], costs: &[Costs]) -> Vec<Row> {
    let cost = |name: &str, size: u64| {
        let place = cells.iter().position(|(variant, other)| variant.name == name && *other == size)?;
        Some(Direction::costs(costs[place]))
    };
    let row = |((variant, size), own): (&(Variant, u64), &Costs)| {
        let reference = cost(variant.reference(), *size).filter(|_| variant.reference() != variant.name);
        let (variant, size, own) = (variant.name.to_owned(), *size, Direction::costs(*own));
        Direction::ALL.into_iter().enumerate().map(move |(n, direction)| {
            let ratio = reference.map(|reference| own[n] / reference[n]);
            let ratio = ratio.map(|ratio| Estimate { median: ratio, low: ratio, high: ratio });
            Row { variant: variant.clone(), direction, size, cost: own[n], interval: None, ratio }
        })
    };
    cells.iter().zip(costs).flat_map(row).collect()
}

fn notes(cells: &[(Variant, u64)]) -> Vec<String> {
    let mut notes = vec!["The guest reads, or reads and writes, the whole packet.".to_owned()];
    if cells.iter().any(|(variant, _)| variant.is_control()) {
        notes.push(
            "The controls (base-again, warm-again) have their pools at other addresses, which changes conflicts in cache sets \
             only: a difference from the base that is at most that of the controls is not resolved."
                .to_owned(),
        );
    }
    notes.push(
        "String instructions are simulated without their start-up cost, and vectors without the lower frequency of wide ones: \
         rep-movsb and avx512 are lower bounds."
            .to_owned(),
    );
    notes
}
