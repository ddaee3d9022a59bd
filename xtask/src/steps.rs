//! Runs named steps in order and prints a table of their outcomes.

use std::sync::Arc;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Outcome of a step that did not fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The step passed.
    Passed,
    /// The step was skipped; the text has the reason and the remedy.
    Skipped(String),
}

type Action = Arc<dyn Fn() -> Result<Outcome> + Send + Sync>;

/// A step.
#[derive(Clone)]
pub(crate) struct Step {
    name: &'static str,
    action: Action,
    needed_by_all: bool,
    beside: Vec<Step>,
    /// Steps that run meanwhile and end before the next step begins.
    meanwhile: Vec<Step>,
}

impl Step {
    /// A step on which later steps do not depend.
    pub(crate) fn new(
        name: &'static str,
        action: impl Fn() -> Result<Outcome> + Send + Sync + 'static,
    ) -> Step {
        let (beside, meanwhile) = (Vec::new(), Vec::new());
        Step { name, action: Arc::new(action), needed_by_all: false, beside, meanwhile }
    }

    /// Marks the step as required: if it fails, later steps do not run.
    pub(crate) fn needed(self) -> Step {
        Step { needed_by_all: true, ..self }
    }

    /// Runs `steps` one after the other beside this one and all later ones, which wait at times, at the lowest
    /// priority.
    pub(crate) fn beside(self, steps: Vec<Step>) -> Step {
        Step { beside: steps, ..self }
    }

    /// Runs `steps` one after the other while this one runs. The next step begins after all of them.
    pub(crate) fn meanwhile(self, steps: Vec<Step>) -> Step {
        Step { meanwhile: steps, ..self }
    }

    fn run_beside(&self, strict: bool) -> Vec<Row> {
        if !self.beside.is_empty() {
            lower_priority();
        }
        run_each(&self.beside, strict)
    }

    fn run(&self, strict: bool) -> Row {
        println!("\n=== {}", self.name);
        let start = Instant::now();
        let result = (self.action)().and_then(|outcome| match outcome {
            Outcome::Skipped(reason) if strict && !MAY_SKIP.contains(&self.name) => {
                bail!("skipped: {reason}")
            }
            outcome => Ok(outcome),
        });
        report(&result);
        Row { name: self.name, seconds: start.elapsed(), result }
    }
}

/// Lowers the priority of this thread and of the programs that it starts.
fn lower_priority() {
    // Without it they run at the usual priority.
    let _ = rustix::process::nice(19);
}

struct Row {
    name: &'static str,
    seconds: Duration,
    result: Result<Outcome>,
}

/// Steps that may be skipped even with `--strict`: they need tools that Debian does not package.
const MAY_SKIP: [&str; 7] =
    ["miri", "other architecture", "fuzzing", "dependencies", "book", "image", "distributions"];

