//! The copy study on real memory: two pinned threads, timed by the host's clock around each copy of a batch.
//!
//! As in [`crate::trial`], each round runs everything once in an order derived from the seed, and only values of the
//! same round are compared. A slice gives one value per copy, the median over its batches, which an interrupt does not
//! move; a disturbed slice is run again. This module prints nothing.
//!
//! Limits of real memory: a second node is not used, and no device writes incoming packets, so they lie in the host's
//! own caches.

use std::num::NonZeroUsize;

use super::path::{COUNTS, Guest, Host, Layout, between_fences};
use super::results::{Results, Row};
use super::setting::{Direction, Selection, Setting, Variant};
use crate::requirements;
use crate::slice::{Gate, Watch, joined};
use crate::trial::Progress;
use crate::trial::blocks::order;
use crate::trial::disturbance::{Disturbance, SwitchCounter, stolen};
use measure::Kind;
use measure::statistics::{MIN_SAMPLES, interval, median, ratio};
use measure::{Clock, CpuPinning, PinningError, Processor};
use real::{Arena, ArenaError, RealMemory};
use sim::memory::Width;

/// Settings of a measurement.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Variants and packet sizes
    pub selection: Selection,
    /// Number of rounds
    pub rounds: usize,
    /// Batches of 32 packets counted per slice
    pub batches: NonZeroUsize,
    /// Seed of the orders and of the resampling
    pub seed: u64,
}

