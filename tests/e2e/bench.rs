//! The benchmark from the user's side: linerate's own switch and an external one; runs that are interrupted, killed,
//! resumed and compared.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use linerate_tests::process::Process;
use linerate_tests::switch::{Port, Switch, assert_sums_agree};
use linerate_tests::{binary, folder, scope, wait};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_mins(2);
/// Short trials of one size, whose figures have no significance.
const SHORT: [&str; 12] = [
    "--sizes",
    "64",
    "--duration",
    "50ms",
    "--tries",
    "1",
    "--precision",
    "20%",
    "--loads",
    "50",
    "--timeout",
    "10s",
];

/// The guest has no thread of its own.
const INLINE: &str = "guest = \"inline\"\n";

fn bench(folder: &Path, words: &[&str]) -> Output {
    let output = Command::new(binary::linerate())
        .arg("bench")
        .args(words)
        .current_dir(folder)
        .env("TMPDIR", folder)
        .output();
    output.unwrap_or_else(|error| panic!("cannot run linerate: {error}"))
}

/// Checks the exit code; returns standard output and standard error.
fn ended(output: &Output, code: i32) -> (String, String) {
    let [said, told] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert_eq!(output.status.code(), Some(code), "{said}\n{told}");
    (said, told)
}

fn results(output: &Output, code: i32) -> Value {
    let (said, told) = ended(output, code);
    serde_json::from_str(&said).unwrap_or_else(|error| panic!("no JSON: {error}: {said}\n{told}"))
}

/// Lines of the file of trials: one per trial, and a header.
fn lines(path: &Path) -> usize {
    fs::read_to_string(path).unwrap_or_default().lines().count()
}

/// Starts a benchmark and returns it, still running, once it has stored more than `trials` trials.
fn until_kept(folder: &Path, words: &[&str], kept: &Path, trials: usize) -> Process {
    let temporary = format!("TMPDIR={}", folder.display());
    let program = binary::linerate().display().to_string();
    let words = [&[temporary.as_str(), &program, "bench"], words].concat();
    let mut process = Process::spawn(folder, "bench", "env", &words);
    let enough = wait::until(TIMEOUT, || (process.ended().is_some() || lines(kept) > trials).then_some(()));
    assert!(enough.is_some() && process.ended().is_none(), "it ended or hung: {}", process.output());
    process
}

/// Returns the processes whose command line contains this text.
fn processes(text: &str) -> Vec<i32> {
    let of = |entry: fs::DirEntry| -> Option<i32> {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        String::from_utf8_lossy(&line).replace('\0', " ").contains(text).then_some(pid)
    };
    fs::read_dir("/proc").map(|entries| entries.flatten().filter_map(of).collect()).unwrap_or_default()
}

/// Creates a script that makes another linerate the switch behind the generator's sockets.
fn other_switch(folder: &Path) -> (PathBuf, String) {
    let script = folder.join("other.sh");
    let text = "set -e\ncd \"$(dirname \"$0\")\"\ncat > other.toml <<END\n[[bridge]]\nname = \"x\"\n[[port]]\nname = \"a\"\nsocket = \"$1\"\n\
        mode = \"client\"\n[[port]]\nname = \"b\"\nsocket = \"$2\"\nmode = \"client\"\nEND\n\
        exec \"$3\" --control \"$4\" run other.toml\n";
    fs::write(&script, text).unwrap_or_else(|error| panic!("cannot write: {error}"));
    let control = folder.join("other.ctl");
    let command =
        format!("sh {} {{a}} {{b}} {} {}", script.display(), binary::linerate().display(), control.display());
    (control, command)
}

