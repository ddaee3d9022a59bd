//! Runs experiments in the simulator, as many concurrently as there are jobs.

use std::sync::atomic::AtomicBool;

use super::{Event, Listener, Plan};
use crate::experiment::simulate;
use crate::factors::Named;
use crate::model::Config;
use crate::parallel::in_parallel;
use crate::results::Row;

/// Runs all experiments, or stops when the flag is set.
pub fn run(plan: &Plan, configurations: &[Named], stop: &AtomicBool, listener: Listener<'_>) {
    let one = |named: &Named| {
        let config = Config { seed: plan.seed, ..named.config.clone() };
        simulate(&plan.profile, &config, plan.length())
    };
    in_parallel(plan.jobs, configurations, stop, one, |place, result| {
        let name = &configurations[place].name;
        listener(match result {
            None => Event::Began(name.clone()),
            Some(Ok(outcome)) => Event::Done(Row::simulated(name, &outcome)),
            Some(Err(stuck)) => Event::Failed(name.clone(), stuck),
        })
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::select;
    use sim::Profile;
    use std::num::NonZeroUsize;
    use std::ops::ControlFlow;

    fn plan(jobs: usize) -> Plan {
        let jobs = NonZeroUsize::new(jobs).unwrap();
        Plan { profile: Profile::study(), packets: 320, seed: 1, jobs }
    }

    fn rows(jobs: usize) -> Vec<Row> {
        let mut rows = Vec::new();
        let chosen = select(&["base", "a", "d", "a+d"]).unwrap();
        run(&plan(jobs), &chosen, &AtomicBool::new(false), &mut |event| {
            if let Event::Done(row) = event {
                rows.push(row);
            }
            ControlFlow::Continue(())
        });
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        rows
    }

    #[test]
    #[ignore = "slow; run by `cargo xtask test --all`"]
    fn results_do_not_depend_on_the_number_of_concurrent_runs() {
        let (one, four) = (rows(1), rows(4));
        assert_eq!(one.len(), 4);
        assert_eq!(one, four);
    }

    #[test]
    #[ignore = "slow; run by `cargo xtask test --all`"]
    fn results_depend_on_the_seed_and_repeat_with_the_same_seed() {
        let row = |seed| {
            let (mut rows, mut plan) = (Vec::new(), Plan { seed, ..plan(1) });
            // In small caches the result soon depends on which buffers share a set.
            for cache in [&mut plan.profile.l1, &mut plan.profile.l2, &mut plan.profile.llc] {
                cache.bytes.value /= 64.0;
            }
            run(&plan, &select(&["base"]).unwrap(), &AtomicBool::new(false), &mut |event| {
                rows.extend(if let Event::Done(row) = event { Some(row) } else { None });
                ControlFlow::Continue(())
            });
            rows.remove(0)
        };
        let first = row(2);
        assert!(first == row(2));
        assert!(first.threads != row(3).threads);
    }

    #[test]
    #[ignore = "slow; run by `cargo xtask test --all`"]
    fn lines_of_the_base_are_shared_and_own_lines_are_not() {
        let rows = rows(2);
        let hits = |name: &str| -> f64 {
            let row = rows.iter().find(|row| row.name == name).unwrap();
            let shared = row.lines.iter().filter(|line| line.name.contains("last_"));
            shared.flat_map(|line| line.hits_modified).sum()
        };
        assert!(hits("base") > 0.1, "{}", hits("base"));
        assert!(hits("a") < hits("base") / 10.0, "{} {}", hits("a"), hits("base"));
    }

    #[test]
    #[ignore = "slow; run by `cargo xtask test --all`"]
    fn no_run_starts_after_an_interruption() {
        let chosen = select(&["base", "a", "d", "a+d"]).unwrap();
        let mut began = 0;
        run(&plan(1), &chosen, &AtomicBool::new(true), &mut |_| {
            began += 1;
            ControlFlow::Continue(())
        });
        assert_eq!(began, 0);
        run(&plan(1), &chosen, &AtomicBool::new(false), &mut |event| {
            began += usize::from(matches!(event, Event::Began(_)));
            ControlFlow::Break(())
        });
        // The experiment running at the break finishes, and at most one more has begun by then.
        assert!((1..=2).contains(&began), "{began}");
    }
}