/// Error of a measurement.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// Too few CPUs
    #[error(transparent)]
    CpuPinning(#[from] PinningError),
    /// Too little memory
    #[error(transparent)]
    Arena(#[from] ArenaError),
    /// Too few rounds for an interval
    #[error("{0} rounds are too few for an interval: use at least {MIN_SAMPLES}")]
    TooFewRounds(usize),
}

/// Warm-up batches of a slice: every buffer has been used twice.
const BATCHES_BEFORE: usize = 16;
/// Maximum number of tries of a slice; after that its round is left out.
const TRIES: usize = 6;

/// Measures the selected variants that this processor supports; the notes name the others.
pub fn measure(plan: &Plan, progress: &mut dyn Progress) -> Result<Results, MeasureError> {
    if plan.rounds < MIN_SAMPLES {
        return Err(MeasureError::TooFewRounds(plan.rounds));
    }
    let (processor, cpus) = (Processor::here(), CpuPinning::here()?.pair()?);
    let (cells, absent) = possible(&plan.selection);
    let needed = cells.iter().map(|(variant, size)| variant.setting(*size));
    // At least the memory for timing the clock reading, in case no variant is possible.
    let bytes = needed.chain([Setting::default()]).map(|setting| Layout::new(&setting).bytes()).max();
    let clock = Clock::calibrated();
    let mut bench =
        Bench { arena: Arena::new(bytes.unwrap_or(0))?, clock, cpus, batches: plan.batches.get() };
    let mut notes = notes(plan, &bench, &processor, &cells)?;
    notes.extend(absent);
    let mut samples = Samples::new(cells.len());
    for round in 0..plan.rounds {
        for (n, place) in order(plan.seed, round, cells.len()).into_iter().enumerate() {
            let (variant, size) = &cells[place];
            progress.step(round * cells.len() + n, plan.rounds * cells.len(), variant.name);
            let costs = bench.quiet_slice(&variant.setting(*size), &mut samples)?;
            samples.costs[place].push(costs);
        }
    }
    notes.extend(samples.notes(&cells));
    Ok(Results {
        memory: Kind::Real,
        unit: clock.name(),
        processor: processor.name,
        seed: plan.seed,
        constants: Vec::new(),
        rows: samples.rows(&cells, plan.seed),
        notes,
    })
}

/// Returns the cells that can run here, and the reasons for the others.
fn possible(selection: &Selection) -> (Vec<(Variant, u64)>, Vec<String>) {
    let absence = |setting: &Setting| {
        if setting.far {
            return Some("no second node is used on real memory; the simulator has one".to_owned());
        }
        requirements::lacks_copy(setting.how).map(|needs| format!("this processor does not have {needs}"))
    };
    let reason = |variant: &Variant| absence(&variant.setting(64));
    let absent = selection.variants.iter().filter_map(|variant| Some((variant.name, reason(variant)?)));
    let notes = absent.map(|(name, reason)| format!("{name} is left out: {reason}")).collect();
    let cells = selection.cells().into_iter().filter(|(variant, _)| reason(variant).is_none()).collect();
    (cells, notes)
}

/// Execution environment of slices.
struct Bench {
    arena: Arena,
    clock: Clock,
    cpus: [usize; 2],
    batches: usize,
}

impl Bench {
    /// Returns an undisturbed slice; `None` if all tries were disturbed.
    fn quiet_slice(
        &mut self,
        setting: &Setting,
        samples: &mut Samples,
    ) -> Result<Option<[f64; 3]>, PinningError> {
        for _ in 0..TRIES {
            let before = stolen(&self.cpus);
            let (costs, switches) = self.slice(setting)?;
            let disturbance = Disturbance { ticks: stolen(&self.cpus).saturating_sub(before), switches };
            if disturbance == Disturbance::default() {
                return Ok(Some(costs));
            }
            samples.repeats += 1;
            samples.disturbed = samples.disturbed.plus(disturbance);
        }
        Ok(None)
    }

    /// Runs one slice; returns the medians over its batches, and the number of involuntary context switches.
    fn slice(&mut self, setting: &Setting) -> Result<([f64; 3], u64), PinningError> {
        let layout = Layout::new(setting);
        for at in COUNTS {
            self.arena.poke(at, Width::Eight, 0);
        }
        let (mut host, mut guest) = (Host::new(setting), Guest::new(setting));
        let now = |_: &RealMemory<'_>| self.clock.ticks() as f64;
        let gate = Gate::new(2);
        std::thread::scope(|scope| {
            let host = scope.spawn(|| {
                gate.pass(self.cpus[0])?;
                Ok(self.watched(&layout, |memory| Direction::costs(host.batch(memory, &now))))
            });
            let guest = scope.spawn(|| {
                gate.pass(self.cpus[1])?;
                Ok(self.watched(&layout, |memory| guest.batch(memory)))
            });
            let (host, guest) = (joined(host), joined(guest));
            let ((costs, first), (_, second)) = (host?, guest?);
            Ok((medians(&costs), first + second))
        })
    }

    /// Runs one thread's batches; returns the results of the counted ones and the involuntary context switches during
    /// them.
    fn watched<T>(&self, layout: &Layout, mut batch: impl FnMut(&mut RealMemory<'_>) -> T) -> (Vec<T>, u64) {
        let mut memory = self.memory(layout);
        let mut counter = SwitchCounter::default();
        (0..BATCHES_BEFORE).for_each(|_| drop(batch(&mut memory)));
        counter.begin();
        let brought = (0..self.batches).map(|_| batch(&mut memory)).collect();
        counter.end();
        (brought, counter.switches())
    }

    fn memory(&self, layout: &Layout) -> RealMemory<'_> {
        assert!(layout.bytes() <= self.arena.bytes(), "the arena is smaller than the layout");
        // SAFETY: both threads access only addresses of the layout, which ends inside the arena, as asserted above:
        // indices are reduced modulo the numbers of buffers and descriptors, and every descriptor content was stored by
        // `Guest` from the layout. Only variants accepted by `possible` run, so the processor has their instructions.
        unsafe { self.arena.view() }
    }

    /// Cost of reading the clock per packet: a batch without work.
    fn nothing(&self) -> Result<f64, PinningError> {
        let layout = Layout::new(&Setting::default());
        let gate = Gate::new(1);
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                gate.pass(self.cpus[0])?;
                let mut memory = self.memory(&layout);
                let now = |_: &RealMemory<'_>| self.clock.ticks() as f64;
                let mut took: Vec<f64> =
                    (0..1001).map(|_| between_fences(&mut memory, &now, |_| ())).collect();
                Ok(median(&mut took).unwrap_or(0.0))
            });
            joined(thread)
        })
    }
}

fn medians(costs: &[[f64; 3]]) -> [f64; 3] {
    [0, 1, 2].map(|n| median(&mut costs.iter().map(|cost| cost[n]).collect::<Vec<_>>()).unwrap_or(f64::NAN))
}

