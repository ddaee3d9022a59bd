//! Programs with ordinary tests, one on each CPU at a time. `cargo test` runs one after the other, and many tests wait
//! or use one thread.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use anyhow::{Result, bail};

use crate::command;
use crate::steps::Outcome;

/// A program with tests, and the folder of its package, in which cargo runs it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) target: String,
    pub(crate) path: PathBuf,
    folder: PathBuf,
}

/// Programs that `cargo test --no-run --message-format=json` names.
pub(crate) fn named(messages: &str) -> Vec<Program> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let tests = messages.filter(|message| message["profile"]["test"] == true);
    let program = |message: serde_json::Value| {
        let path = PathBuf::from(message["executable"].as_str()?);
        let folder = PathBuf::from(message["manifest_path"].as_str()?).parent()?.to_owned();
        Some(Program { target: message["target"]["name"].as_str()?.to_owned(), path, folder })
    };
    tests.filter_map(program).collect()
}

/// Runs all programs with these arguments and this environment variable, also after a failure. Each has `limit`, and
/// its output is printed when it has ended.
pub(crate) fn run(
    programs: Vec<Program>,
    words: &[&str],
    variable: (&str, &str),
    limit: Duration,
) -> Result<Outcome> {
    let waiting = Mutex::new(VecDeque::from(programs));
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let run_all = || {
        let run_one = |program: Program| {
            let mut command = Command::new(&program.path);
            command.current_dir(&program.folder).env("CARGO_MANIFEST_DIR", &program.folder);
            command::run_tests_held(command.args(words).env(variable.0, variable.1), limit)
        };
        std::iter::from_fn(next).map(run_one).collect::<Vec<_>>()
    };
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let outcomes = thread::scope(|scope| {
        let threads: Vec<_> = (0..cpus).map(|_| scope.spawn(run_all)).collect();
        let join = |thread: ScopedJoinHandle<'_, Vec<_>>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().flat_map(join).collect()
    });
    all(outcomes)
}

/// The outcome of all together.
fn all(outcomes: Vec<Result<Outcome>>) -> Result<Outcome> {
    let (mut failed, mut skipped) = (Vec::new(), Vec::new());
    for outcome in outcomes {
        match outcome {
            Ok(Outcome::Passed) => {}
            Ok(Outcome::Skipped(reason)) => skipped.push(reason),
            Err(error) => failed.push(format!("{error:#}")),
        }
    }
    if !failed.is_empty() {
        bail!(failed.join("\n"));
    }
    Ok(if skipped.is_empty() { Outcome::Passed } else { Outcome::Skipped(skipped.join("\n")) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_with_tests_are_those_that_cargo_names() {
        let message = |is_test: bool, name: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/a/Cargo.toml","target":{{"name":"{name}"}},"profile":{{"test":{is_test}}},"executable":"/w/target/{name}-1"}}"#
            )
        };
        let library = r#"{"reason":"compiler-artifact","profile":{"test":true},"executable":null}"#;
        let text = format!("{}\n{}\n{library}\nno JSON\n", message(true, "a"), message(false, "b"));
        let expected = Program { target: "a".into(), path: "/w/target/a-1".into(), folder: "/w/a".into() };
        assert_eq!(named(&text), [expected]);
    }

    #[test]
    fn a_failed_program_fails_all_and_leaves_the_others_running() {
        let program = |path: &str| Program { target: String::new(), path: path.into(), folder: "/".into() };
        let limit = Duration::from_mins(1);
        let run =
            |paths: &[&str]| run(paths.iter().map(|path| program(path)).collect(), &[], ("A", "b"), limit);
        assert_eq!(run(&["true", "true"]).unwrap(), Outcome::Passed);
        let error = run(&["false", "true", "linerate-none"]).unwrap_err().to_string();
        assert!(error.contains("false` ended with") && error.contains("linerate-none"), "{error}");
    }

    #[test]
    fn skipped_tests_of_all_programs_are_named() {
        let skipped = |reason: &str| Ok(Outcome::Skipped(reason.to_owned()));
        let outcome = all(vec![skipped("one"), Ok(Outcome::Passed), skipped("two")]).unwrap();
        assert_eq!(outcome, Outcome::Skipped("one\ntwo".to_owned()));
    }
}