/// Runs every step, prints the table, and returns an error with the names of failed steps. If `strict`, skipped steps
/// except [`MAY_SKIP`] count as failed.
pub(crate) fn run(steps: &[Step], strict: bool) -> Result<()> {
    let rows = run_all(steps, strict);
    // Failures are printed last.
    rows.iter().filter_map(Row::failure).for_each(|failure| println!("\n=== {failure}"));
    let planned = steps.iter().map(|step| 1 + step.meanwhile.len() + step.beside.len()).sum();
    println!("\n{}", table(&rows, planned));
    let failed: Vec<&str> = rows.iter().filter(|row| row.result.is_err()).map(|row| row.name).collect();
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

fn run_all(steps: &[Step], strict: bool) -> Vec<Row> {
    thread::scope(|scope| {
        let (mut rows, mut others) = (Vec::new(), Vec::new());
        for step in steps {
            others.push(scope.spawn(|| step.run_beside(strict)));
            let meanwhile = scope.spawn(|| run_each(&step.meanwhile, strict));
            let row = step.run(strict);
            let ends = step.needed_by_all && row.result.is_err();
            rows.extend(join(meanwhile));
            rows.push(row);
            if ends {
                break;
            }
        }
        rows.extend(others.into_iter().flat_map(join));
        rows
    })
}

fn run_each(steps: &[Step], strict: bool) -> Vec<Row> {
    steps.iter().map(|step| step.run(strict)).collect()
}

fn join(rows: ScopedJoinHandle<'_, Vec<Row>>) -> Vec<Row> {
    rows.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn report(result: &Result<Outcome>) {
    match result {
        Ok(Outcome::Passed) => {}
        Ok(Outcome::Skipped(reason)) => println!("skipped: {reason}"),
        Err(error) => eprintln!("failed: {error:#}"),
    }
}

fn table(rows: &[Row], planned: usize) -> String {
    let mut lines = vec![format!("{:<24} {:>8}  result", "step", "seconds")];
    lines.extend(rows.iter().map(Row::line));
    if rows.len() < planned {
        let left = planned - rows.len();
        lines.push(format!("{left} later steps did not run: they need the one that failed"));
    }
    lines.join("\n")
}

fn first_line(error: &anyhow::Error) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

impl Row {
    /// Complete error text of a failure.
    fn failure(&self) -> Option<String> {
        self.result.as_ref().err().map(|error| format!("{} failed: {error:#}", self.name))
    }

    fn line(&self) -> String {
        let result = match &self.result {
            Ok(Outcome::Passed) => "passed".to_owned(),
            Ok(Outcome::Skipped(reason)) => format!("skipped: {reason}"),
            Err(error) => format!("FAILED: {}", first_line(error)),
        };
        format!("{:<24} {:>8.1}  {result}", self.name, self.seconds.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    #[test]
    fn failure_is_named_and_others_continue() {
        let (ran, second) = counted("second");
        let error = run(&[Step::new("first", || bail!("no")), second], false).unwrap_err();
        assert_eq!(error.to_string(), "failed: first");
        assert_eq!(ran.load(SeqCst), 1);
    }

    /// A step that passes, and how often it has run.
    fn counted(name: &'static str) -> (Arc<AtomicUsize>, Step) {
        let ran = Arc::<AtomicUsize>::default();
        let seen = ran.clone();
        let step = Step::new(name, move || {
            seen.fetch_add(1, SeqCst);
            Ok(Outcome::Passed)
        });
        (ran, step)
    }

    #[test]
    fn steps_beside_another_one_have_their_own_results() {
        let (ran, third) = counted("third");
        let other = Step::new("second", || bail!("no"));
        let first = Step::new("first", || Ok(Outcome::Passed)).beside(vec![other, third]);
        assert_eq!(run(&[first], false).unwrap_err().to_string(), "failed: second");
        assert_eq!(ran.load(SeqCst), 1);
    }

    #[test]
    fn the_next_step_begins_after_those_that_run_meanwhile() {
        let (ended, slow) = (Arc::<AtomicUsize>::default(), Duration::from_millis(20));
        let (at_end, at_start) = (ended.clone(), ended);
        let meanwhile = Step::new("meanwhile", move || {
            thread::sleep(slow);
            at_end.store(1, SeqCst);
            Ok(Outcome::Passed)
        });
        let first = Step::new("first", || Ok(Outcome::Passed)).meanwhile(vec![meanwhile]);
        let next = Step::new("next", move || {
            assert_eq!(at_start.load(SeqCst), 1);
            Ok(Outcome::Passed)
        });
        run(&[first, next], false).unwrap();
    }

    #[test]
    fn failed_required_step_skips_later_steps() {
        let first = Step::new("first", || bail!("no")).needed();
        let error = run(&[first, Step::new("second", || panic!("must not run"))], false).unwrap_err();
        assert_eq!(error.to_string(), "failed: first");
    }

    #[test]
    fn skipped_step_is_no_failure_and_has_a_reason() {
        let skipped = || Ok(Outcome::Skipped("no tool".to_owned()));
        assert!(run(&[Step::new("only", skipped)], false).is_ok());
        assert_eq!(run(&[Step::new("only", skipped)], true).unwrap_err().to_string(), "failed: only");
        assert!(run(&[Step::new("miri", skipped)], true).is_ok());
        let row = Row { name: "only", seconds: Duration::ZERO, result: skipped() };
        assert!(table(&[row], 1).contains("skipped: no tool"));
    }
}