/// Collected samples.
struct Samples {
    /// Costs by cell, then by round; `None` if every try was disturbed
    costs: Vec<Vec<Option<[f64; 3]>>>,
    repeats: usize,
    disturbed: Disturbance,
}

impl Samples {
    fn new(cells: usize) -> Samples {
        Samples { costs: vec![Vec::new(); cells], repeats: 0, disturbed: Disturbance::default() }
    }

    fn rows(&self, cells: &[(Variant, u64)], seed: u64) -> Vec<Row> {
        let row = |(place, (variant, size)): (usize, &(Variant, u64))| {
            let reference =
                cells.iter().position(|other| (other.0.name, other.1) == (variant.reference(), *size));
            let reference = reference.filter(|other| *other != place);
            let (name, size) = (variant.name, *size);
            Direction::ALL.into_iter().enumerate().filter_map(move |(n, direction)| {
                let mut costs: Vec<f64> = self.costs[place].iter().flatten().map(|costs| costs[n]).collect();
                let interval = interval(&costs, seed);
                let ratio = reference.and_then(|other| ratio(&self.logarithms(place, other, n), seed));
                let (variant, cost) = (name.to_owned(), median(&mut costs)?);
                Some(Row { variant, direction, size, cost, interval, ratio })
            })
        };
        cells.iter().enumerate().flat_map(row).collect()
    }

    /// Returns the logarithms of the cost ratios of two cells in the same round.
    fn logarithms(&self, one: usize, other: usize, n: usize) -> Vec<f64> {
        let rounds = self.costs[one].iter().zip(&self.costs[other]);
        rounds.filter_map(|(one, other)| Some(((*one)?[n] / (*other)?[n]).ln())).collect()
    }

    fn notes(&self, cells: &[(Variant, u64)]) -> Vec<String> {
        let mut notes = vec![format!(
            "{} slices were discarded and run again: {} ticks (10 ms) of stolen time, {} involuntary context switches",
            self.repeats, self.disturbed.ticks, self.disturbed.switches
        )];
        let absent = cells.iter().zip(&self.costs).filter_map(|((variant, size), costs)| {
            let absent = costs.len() - costs.iter().flatten().count();
            (absent > 0).then(|| format!("{} at {size} bytes ({absent} of {})", variant.name, costs.len()))
        });
        let absent: Vec<String> = absent.collect();
        if !absent.is_empty() {
            notes.push(format!(
                "rounds left out because they were disturbed in each of {TRIES} tries: {}",
                absent.join(", ")
            ));
        }
        notes
    }
}

fn notes(
    plan: &Plan,
    bench: &Bench,
    processor: &Processor,
    cells: &[(Variant, u64)],
) -> Result<Vec<String>, PinningError> {
    let [host, guest] = bench.cpus;
    let mut notes = vec![
        format!(
            "measured on {}, the host's thread on CPU {host}, the guest's on CPU {guest}",
            processor.name
        ),
        format!("memory: {}; clock: {}", bench.arena.pages(), bench.clock.name()),
        format!(
            "{} rounds of {} experiments, each once a round in an order that follows from seed {}; {} batches of 32 packets that count in each",
            plan.rounds,
            cells.len(),
            plan.seed,
            plan.batches
        ),
        format!(
            "each figure has {:.2} for reading the clock and waiting for nothing in it",
            bench.nothing()?
        ),
        "no device writes what arrives: the host does, so it lies in the host's own caches".to_owned(),
    ];
    if siblings(host).contains(&guest) {
        notes.push(format!(
            "CPUs {host} and {guest} are threads of one core: no line leaves its caches, so only warm copies mean anything"
        ));
    }
    if processor.has("hypervisor") {
        notes.push(
            "in a virtual machine: which cores the CPUs are, and what else runs there, is not known"
                .to_owned(),
        );
    }
    Ok(notes)
}

/// Returns the CPUs that are threads of the same core, if the kernel reports them: `0,4` or `0-1`.
fn siblings(cpu: usize) -> Vec<usize> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    siblings_in(&std::fs::read_to_string(path).unwrap_or_default())
}

