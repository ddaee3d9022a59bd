//! `linerate-lab`: invalid input is rejected before anything runs, and stored results are resumed.
#![expect(clippy::unwrap_used, reason = "the helpers of these tests are tests too")]

mod copies;
mod stack;
mod usage;

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

fn lab(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_linerate-lab")).args(words).current_dir(folder).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Standard output as JSON.
fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", stderr(output)))
}

/// Standard output of a successful run.
fn succeeded(folder: &Path, words: &[&str]) -> Output {
    let output = lab(folder, words);
    assert!(output.status.success(), "{words:?}: {}", stderr(&output));
    output
}

fn spawn(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Sends SIGINT and waits for the exit.
fn interrupt(child: Child) -> Output {
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    child.wait_with_output().unwrap()
}

/// Interrupts the child once the condition holds, at the latest after a minute.
fn interrupt_when(child: Child, holds: impl Fn() -> bool) -> Output {
    let timeout = Instant::now() + Duration::from_mins(1);
    while !holds() && Instant::now() < timeout {
        thread::sleep(Duration::from_millis(5));
    }
    interrupt(child)
}

/// Checks for exit code 2 and these words in the error output, without standard output or new files.
/// With one CPU, trials are rejected.
fn needs_two_cpus() {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    assert!(cpus > 1, "SKIPPED: there is one CPU; run on a machine with two CPUs");
}

fn refused(folder: &Path, words: &[&str], said: &[&str]) {
    let files = || fs::read_dir(folder).unwrap().count();
    let before = files();
    let output = lab(folder, words);
    assert_eq!(output.status.code(), Some(2), "{words:?}: {}", stderr(&output));
    for said in said {
        assert!(stderr(&output).contains(said), "{words:?}: {}", stderr(&output));
    }
    assert!(output.stdout.is_empty() && files() == before, "{words:?} left something");
}

#[test]
fn invalid_input_is_refused_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let lone: [&[&str]; 5] = [
        &["run"],
        &["run", "--all", "--cells"],
        &["run", "--config", "base", "--packets", "0"],
        &["run", "--config", "base", "--jobs", "0"],
        &["report"],
    ];
    for words in lone {
        refused(folder.path(), words, &[]);
    }
    let (run, out) = (["run", "--config"], ["--out", "f.json"]);
    let case = |rest: &[&str], said: &[&str]| refused(folder.path(), &[&run, rest, &out].concat(), said);
    case(&["bsae", "a+z", "d"], &["`bsae`", "nearest is `base`", "`a+z`", "remedy"]);
    case(&["base", "--profile", "i9-7940"], &["No such file", "use `i9-7940x`"]);
    case(&["base", "--profile", "none.toml"], &["none.toml", "remedy"]);
    refused(folder.path(), &["run", "--config", "base", "--out", "none/f.json"], &["none/f.json", "remedy"]);
    refused(folder.path(), &["report", "f.json", "--out", "r.html"], &["f.json", "remedy"]);
}

#[test]
fn unsupported_experiments_are_refused_before_anything_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let case = |words: &[&str], said: &[&str]| {
        refused(folder.path(), &[&["run", "--memory", "real", "--config"], words].concat(), said);
    };
    // No program disables the prefetchers of a processor.
    case(&["f"], &["--memory real", "remedy"]);
    case(&["base", "--rounds", "1"], &["1 rounds are too few", "remedy"]);
    case(&["base", "--duration", "0s"], &["expected 1ms to 7 days"]);
    fs::write(folder.path().join("there.json"), "{}").unwrap();
    let there = ["base", "--keep", "there.json"];
    case(&there, &["there.json", "the file already exists", "remedy: add --resume"]);
    let other = [&there[..], &["--resume"]].concat();
    case(&other, &["there.json", "line 1 has no valid `schema`", "remedy"]);
    case(&["base", "--out", "there.txt"], &["--out there.txt", "remedy: name FILE.json"]);
    refused(folder.path(), &["calibrate", "--rounds", "1"], &["1 rounds are too few", "remedy"]);
    refused(folder.path(), &["calibrate", "--profile", "i9-794"], &["No such file", "use `i9-7940x`"]);
    let there = ["calibrate", "--out", "there.json"];
    refused(folder.path(), &there, &["there.json", "remedy: name FILE.toml"]);
}

/// Whether the process has installed a handler of SIGINT.
fn catches_interrupts(child: &std::process::Child) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 0b10 != 0)
}

#[test]
fn a_signal_ends_a_command_without_partial_results_with_exit_code_1() {
    let folder = tempfile::tempdir().unwrap();
    for words in
        [&["copies"][..], &["paths", "--packets", "1000000000"], &["calibrate", "--rounds", "100000"]]
    {
        let mut command = Command::new(env!("CARGO_BIN_EXE_linerate-lab"));
        let mut child = spawn(command.args(words).current_dir(folder.path()));
        while !catches_interrupts(&child) {
            assert!(child.try_wait().unwrap().is_none(), "{words:?} ended");
            thread::sleep(Duration::from_millis(2));
        }
        let output = interrupt(child);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("ended by a signal; there is no result"), "{}", stderr(&output));
    }
}

