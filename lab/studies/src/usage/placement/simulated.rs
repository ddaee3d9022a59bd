//! The patterns on eight simulated cores: one of each stage, as with a single flow, and as many as fit on seven cores.
//! The eighth core runs a thread outside the path, like the study's fourth kind of thread.
//!
//! In the second case, cores are divided evenly among the pattern's kinds of threads, and the remainder goes to the
//! classifying threads.

use super::{Buffers, PATTERNS};
use crate::usage::budget::BudgetError;
use crate::usage::chain::{self, Fanout, Instructions, Layout, Length, Outcome, PlacedStage};
use engine::machine::{Cpu, Machine};
use engine::placement::{Pattern, PlanError, Requirements, Stage, Stages, plan};
use serde::{Deserialize, Serialize};
use sim::Profile;

/// Number of cores of the path.
const CORES: usize = 7;
/// Length of each run.
pub const LENGTH: Length = Length { warm_up: 10_000, packets: 12_000 };

/// Number of stages, and connections between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Width {
    /// One of each stage, on as many cores as the pattern needs.
    One,
    /// Seven cores; each stage hands packets to all of the next kind, by flow, as in the engine.
    Flows,
    /// Seven cores; each stage hands packets to the one of its number.
    Own,
}

impl Width {
    /// All widths.
    pub const ALL: [Width; 3] = [Width::One, Width::Flows, Width::Own];

    /// Description.
    pub fn title(self) -> &'static str {
        match self {
            Width::One => "one of each stage",
            Width::Flows => "seven cores, flows over all of the next stages",
            Width::Own => "seven cores, each stage to the one of its number",
        }
    }
}

/// Result of one pattern.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Width.
    pub width: Width,
    /// Pattern.
    pub pattern: Pattern,
    /// Number of Rx, Worker and Tx stages.
    pub stages: [usize; 3],
    /// Number of their cores, without the bystander's.
    pub cores: usize,
    /// Result of the run.
    pub outcome: Outcome,
}

impl Row {
    /// Returns the pool cache counts by kind of thread.
    pub fn buffers(&self) -> Vec<Buffers> {
        let mut kinds: Vec<Buffers> = Vec::new();
        for (roles, counted) in &self.outcome.pool {
            let names: Vec<_> = roles.iter().map(|role| format!("{role:?}").to_lowercase()).collect();
            let part = Buffers {
                stage: names.join("+"),
                hits: counted.hits,
                refills: counted.refills,
                spills: counted.spills,
                empty: counted.empty,
                retries: counted.retries,
            };
            match kinds.iter_mut().find(|kind| kind.stage == part.stage) {
                Some(kind) => *kind = Buffers { stage: part.stage.clone(), ..Buffers::sum([&*kind, &part]) },
                None => kinds.push(part),
            }
        }
        kinds
    }
}

/// Simulates all patterns in all widths.
pub fn simulate(
    profile: &Profile,
    length: Length,
    told: &mut dyn FnMut(&str) -> Result<(), BudgetError>,
) -> Result<Vec<Row>, BudgetError> {
    let mut rows = Vec::new();
    for width in Width::ALL {
        for pattern in PATTERNS {
            told(&format!("simulated {pattern}, {}", width.title()))?;
            // Seven cores are enough for every pattern, so no layout is skipped.
            let Ok((layout, stages)) = layout(pattern, width) else { continue };
            let outcome = chain::simulate(profile, &layout, Instructions::default(), length)?;
            rows.push(Row { width, pattern, stages, cores: layout.cores.len(), outcome });
        }
    }
    Ok(rows)
}