#[test]
#[ignore = "needs two CPUs: run by `cargo xtask test`"]
fn our_own_switch_is_measured_in_every_topology_and_sums_agree() {
    let folder = folder();
    let topologies =
        [("vm-vm", ""), ("phy-vm-phy", ""), ("phy-vm-phy", INLINE), ("loop", ""), ("loop", INLINE)];
    for &(topology, guest) in scope::last(&topologies) {
        let page = folder.path().join("page.html");
        let file = format!("topology = \"{topology}\"\n{guest}flows = 7\n[stream]\nvlan = [7]\n");
        fs::write(folder.path().join("bench.toml"), file).expect("it can be written");
        let more = ["bench.toml", "-o", "json", "--out", "page.html"];
        let found = results(&bench(folder.path(), &[&SHORT[..], &more].concat()), 0);
        assert_eq!(found["whole"], true, "{found}");
        assert_eq!(found["setup"]["topology"], topology);
        assert_eq!(
            (&found["setup"]["stream"]["flows"], &found["setup"]["stream"]["vlan"][0]),
            (&7.into(), &7.into())
        );
        let round = &found["sizes"][0]["rounds"][0];
        assert!(round["ndr"]["pps"].as_f64().is_some_and(|pps| pps > 0.0), "{topology}: {round}");
        assert!(round["pdr"]["pps"].as_f64() >= round["ndr"]["pps"].as_f64(), "{topology}: {round}");
        let latency = &round["latency"][0];
        let count = latency["latency_ns"]["count"].as_u64().unwrap_or(0);
        let counted = latency["histogram"]
            .as_array()
            .map_or(0, |rows| rows.iter().filter_map(|row| row[1].as_u64()).sum());
        assert!(count > 0 && count == counted, "{topology}: {latency}");
        assert!(latency["baseline_ns"]["count"].as_u64().is_some_and(|count| count > 0), "{latency}");
        assert!(!round["loss"].as_array().expect("rows of loss").is_empty(), "{round}");
        assert!(round["back_to_back"]["frames"].is_u64(), "{round}");
        let page = fs::read_to_string(page).expect("the page is written");
        assert!(page.contains("figure-throughput-frames") && page.contains(topology));
    }
}

#[test]
#[ignore = "needs two CPUs: run by `cargo xtask test`"]
fn trials_agree_with_counters_of_a_running_switch() {
    let folder = folder();
    let (red, blue) = (folder.path().join("red"), folder.path().join("blue"));
    let port = |name, socket| Port { name, socket, client: false, pairs: 1 };
    let switch = Switch::start(folder.path(), 0, &[port("red", &red), port("blue", &blue)]);
    let ports = [&red, &blue].map(|socket| format!("kind=virtio-user,socket={}", socket.display()));
    let more = [
        "--switch",
        "running",
        "--port",
        &ports[0],
        "--port",
        &ports[1],
        "--keep",
        "kept",
        "--tests",
        "throughput",
    ];
    ended(&bench(folder.path(), &[&SHORT[..], &more].concat()), 0);
    let kept = fs::read_to_string(folder.path().join("kept")).expect("trials are kept");
    let trials: Vec<Value> =
        kept.lines().skip(1).map(|line| serde_json::from_str(line).expect("each line is JSON")).collect();
    let sum = |key: &str| -> u64 {
        let through = trials.iter().filter(|trial| trial["step"]["purpose"] != "loopback");
        through.map(|trial| trial["counters"][key].as_u64().expect("a number")).sum()
    };
    let counted = switch.settled(&["red", "blue"]);
    // Warm-ups and the receiver's announcement are counted on top.
    assert!(sum("sent") > 0 && counted[0].rx_packets >= sum("sent"), "{} of {counted:?}", sum("sent"));
    assert!(counted[1].tx_packets >= sum("received"), "{} of {counted:?}", sum("received"));
    assert_sums_agree(&counted);
    switch.stop();
}

#[test]
#[ignore = "needs two CPUs: run by `cargo xtask test`"]
fn interrupted_benchmark_resumes_and_leaves_no_process() {
    let folder = folder();
    let kept = folder.path().join("kept");
    let path = kept.display().to_string();
    let (_, command) = other_switch(folder.path());
    let more = ["--tests", "throughput,loss", "--rounds", "2", "--keep", &path, "--resume"];
    let words = [&SHORT[..], &["--switch-command", &command], &more].concat();
    let text = folder.path().join("other.ctl").display().to_string();

    // Terminated.
    let mut first = until_kept(folder.path(), &words, &kept, 4);
    assert_eq!(first.terminate(TIMEOUT).code(), Some(1), "{}", first.output());
    assert!(
        first.output().contains("ended by a signal") && first.output().contains("partial"),
        "{}",
        first.output()
    );
    let before = lines(&kept);
    assert!(processes(&text).is_empty(), "{:?}", processes(&text));

    // Killed, also in the middle of a line.
    let mut second = until_kept(folder.path(), &words, &kept, before + 3);
    second.kill();
    let gone = wait::until(TIMEOUT, || processes(&text).is_empty().then_some(()));
    assert!(gone.is_some(), "{:?} live on", processes(&text));
    let whole = fs::read(&kept).expect("it is there");
    fs::write(&kept, [&whole[..], b"{\"step\":{\"rou"].concat()).expect("it can be written");
    let before = lines(&kept) - 1;
    assert!(before >= 8, "{before}");

    let output = bench(folder.path(), &[&words[..], &["-o", "json"]].concat());
    let found = results(&output, 0);
    assert_eq!(
        (&found["whole"], found["sizes"][0]["rounds"].as_array().map(Vec::len)),
        (&Value::Bool(true), Some(2))
    );
    assert!(fs::read(&kept).expect("it is there").starts_with(&whole), "what was kept has changed");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains(&format!("{} trials are complete already", before - 1)), "{told}");

    // Other arguments cannot resume, and the file stays.
    let (_, told) = ended(&bench(folder.path(), &[&words[..], &["--loss", "1%"]].concat()), 2);
    assert!(told.contains("loss is 0.005 there and 0.01 here"), "{told}");
    let without: Vec<&str> = words.iter().copied().filter(|word| *word != "--resume").collect();
    let (_, told) = ended(&bench(folder.path(), &without), 2);
    assert!(told.contains("add --resume"), "{told}");
}