fn siblings_in(text: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        Some(from.trim().parse::<usize>().ok()?..=to.trim().parse().ok()?)
    };
    text.split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs_two_cpus() {
        let is_possible = CpuPinning::here().is_ok();
        assert!(is_possible, "SKIPPED: there is one CPU; run on a machine with two CPUs");
    }

    fn plan(variants: &[&str], sizes: &[u64]) -> Plan {
        let selection = Selection::of(variants, sizes).expect("they are listed");
        Plan { selection, rounds: MIN_SAMPLES, batches: NonZeroUsize::MIN, seed: 1 }
    }

    #[test]
    fn each_available_experiment_has_a_cost_per_size_and_a_ratio_to_its_reference() {
        needs_two_cpus();
        let all: Vec<_> = super::super::VARIANTS.iter().map(|variant| variant.name).collect();
        let plan = plan(&all, &[64, 1518]);
        let results = measure(&plan, &mut |_: usize, _: usize, _: &str| ()).expect("it runs");
        let (cells, absent) = possible(&plan.selection);
        for (variant, size) in &cells {
            for direction in Direction::ALL {
                let row = results.row((variant.name, direction, *size)).expect("a row");
                assert!(row.cost > 0.0, "{row:?}");
                // A noisy machine may leave out a round, and six are needed.
                assert!(row.ratio.is_none() || variant.reference() != variant.name, "{row:?}");
            }
        }
        assert_eq!(results.rows.len(), cells.len() * 3);
        assert!(absent.iter().all(|note| results.notes.contains(note)));
        // Widths that the processor lacks are reported as well.
        assert!(absent.iter().any(|note| note.starts_with("other-node is left out")), "{absent:?}");
    }

    #[test]
    fn an_unavailable_width_is_reported_in_one_line_and_skipped() {
        let selection = Selection::of(&["other-node"], &[64]).expect("it is listed");
        let (cells, notes) = possible(&selection);
        assert!(cells.iter().all(|(variant, _)| variant.name != "other-node"));
        assert_eq!(notes.len(), 1);
    }

    #[test]
    fn unsupported_variants_have_notes_and_no_rows() {
        let mut plan = plan(&["other-node"], &[64]);
        plan.selection.variants.retain(|variant| variant.name == "other-node");
        needs_two_cpus();
        let results = measure(&plan, &mut |_: usize, _: usize, _: &str| ()).expect("it runs");
        assert!(results.rows.is_empty());
        assert!(results.notes.iter().any(|note| note.starts_with("other-node is left out")));
    }

    #[test]
    fn too_few_rounds_are_refused_before_anything_runs() {
        let plan = Plan { rounds: MIN_SAMPLES - 1, ..plan(&[], &[]) };
        let mut nothing = |_: usize, _: usize, _: &str| unreachable!("nothing runs");
        assert!(matches!(measure(&plan, &mut nothing), Err(MeasureError::TooFewRounds(_))));
    }

    #[test]
    fn ratios_are_of_the_same_round() {
        let mut samples = Samples::new(2);
        // The machine becomes slower with each round; the second cell takes twice as long in each.
        for round in 1..=8 {
            let cost = f64::from(round);
            samples.costs[0].push((round != 3).then_some([cost, cost, 2.0 * cost]));
            samples.costs[1].push(Some([2.0 * cost, 2.0 * cost, 4.0 * cost]));
        }
        let selection = Selection::of(&["sse"], &[64]).expect("it is listed");
        let cells: Vec<_> =
            selection.cells().into_iter().filter(|(variant, _)| !variant.is_control()).collect();
        let rows = samples.rows(&cells, 1);
        let found =
            rows.iter().find(|row| row.variant == "sse").and_then(|row| row.ratio).expect("seven rounds");
        assert!((found.low - 2.0).abs() < 1e-9 && (found.high - 2.0).abs() < 1e-9, "{found:?}");
        let notes = samples.notes(&cells);
        assert!(notes[1].ends_with("tries: base at 64 bytes (1 of 8)"), "{notes:?}");
    }

    #[test]
    fn threads_of_one_core_are_found_in_lists_and_ranges() {
        assert_eq!(siblings_in("0,4\n"), [0, 4]);
        assert_eq!(siblings_in("2-3\n"), [2, 3]);
        assert!(siblings_in("").is_empty());
    }
}
