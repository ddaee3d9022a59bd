//! `linerate-lab`: invalid input is rejected before anything runs, and stored results are resumed.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests are tests too")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
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

/// Checks for exit code 2 and these words in the error output, without standard output or new files.
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
    case(&["base", "--profile", "i9-7940"], &["nearest is `i9-7940x`"]);
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
    refused(folder.path(), &["calibrate", "--profile", "i9-794"], &["nearest is `i9-7940x`", "remedy"]);
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
        command.args(words).current_dir(folder.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        while !catches_interrupts(&child) {
            assert!(child.try_wait().unwrap().is_none(), "{words:?} ended");
            thread::sleep(Duration::from_millis(2));
        }
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{words:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("ended by a signal; there is no result"), "{}", stderr(&output));
    }
}

#[test]
fn a_bad_profile_is_refused_with_its_reason() {
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
fn a_signal_leaves_the_finished_experiments() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_linerate-lab"));
    command.args(["run", "--all", "--jobs", "1", "--packets", "20000", "--keep"]).arg(&file);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let timeout = Instant::now() + Duration::from_mins(1);
    let rows = || fs::read_to_string(&file).unwrap_or_default().matches("\"mpps\"").count();
    while rows() == 0 && Instant::now() < timeout {
        thread::sleep(Duration::from_millis(10));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("ended by a signal") && said.contains("the same command with --resume"), "{said}");
    let kept = rows();
    assert!((1..101).contains(&kept), "{kept}");
    let report = lab(folder.path(), &["report", "f.json"]);
    assert!(stdout(&report).contains(&format!("({kept} configurations)")), "{}", stdout(&report));
}

