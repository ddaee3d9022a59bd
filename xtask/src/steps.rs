//! Runs named steps in order and prints a table of their outcomes.

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

type Action = std::rc::Rc<dyn Fn() -> Result<Outcome>>;

/// A step.
#[derive(Clone)]
pub(crate) struct Step {
    name: &'static str,
    action: Action,
    needed_by_all: bool,
}

impl Step {
    /// A step on which later steps do not depend.
    pub(crate) fn new(name: &'static str, action: impl Fn() -> Result<Outcome> + 'static) -> Step {
        Step { name, action: std::rc::Rc::new(action), needed_by_all: false }
    }

    /// Marks the step as required: if it fails, later steps do not run.
    pub(crate) fn needed(self) -> Step {
        Step { needed_by_all: true, ..self }
    }
}

struct Row {
    name: &'static str,
    seconds: Duration,
    result: Result<Outcome>,
}

/// Steps that may be skipped even with `--strict`: they need tools that Debian does not package.
const MAY_SKIP: [&str; 4] = ["miri", "other architecture", "fuzzing", "dependencies"];

/// Runs every step, prints the table, and returns an error with the names of failed steps. If `strict`, skipped steps
/// except [`MAY_SKIP`] count as failed.
pub(crate) fn run(steps: &[Step], strict: bool) -> Result<()> {
    let mut rows = Vec::new();
    for step in steps {
        println!("\n=== {}", step.name);
        let start = Instant::now();
        let result = (step.action)().and_then(|outcome| match outcome {
            Outcome::Skipped(reason) if strict && !MAY_SKIP.contains(&step.name) => {
                bail!("skipped: {reason}")
            }
            outcome => Ok(outcome),
        });
        report(&result);
        let stop = step.needed_by_all && result.is_err();
        rows.push(Row { name: step.name, seconds: start.elapsed(), result });
        if stop {
            break;
        }
    }
    // Failures are printed last.
    rows.iter().filter_map(Row::failure).for_each(|failure| println!("\n=== {failure}"));
    println!("\n{}", table(&rows, steps.len()));
    let failed: Vec<&str> = rows.iter().filter(|row| row.result.is_err()).map(|row| row.name).collect();
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
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
    use std::cell::Cell;
    use std::rc::Rc;

    #[test]
    fn failure_is_named_and_others_continue() {
        let ran = Rc::new(Cell::new(false));
        let seen = ran.clone();
        let second = move || {
            seen.set(true);
            Ok(Outcome::Passed)
        };
        let error =
            run(&[Step::new("first", || bail!("no")), Step::new("second", second)], false).unwrap_err();
        assert_eq!(error.to_string(), "failed: first");
        assert!(ran.get());
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