#[test]
#[ignore = "needs two CPUs: run by `cargo xtask test`"]
fn failed_switch_yields_a_partial_result_and_an_error() {
    let folder = folder();
    let kept = folder.path().join("kept");
    let path = kept.display().to_string();
    let (control, command) = other_switch(folder.path());
    let under = ["--switch-command", &command, "--tests", "throughput,loss"];
    let more = ["--rounds", "20", "--keep", &path, "--timeout", "2s"];
    let words = [&SHORT[..10], &under, &more].concat();
    let own = format!("--control {} run", control.display());
    for (signal, expected) in [(Signal::KILL, "it exited"), (Signal::STOP, "no frame came back within 2s")] {
        let _ = fs::remove_file(&kept);
        let mut process = until_kept(folder.path(), &words, &kept, 4);
        let from = process.output().len();
        // The highest PID is the program itself; the shell and its supervisor have the text in their command lines as
        // well.
        let switch = processes(&own).into_iter().max().and_then(Pid::from_raw).expect("the switch runs");
        kill_process(switch, signal).expect("it can be signalled");
        assert_eq!(process.finish(TIMEOUT).code(), Some(1), "{}", process.output());
        let told = process.output()[from..].to_owned();
        assert!(told.contains("linerate: the switch: ") && told.contains(expected), "{told}");
        assert!(told.contains("NDR Mpps") && told.contains("partial"), "{told}");
        let gone = wait::until(TIMEOUT, || processes(&own).is_empty().then_some(()));
        assert!(gone.is_some(), "{:?} live on", processes(&own));
    }
}

#[test]
#[ignore = "needs two CPUs: run by `cargo xtask test`"]
fn failed_switch_command_is_reported_with_its_output() {
    let folder = folder();
    let words = |command| [&SHORT[..10], &["--timeout", "1s", "--switch-command", command]].concat();
    let (_, told) = ended(&bench(folder.path(), &words("echo no such card; exit 3 # {a} {b}")), 1);
    assert!(told.contains("it exited (exit status: 3)") && told.contains("| no such card"), "{told}");
    let (_, told) = ended(&bench(folder.path(), &words("sleep 1000 # {a} {b}")), 1);
    assert!(told.contains("carried no packets within 1s"), "{told}");
    fs::write(folder.path().join("bench.toml"), "sizes = [64]\nsise = [64]\n").expect("it can be written");
    let (_, told) = ended(&bench(folder.path(), &["bench.toml"]), 2);
    assert!(told.contains("bench.toml:2: unknown field `sise`") && told.contains("remedy: "), "{told}");
    let (_, told) = ended(&bench(folder.path(), &words("sleep 1000 # {a}")), 2);
    assert!(told.contains("vm-vm needs {b}") && told.contains("remedy: "), "{told}");
}

#[test]
#[ignore = "needs two CPUs: run by `cargo xtask test`"]
fn results_of_one_set_up_only_are_compared() {
    let folder = folder();
    for (topology, file) in [("vm-vm", "vm.json"), ("loop", "loop.json")] {
        let more = ["--tests", "throughput", "--topology", topology, "-o", "json"];
        let found = results(&bench(folder.path(), &[&SHORT[..], &more].concat()), 0);
        fs::write(folder.path().join(file), found.to_string()).expect("it can be written");
    }
    let (said, _) = ended(&bench(folder.path(), &["compare", "vm.json", "vm.json"]), 0);
    assert!(said.contains("1.000") && said.contains("1 and 1 rounds, six are needed"), "{said}");
    let (_, told) = ended(&bench(folder.path(), &["compare", "vm.json", "loop.json"]), 2);
    assert!(told.contains("topology is \"vm-vm\" in A and \"loop\" in B"), "{told}");
}

