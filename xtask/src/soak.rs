//! `cargo xtask soak`, and the last step of `cargo xtask test --all`: the end-to-end test `soak`, with its progress and
//! its report.

use std::io::{BufRead, BufReader};
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use crate::steps::Outcome;
use crate::{command, suite};

/// Name of the test.
pub(crate) const TEST: &str = "soak::every::";
/// Valid durations in minutes.
pub(crate) const MINUTES: RangeInclusive<u64> = 1..=7 * 24 * 60;
/// Minutes after which a soak that does not end is terminated.
const OVERTIME: u64 = 10;
const NEEDS_ROOT: &str = "TAP interfaces and namespaces need root: run this as root";

/// Length and output of a soak.
#[derive(Args, Debug)]
pub(crate) struct SoakArguments {
    /// Duration in minutes
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(MINUTES))]
    minutes: u64,
    /// Seed of the actions, which a report names [default: a random one]
    #[arg(long)]
    seed: Option<u64>,
    /// Output format of the report
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// Output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Aligned text
    #[default]
    Table,
    /// JSON
    Json,
}

/// Builds everything and runs the test.
pub(crate) fn run(arguments: &SoakArguments) -> Result<()> {
    if !command::is_root() {
        bail!("{NEEDS_ROOT}");
    }
    suite::build(true, false)?;
    let program = suite::end_to_end_program(false, true)?;
    let report = report(&program, arguments.minutes, arguments.seed)?;
    println!("{}", shown(&report, arguments.output)?);
    Ok(())
}

/// Runs the test of the program with the end-to-end tests.
pub(crate) fn step(program: &Path, minutes: u64) -> Result<Outcome> {
    if !command::is_root() {
        return Ok(Outcome::Skipped(NEEDS_ROOT.to_owned()));
    }
    println!("{}", shown(&report(program, minutes, None)?, Output::Table)?);
    Ok(Outcome::Passed)
}

fn report(program: &Path, minutes: u64, seed: Option<u64>) -> Result<Value> {
    let mut soak = suite::end_to_end(program, TEST, true);
    soak.arg("--nocapture").env("LINERATE_SOAK_MINUTES", minutes.to_string());
    soak.envs(seed.map(|seed| ("LINERATE_SOAK_SEED", seed.to_string())));
    watched(&mut command::limited(&soak, Duration::from_mins(minutes + OVERTIME)), minutes)
}

/// Runs the test with a progress bar. Returns its report.
fn watched(soak: &mut Command, minutes: u64) -> Result<Value> {
    let line = command::announced(soak);
    let mut child = soak.stdout(Stdio::piped()).spawn().with_context(|| format!("cannot run `{line}`"))?;
    let bar = ProgressBar::new(60 * minutes);
    bar.set_style(ProgressStyle::with_template("{bar:30} {pos}/{len} s {msg}")?);
    let (mut report, mut seed) = (None, Value::Null);
    for text in BufReader::new(child.stdout.take().context("no output")?).lines() {
        let Ok(event) = serde_json::from_str::<Value>(&text?) else { continue };
        bar.set_position(event["at"].as_u64().unwrap_or_else(|| bar.position()));
        match event["soak"].as_str() {
            Some("begin") => {
                seed = event["seed"].clone();
                bar.suspend(|| eprintln!("seed {seed}"));
            }
            Some("end") => report = Some(event["report"].clone()),
            action => bar.set_message(action.unwrap_or_default().to_owned()),
        }
    }
    bar.finish_and_clear();
    let status = child.wait()?;
    match report.filter(|_| status.success()) {
        Some(report) => Ok(report),
        None => bail!("the soak failed with {status}: see above; `--seed {seed}` repeats its actions"),
    }
}

/// The report as text: a line for each value.
fn shown(report: &Value, output: Output) -> Result<String> {
    if output == Output::Json {
        return Ok(serde_json::to_string_pretty(report)?);
    }
    let mut lines = Vec::new();
    list("", report, &mut lines);
    Ok(lines.join("\n"))
}

fn list(name: &str, value: &Value, lines: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            let place = |key: &String| if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
            map.iter().for_each(|(key, value)| list(&place(key), value, lines));
        }
        value => lines.push(format!("{name:40} {}", value.to_string().trim_matches('"'))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_report_is_a_line_for_each_value_or_json() {
        let report = json!({ "seed": 7, "echo": { "result": "0% packet loss" } });
        let text = shown(&report, Output::Table).unwrap();
        let words: Vec<_> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(words, ["echo.result 0% packet loss", "seed 7"]);
        let json = shown(&report, Output::Json).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), report);
    }

    #[test]
    fn a_soak_without_a_report_is_an_error_with_its_seed() {
        let line = r#"{"soak":"begin","seed":7}"#;
        let error = watched(Command::new("echo").arg(line), 1).unwrap_err().to_string();
        assert!(error.contains("--seed 7"), "{error}");
        let end = r#"{"soak":"end","report":{"seed":7}}"#;
        assert_eq!(watched(Command::new("echo").arg(end), 1).unwrap(), json!({ "seed": 7 }));
    }
}
