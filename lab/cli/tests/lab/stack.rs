//! `lab stack`.

use super::{interrupt_when, json, lab, refused, spawn, stderr, stdout, succeeded};
use std::fs;
use std::process::Command;

/// Few requests of studies on one CPU.
const SMALL: [&str; 10] = [
    "stack",
    "--only",
    "calls,checksum",
    "--cpus",
    "0,0",
    "--requests",
    "100",
    "--keep",
    "s.json",
    "--rounds",
];

#[test]
fn invalid_stack_studies_are_refused_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let case = |words: &[&str], said: &[&str]| refused(folder.path(), &[&["stack"], words].concat(), said);
    case(&["--only", "call"], &["--only call", "calls, accept, skew"]);
    case(&["--cpus", "0"], &["--cpus", "give two"]);
    case(&["--cpus", "0,1023", "--only", "calls"], &["--cpus", "may not use CPU 1023"]);
    case(&["--cpus", "0,0", "--only", "threads"], &["--cpus", "study threads needs two CPUs", "--only"]);
    case(&["--requests", "1"], &["--requests"]);
    case(&["--only", "calls", "--out", "none/s.html"], &["--out none/s.html", "remedy"]);
}

#[test]
#[ignore = "slow; run by `cargo xtask test --all`"]
fn stack_studies_are_stored_resumed_with_more_rounds_and_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let more = ["1", "--out", "s.html", "--out", "figures/", "-o", "json"];
    let results = json(&succeeded(folder.path(), &[&SMALL[..], &more].concat()));
    let readings = results["readings"].as_array().unwrap();
    assert_eq!(readings.len(), 2 * 4 + 2 * 4);
    let ring = readings.iter().find(|reading| reading["variant"] == "io_uring").unwrap();
    assert!(ring["more"][0].as_f64() < Some(1.0) && ring["value"].as_f64() > Some(0.0), "{ring}");
    let read = |file: &str| fs::read_to_string(folder.path().join(file)).unwrap();
    assert!(
        read("s.html").contains("id=\"figure-measured-stack-calls\"")
            && read("s.html").contains("FlexSC (2010)")
    );
    assert!(read("figures/measured-stack-checksum.svg").contains("<svg "));
    let resumed = succeeded(folder.path(), &[&SMALL[..], &["2", "--resume"]].concat());
    assert!(stderr(&resumed).contains("16 of 32 readings are complete already"), "{}", stderr(&resumed));
    assert!(stdout(&resumed).contains("Published by the authors of other systems"), "{}", stdout(&resumed));
    let other =
        ["stack", "--only", "calls", "--cpus", "0,0", "--requests", "200", "--keep", "s.json", "--resume"];
    refused(folder.path(), &other, &["100 requests a reading there, 200 here"]);
    let report = succeeded(folder.path(), &["report", "s.json", "--out", "r.html", "-o", "json"]);
    assert_eq!(json(&report)["stack"][0]["readings"].as_array().unwrap().len(), 32);
    assert!(read("r.html").contains("id=\"figure-1-measured-stack-calls\""));
}

#[test]
fn an_interrupted_stack_study_keeps_its_readings() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_linerate-lab"));
    command.args(SMALL).arg("1000").current_dir(folder.path());
    let kept = || {
        let text = fs::read_to_string(folder.path().join("s.json")).unwrap_or_default();
        text.matches("\"variant\"").count()
    };
    let output = interrupt_when(spawn(&mut command), || kept() > 0);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("ended by a signal"), "{}", stderr(&output));
    let report = lab(folder.path(), &["report", "s.json"]);
    assert!(stdout(&report).contains("System calls per request"), "{}", stdout(&report));
}