#[test]
#[ignore = "needs two CPUs: run by `cargo xtask test`"]
fn benchmark_extends_rounds_in_any_model() {
    let folder = folder();
    let stages = "[worker]\nmodel = \"pipeline\"\nrx = [0]\nwork = [0]\ntx = [0]\n";
    fs::write(folder.path().join("stages.toml"), stages).expect("it can be written");
    let run = |how: &[&str], rounds| {
        let more = ["--tests", "throughput", "--agree", "0%", "--resume", "--rounds", rounds, "-o", "json"];
        results(&bench(folder.path(), &[&SHORT[..], how, &more].concat()), 0)
    };
    let ways = [
        &["--keep", "inline.jsonl", "--switch", "inline"][..],
        &["--keep", "stages.jsonl", "--switch-workers", "stages.toml"],
    ];
    for how in ways {
        let one = run(how, "1");
        let two = run(how, "2");
        assert_eq!(two["sizes"][0]["rounds"][0], one["sizes"][0]["rounds"][0], "{how:?}");
        assert_eq!(two["sizes"][0]["rounds"].as_array().map(Vec::len), Some(2), "{how:?}");
        let found = &two["sizes"][0]["rounds"][1];
        assert!(found["ndr"]["pps"].as_f64().is_some_and(|pps| pps > 0.0), "{how:?}: {found}");
        let refused = ended(&bench(folder.path(), &[&SHORT[..], how, &["--resume"]].concat()), 2).1;
        assert!(refused.contains("rounds is 2 there and 1 here"), "{refused}");
    }
}

#[test]
#[ignore = "needs root, Open vSwitch and two CPUs: run by `cargo xtask test`"]
fn other_switches_between_interfaces_leave_no_interface() {
    let folder = folder();
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/bench");
    let interfaces =
        || fs::read_dir("/sys/class/net").map_or(0, |entries| entries.flatten().filter(made_here).count());
    let before = interfaces();
    for (script, places) in [("ovs-tap.sh", "0 {a} {b}"), ("linux-bridge.sh", "{a} {b}")] {
        let command = format!("exec bash '{}' {places}", scripts.join(script).display());
        let ports = ["kind=tap,interface=lrst0", "kind=tap,interface=lrst1"];
        let more = ["--port", ports[0], "--port", ports[1], "--switch-command", &command, "-o", "json"];
        let few = ["--tests", "throughput", "--ceiling", "5kpps", "--loss", "5%"];
        let found = results(&bench(folder.path(), &[&SHORT[..], &few, &more].concat()), 0);
        let round = &found["sizes"][0]["rounds"][0];
        let pdr = round["pdr"]["pps"].as_f64().unwrap();
        assert!(pdr > 0.0 && pdr <= 10_000.0, "the ceiling is 5 kpps in each direction, {script}: {found}");
        assert!(wait::until(TIMEOUT, || (interfaces() == before).then_some(())).is_some(), "{script}");
    }
}

/// Interfaces created by those scripts and by the end-to-end test.
fn made_here(entry: &fs::DirEntry) -> bool {
    let name = entry.file_name().to_string_lossy().into_owned();
    ["lrst", "lrov", "lrbr"].iter().any(|prefix| name.starts_with(prefix))
}

/// DPDK as the other switch, in as many rounds as a comparison needs.
mod every {
    use super::*;

    #[test]
    #[ignore = "needs DPDK: run by `cargo xtask test --all`"]
    fn another_switch_is_measured_and_compared() {
        let folder = folder();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/bench/testpmd.sh");
        let command = format!("{} {{cpu}} {{a}} {{b}}", script.display());
        let common =
            [&SHORT[..10], &["--timeout", "60s", "--tests", "throughput", "--rounds", "6", "-o", "json"]]
                .concat();
        let under = ["--switch-command", &command, "--switch-cpu", "0"];
        let other = bench(folder.path(), &[&common[..], &under].concat());
        let other = results(&other, 0);
        assert!(other["sizes"][0]["rounds"][0]["ndr"]["trials"].as_u64().is_some_and(|n| n > 0), "{other}");
        let ours = results(&bench(folder.path(), &common), 0);
        for (name, found) in [("ours.json", &ours), ("other.json", &other)] {
            fs::write(folder.path().join(name), found.to_string()).expect("it can be written");
        }
        let compared =
            results(&bench(folder.path(), &["compare", "other.json", "ours.json", "-o", "json"]), 0);
        let figures = compared["figures"].as_array().expect("figures").clone();
        assert!(figures.iter().any(|figure| figure["what"] == "NDR"), "{compared}");
        for figure in &figures {
            assert_eq!(figure["rounds"], serde_json::json!([6, 6]), "{figure}");
        }
        let (said, _) = ended(&bench(folder.path(), &["compare", "ours.json", "ours.json"]), 0);
        assert!(said.contains("not significant") && !said.contains("beyond chance"), "{said}");
    }
}