#[test]
fn invalid_profile_is_rejected_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("bad.toml"), "name = \"bad\"\nfrequency = 3\n").unwrap();
    refused(folder.path(), &["run", "--config", "base", "--profile", "bad.toml"], &["bad.toml", "frequency"]);
}

#[test]
fn a_run_resumes_its_file_and_refuses_another_provenance() {
    let folder = tempfile::tempdir().unwrap();
    let run = |configs: &[&str], rest: &[&str]| {
        let words = [&["run", "--keep", "f.json", "--resume", "--config"], configs, rest].concat();
        lab(folder.path(), &words)
    };
    let first = run(&["base"], &["--packets", "256"]);
    assert!(first.status.success(), "{}", stderr(&first));
    assert!(stdout(&first).contains("simulated: Intel Core i9-7940X"), "{}", stdout(&first));
    let second = run(&["d+a", "base"], &["--packets", "256"]);
    assert!(stderr(&second).contains("1 of 2 experiments are complete already"), "{}", stderr(&second));
    let kept = fs::read_to_string(folder.path().join("f.json")).unwrap();
    let names = ["\"name\":\"base\",\"mpps\"", "\"name\":\"a+d\",\"mpps\""];
    assert!(names.iter().all(|name| kept.contains(name)), "{kept}");
    let other = ["run", "--keep", "f.json", "--resume", "--config", "a", "--packets", "512", "--seed", "9"];
    refused(folder.path(), &other, &["packets 256 there, 512 here", "seed 1 there, 9 here"]);
    assert_eq!(fs::read_to_string(folder.path().join("f.json")).unwrap(), kept);
}

#[test]
#[ignore = "slow; run by `cargo xtask test --all`"]
fn a_signal_leaves_the_finished_experiments() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_linerate-lab"));
    command.args(["run", "--all", "--jobs", "1", "--packets", "20000", "--keep"]).arg(&file);
    let child = spawn(&mut command);
    let rows = || fs::read_to_string(&file).unwrap_or_default().matches("\"mpps\"").count();
    let output = interrupt_when(child, || rows() > 0);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("ended by a signal") && said.contains("the same command with --resume"), "{said}");
    let kept = rows();
    assert!((1..101).contains(&kept), "{kept}");
    let report = lab(folder.path(), &["report", "f.json"]);
    assert!(stdout(&report).contains(&format!("({kept} configurations)")), "{}", stdout(&report));
}

#[test]
#[ignore = "slow; run by `cargo xtask test --all`"]
fn a_trial_stores_its_rounds_on_a_signal_and_resumes() {
    needs_two_cpus();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f.json");
    // A pool of few buffers, to limit memory and time.
    let words = |rounds| {
        ["run", "--memory", "real", "--config", "pool-1024", "--duration", "1ms", "--rounds", rounds]
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_linerate-lab"));
    command.args(words("100000")).arg("--keep").arg(&file);
    let child = spawn(&mut command);
    let rounds = || {
        let text = fs::read_to_string(&file).unwrap_or_default();
        let header = text.lines().next().and_then(|line| serde_json::from_str::<Value>(line).ok());
        header.unwrap_or_default()["provenance"]["trial"]["rounds"].as_array().map_or(0, Vec::len)
    };
    let output = interrupt_when(child, || rounds() >= 2);
    let (said, kept) = (stderr(&output), rounds());
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("after {kept} of 100000 rounds")), "{said}");
    let more = (kept + 2).max(6).to_string();
    let output = succeeded(folder.path(), &[&words(&more)[..], &["--keep", "f.json", "--resume"]].concat());
    assert!(
        stderr(&output).contains(&format!("{kept} of {more} rounds are complete already")),
        "{}",
        stderr(&output)
    );
    assert_eq!(rounds().to_string(), more);
    assert!(stdout(&output).contains("from round 1 on") && stdout(&output).contains("base-again"));
    let other = [&words(&more)[..], &["--keep", "f.json", "--resume", "--seed", "9"]].concat();
    refused(folder.path(), &other, &["seed 1 there, 9 here"]);
}

#[test]
fn list_and_report_are_printed_as_json() {
    let folder = tempfile::tempdir().unwrap();
    let list = json(&lab(folder.path(), &["list", "-o", "json"]));
    assert_eq!(list["cells"].as_array().unwrap().len(), 64);
    assert_eq!(list["combinations"].as_array().unwrap().len(), 30);
    let run = ["run", "--config", "base", "a", "--packets", "256", "--out", "f.json", "-o", "json"];
    let results = json(&lab(folder.path(), &run));
    assert_eq!(results["rows"].as_array().unwrap().len(), 2);
    let findings = json(&lab(folder.path(), &["report", "f.json", "-o", "json"]));
    assert_eq!(findings["sets"][0]["memory"], "simulated");
    assert_eq!(findings["sets"][0]["ratios"][0]["name"], "a");
    assert!(findings["sets"][0]["shapley"].is_null());
}