/// Returns the layout of a pattern, and its number of stages of each kind.
pub fn layout(pattern: Pattern, width: Width) -> Result<(Layout, [usize; 3]), PlanError> {
    let [rx, worker, tx] = stages(pattern, width);
    let requirements = Requirements {
        stages: Stages { run_to_completion: 0, rx, worker, tx },
        pattern,
        ..Requirements::default()
    };
    let plan = plan(&machine(), &requirements)?;
    let mut used: Vec<usize> = Vec::new();
    let mut cores: Vec<Vec<PlacedStage>> = Vec::new();
    let mut threads: Vec<usize> = Vec::new();
    for thread in &plan.threads {
        let at = used.iter().position(|cpu| *cpu == thread.cpu).unwrap_or_else(|| {
            used.push(thread.cpu);
            cores.push(Vec::new());
            threads.push(0);
            used.len() - 1
        });
        let placed =
            |role: &engine::placement::Role| PlacedStage { role: as_chain(role.stage), thread: threads[at] };
        cores[at].extend(thread.roles.iter().map(placed));
        threads[at] += 1;
    }
    let fanout = if width == Width::Own { Fanout::Own } else { Fanout::Flows };
    Ok((Layout { cores, fanout, bystander: true }, [rx, worker, tx]))
}

fn as_chain(stage: Stage) -> chain::Role {
    match stage {
        Stage::Rx => chain::Role::Rx,
        Stage::Worker => chain::Role::Work,
        Stage::Tx => chain::Role::Tx,
        Stage::RunToCompletion => chain::Role::Whole,
    }
}

fn stages(pattern: Pattern, width: Width) -> [usize; 3] {
    if width == Width::One {
        return [1; 3];
    }
    let share = |kinds: usize| (CORES / kinds, CORES / kinds + CORES % kinds);
    let (some, more) = match pattern {
        Pattern::Separate => share(3),
        Pattern::All | Pattern::Auto => share(1),
        Pattern::Io | Pattern::RxWorker | Pattern::TxWorker | Pattern::QuasiIo => share(2),
    };
    match pattern {
        Pattern::RxWorker => [more, more, some],
        Pattern::TxWorker => [some, more, more],
        _ => [some, more, some],
    }
}

/// The seven cores of the path; the bystander's is not included.
fn machine() -> Machine {
    let cpu = |number| Cpu { number, core: number, allowed: true, ..Cpu::default() };
    Machine { cpus: (0..CORES).map(cpu).collect(), ..Machine::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::chain::Role::{Rx, Tx, Work};

    fn cores(pattern: Pattern, width: Width) -> Vec<Vec<chain::Role>> {
        let (layout, _) = layout(pattern, width).unwrap();
        layout.cores.iter().map(|core| core.iter().map(|placed| placed.role).collect()).collect()
    }

    #[test]
    fn roles_are_on_the_cores_of_the_pattern() {
        let one = |pattern| cores(pattern, Width::One);
        assert_eq!(one(Pattern::Separate), [vec![Rx], vec![Work], vec![Tx]]);
        assert_eq!(one(Pattern::Io), [vec![Rx, Tx], vec![Work]]);
        assert_eq!(one(Pattern::All), [vec![Rx, Work, Tx]]);
        assert_eq!(one(Pattern::RxWorker), [vec![Rx, Work], vec![Tx]]);
        assert_eq!(one(Pattern::TxWorker), [vec![Rx], vec![Work, Tx]]);
        assert_eq!(one(Pattern::QuasiIo), [vec![Rx, Tx], vec![Work]]);
    }

    #[test]
    fn each_thread_has_its_own_cache() {
        let threads = |pattern| -> Vec<usize> {
            let (layout, _) = layout(pattern, Width::One).unwrap();
            layout.cores[0].iter().map(|placed| placed.thread).collect()
        };
        assert_eq!(threads(Pattern::Io), [0, 0]);
        assert_eq!(threads(Pattern::QuasiIo), [0, 1]);
        assert_eq!(threads(Pattern::All), [0, 0, 0]);
    }

    #[test]
    fn every_pattern_uses_seven_cores() {
        for pattern in PATTERNS {
            for width in [Width::Flows, Width::Own] {
                let cores = cores(pattern, width);
                assert_eq!(cores.len(), CORES, "{pattern}: {cores:?}");
                let of = |role| cores.iter().flatten().filter(|other| **other == role).count();
                assert_eq!([of(Rx), of(Work), of(Tx)], stages(pattern, width), "{pattern}");
            }
        }
    }
}
