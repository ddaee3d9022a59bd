//! `lab usage`.

use super::{interrupt_when, json, lab, refused, spawn, stderr, stdout, succeeded};
use crate::needs_two_cpus;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

#[test]
#[ignore = "slow; run by `cargo xtask test --all`"]
fn invalid_usage_studies_are_rejected_and_mismatched_units_lose_112_of_144() {
    let folder = tempfile::tempdir().unwrap();
    let out = ["--out", "f.json"];
    let case = |rest: &[&str], said: &[&str]| {
        refused(folder.path(), &[&["usage"][..], rest, &out].concat(), said);
    };
    case(&["--only", "batchnig"], &["--only batchnig", "batching, burst-mismatch, placement, scaling"]);
    case(&["--cpus", "0"], &["--cpus", "give two"]);
    case(&["--cpus", "1,1"], &["--cpus", "two different ones"]);
    case(&["--cpus", "0,1023", "--only", "budget"], &["--cpus", "1023"]);
    let output =
        succeeded(folder.path(), &["usage", "--only", "burst-mismatch", "-o", "json", "--out", "f.json"]);
    let printed = json(&output);
    assert_eq!(
        printed["burst_mismatch"].as_array().unwrap(),
        &records(&folder.path().join("f.json"), "burst-mismatch")
    );
    let stages = printed["burst_mismatch"].as_array().unwrap();
    let count = |n: usize, key: &str| stages[n][key].as_u64().unwrap();
    assert_eq!(count(0, "lost") * 144, count(0, "taken") * 112);
    assert!((1..4).all(|n| count(n, "lost") == 0 && count(n, "came") == count(n, "taken")), "{printed}");
}

/// Runs `lab usage`, long enough to be interrupted, and interrupts it once it has stored this number of readings.
fn usage_until(folder: &Path, readings: usize) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linerate-lab"));
    command.args(["usage", "--only", "budget", "--duration", "30ms", "--keep", "u.json"]).current_dir(folder);
    let child = spawn(&mut command);
    interrupt_when(child, || calls(folder) >= readings)
}

fn calls(folder: &Path) -> usize {
    let budgets = records(&folder.join("u.json"), "budget");
    budgets.first().and_then(|budget| budget["calls"].as_array()).map_or(0, Vec::len)
}

/// The records of a usage file with this name.
fn records(file: &Path, name: &str) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter_map(|line| line.get(name).cloned()).collect()
}

#[test]
#[ignore = "slow; run by `cargo xtask test --all`"]
fn interrupted_usage_studies_are_printed_and_resumed() {
    needs_two_cpus();
    let folder = tempfile::tempdir().unwrap();
    let output = usage_until(folder.path(), 2);
    let (said, kept) = (stderr(&output), calls(folder.path()));
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("ended by a signal") && said.contains("the same command with --resume"), "{said}");
    assert!(stdout(&output).contains("ended before its last reading"), "{}", stdout(&output));
    assert!((2..=7).contains(&kept), "{kept}");
    let go_on = ["usage", "--only", "budget", "--duration", "30ms", "--keep", "u.json", "--resume"];
    let before = fs::read(folder.path().join("u.json")).unwrap();
    let cpus = [&go_on[..], &["--cpus", "1,0"]].concat();
    refused(
        folder.path(),
        &cpus,
        &["u.json", "on CPU 0 with CPU 1 there, ", "on CPU 1 with CPU 0 here", "remedy"],
    );
    let slice = ["usage", "--only", "budget", "--duration", "40ms", "--keep", "u.json", "--resume"];
    refused(folder.path(), &slice, &["readings of 30 ms there, 40 ms here"]);
    assert_eq!(fs::read(folder.path().join("u.json")).unwrap(), before);
    let first = records(&folder.path().join("u.json"), "budget")[0]["calls"][0].clone();
    let output = succeeded(folder.path(), &[&go_on[..], &["-o", "json"]].concat());
    let printed = json(&output);
    assert_eq!(printed["budget"]["calls"][0], first);
    let again = lab(folder.path(), &go_on);
    assert!(stderr(&again).contains("1 of 1 studies are complete already"), "{}", stderr(&again));
    assert!(!stdout(&again).contains("ended before its last reading"));
}

#[test]
fn usage_studies_are_a_page_figures_and_a_part_of_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let mismatch = ["usage", "--only", "burst-mismatch", "--out", "u.json"];
    let case = |rest: &[&str], said: &[&str]| refused(folder.path(), &[&mismatch[..], rest].concat(), said);
    case(&["--out", "none/u.html"], &["--out none/u.html", "remedy"]);
    fs::write(folder.path().join("file"), "mine").unwrap();
    case(&["--out", "file/figures/"], &["--out file/figures/", "remedy"]);
    case(&["--out", "file"], &["--out file", "remedy: name FILE.json or FILE.html or DIR/"]);
    let words = [&mismatch[..], &["--out", "u.html", "--out", "a/figures/"]].concat();
    let output = succeeded(folder.path(), &words);
    assert!(stdout(&output).contains("Mismatched transfer units (144/32) (measured)"), "{}", stdout(&output));
    let read = |file: &str| fs::read_to_string(folder.path().join(file)).unwrap();
    assert!(
        read("u.html").contains("id=\"table-where\"")
            && read("u.html").contains("id=\"figure-measured-burst-mismatch\"")
    );
    assert!(read("a/figures/measured-burst-mismatch.svg").contains("<svg "));
    let run = ["run", "--config", "base", "--packets", "256", "--out", "f.json"];
    succeeded(folder.path(), &run);
    let report = ["report", "u.json", "f.json", "--out", "r.html", "-o", "json"];
    let findings = json(&lab(folder.path(), &report));
    assert_eq!(findings["sets"][0]["memory"], "simulated");
    assert_eq!(findings["usage"][0]["burst_mismatch"][0]["unit"], 144);
    assert!(
        read("r.html").contains("id=\"figure-2-measured-burst-mismatch\"")
            && read("r.html").contains("id=\"set-1\"")
    );
    let hostile = read("u.json").replacen("\"processor\":\"", "\"processor\":\"\\u001b[2J<b>", 2);
    fs::write(folder.path().join("h.json"), hostile).unwrap();
    let output = lab(folder.path(), &["report", "h.json", "--out", "h.html"]);
    assert!(stdout(&output).contains("[2J<b>") && !stdout(&output).contains('\u{1b}'), "{}", stdout(&output));
    assert!(!read("h.html").contains("<b>"));
}