/// Needs two CPUs; with one CPU, trials are rejected, and only that is tested.
#[test]
fn a_trial_stores_its_rounds_on_a_signal_and_resumes() {
    if thread::available_parallelism().map_or(1, usize::from) < 2 {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f.json");
    // A pool of few buffers, to limit memory and time.
    let words = |rounds| {
        ["run", "--memory", "real", "--config", "pool-1024", "--duration", "1ms", "--rounds", rounds]
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_linerate-lab"));
    command.args(words("100000")).arg("--keep").arg(&file);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let timeout = Instant::now() + Duration::from_mins(1);
    let rounds = || {
        let text = fs::read_to_string(&file).unwrap_or_default();
        let header =
            text.lines().next().and_then(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        header.unwrap_or_default()["provenance"]["trial"]["rounds"].as_array().map_or(0, Vec::len)
    };
    while rounds() < 2 && Instant::now() < timeout {
        thread::sleep(Duration::from_millis(10));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let (said, kept) = (stderr(&output), rounds());
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("after {kept} of 100000 rounds")), "{said}");
    let more = (kept + 2).max(6).to_string();
    let output = lab(folder.path(), &[&words(&more)[..], &["--keep", "f.json", "--resume"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
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
fn the_list_and_the_report_are_data_too() {
    let folder = tempfile::tempdir().unwrap();
    let list: serde_json::Value =
        serde_json::from_slice(&lab(folder.path(), &["list", "-o", "json"]).stdout).unwrap();
    assert_eq!(list["cells"].as_array().unwrap().len(), 64);
    assert_eq!(list["combinations"].as_array().unwrap().len(), 30);
    let run = ["run", "--config", "base", "a", "--packets", "256", "--out", "f.json", "-o", "json"];
    let results: serde_json::Value = serde_json::from_slice(&lab(folder.path(), &run).stdout).unwrap();
    assert_eq!(results["rows"].as_array().unwrap().len(), 2);
    let report = lab(folder.path(), &["report", "f.json", "-o", "json"]);
    let findings: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!(findings["sets"][0]["memory"], "simulated");
    assert_eq!(findings["sets"][0]["ratios"][0]["name"], "a");
    assert!(findings["sets"][0]["shapley"].is_null());
}

#[test]
fn copies_are_stored_printed_by_order_and_part_of_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let some = ["--variant", "read-only", "warm-libc", "--size", "64", "256"];
    let words = [&["copies", "--out", "c.json"][..], &some].concat();
    let first = lab(folder.path(), &words);
    assert!(first.status.success(), "{}", stderr(&first));
    for said in ["Simulated: two sockets", "edited > read-only", "both copies", "other node >> same node"] {
        assert!(stdout(&first).contains(said), "{}", stdout(&first));
    }
    let run = ["run", "--config", "base", "--packets", "256", "--out", "f.json"];
    assert!(lab(folder.path(), &run).status.success());
    let report = ["report", "c.json", "f.json", "--out", "r.html", "--out", "figures/", "-o", "json"];
    let findings: serde_json::Value = serde_json::from_slice(&lab(folder.path(), &report).stdout).unwrap();
    assert_eq!(findings["copies"][0]["memory"], "simulated");
    assert_eq!(findings["sets"][0]["memory"], "simulated");
    let page = fs::read_to_string(folder.path().join("r.html")).unwrap();
    assert!(page.contains("id=\"table-orders-2\"") && page.contains("id=\"set-1\""));
    assert!(folder.path().join("figures/2-simulated-copies-from-guest.svg").is_file());
}

#[test]
fn copies_on_real_memory_name_omissions_or_the_reason_of_refusal() {
    let folder = tempfile::tempdir().unwrap();
    let words = ["copies", "--memory", "real", "--size", "64", "--variant", "other-node", "-o", "json"];
    let short = [&words[..], &["--rounds", "6", "--batches", "4"]].concat();
    let output = lab(folder.path(), &short);
    // A machine with one CPU rejects it.
    if output.status.code() == Some(2) {
        assert!(stderr(&output).contains("two or more"), "{}", stderr(&output));
        return;
    }
    let results: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(results["memory"], "real");
    assert_eq!(results["orders"].as_array().unwrap().len(), 24);
    let notes = results["notes"].to_string();
    assert!(notes.contains("other-node is left out"), "{notes}");
}

#[test]
fn invalid_copies_are_refused_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let case = |words: &[&str], said: &[&str]| refused(folder.path(), &[&["copies"], words].concat(), said);
    case(&["--variant", "warm-lib"], &["nearest is `warm-libc`", "remedy"]);
    case(&["--profile", "two-socket"], &["nearest is `two-sockets`", "remedy"]);
    case(&["--size", "63"], &["63"]);
    case(&["--memory", "counted"], &["counted"]);
    case(&["--memory", "real", "--rounds", "2"], &["2 rounds are too few", "remedy"]);
    fs::write(folder.path().join("bad.json"), "{\"study\": \"copies\"}").unwrap();
    refused(folder.path(), &["report", "bad.json"], &["bad.json", "remedy"]);
}

#[test]
fn invalid_paths_are_refused_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    refused(folder.path(), &["paths", "--profile", "i9-7940"], &["nearest is `i9-7940x`"]);
    refused(folder.path(), &["paths", "--out", "none/f.json"], &["none/f.json", "remedy"]);
    fs::write(folder.path().join("other.json"), "{}").unwrap();
    refused(folder.path(), &["paths", "--measured", "other.json"], &["other.json", "bench peers", "remedy"]);
}

#[test]
fn paths_are_a_table_data_and_a_part_of_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let words = ["paths", "--packets", "256", "--out", "p.json", "-o", "json"];
    let output = lab(folder.path(), &words);
    assert!(output.status.success(), "{}", stderr(&output));
    let results: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(results["paths"].as_array().unwrap().len(), 4);
    assert_eq!(results["paths"][0]["ring"], "split");
    assert!(results["paths"][0]["linerate"]["lines_moved"].as_f64().unwrap() > 1.0);
    assert_eq!(results["measured"]["ratio"][0]["median"], 0.93);
    let report = lab(folder.path(), &["report", "p.json", "--out", "r.html"]);
    assert!(report.status.success(), "{}", stderr(&report));
    assert!(stdout(&report).contains("split 64"), "{}", stdout(&report));
    let page = fs::read_to_string(folder.path().join("r.html")).unwrap();
    for part in ["id=\"table-paths\"", "id=\"figure-paths-1-simulated-packed-64\"", "Measured: AMD EPYC"] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
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
    let output = lab(folder.path(), &["usage", "--only", "burst-mismatch", "-o", "json", "--out", "f.json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let printed: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
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
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let timeout = Instant::now() + Duration::from_mins(1);
    while calls(folder) < readings && Instant::now() < timeout {
        thread::sleep(Duration::from_millis(5));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    child.wait_with_output().unwrap()
}

fn calls(folder: &Path) -> usize {
    let budgets = records(&folder.join("u.json"), "budget");
    budgets.first().and_then(|budget| budget["calls"].as_array()).map_or(0, Vec::len)
}

/// The records of a usage file with this name.
fn records(file: &Path, name: &str) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    lines.filter_map(|line| line.get(name).cloned()).collect()
}

#[test]
fn interrupted_usage_studies_are_printed_and_resumed() {
    // A machine with one CPU rejects them.
    if thread::available_parallelism().map_or(1, usize::from) < 2 {
        return;
    }
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
    let output = lab(folder.path(), &[&go_on[..], &["-o", "json"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let printed: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
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
    let output = lab(folder.path(), &words);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("Mismatched transfer units (144/32) (measured)"), "{}", stdout(&output));
    let read = |file: &str| fs::read_to_string(folder.path().join(file)).unwrap();
    assert!(
        read("u.html").contains("id=\"table-where\"")
            && read("u.html").contains("id=\"figure-measured-burst-mismatch\"")
    );
    assert!(read("a/figures/measured-burst-mismatch.svg").contains("<svg "));
    let run = ["run", "--config", "base", "--packets", "256", "--out", "f.json"];
    assert!(lab(folder.path(), &run).status.success());
    let report = ["report", "u.json", "f.json", "--out", "r.html", "-o", "json"];
    let findings: serde_json::Value = serde_json::from_slice(&lab(folder.path(), &report).stdout).unwrap();
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
