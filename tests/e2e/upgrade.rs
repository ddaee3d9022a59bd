//! `linerate upgrade`: another process takes over the ports of a running switch. Guests and interfaces lose no packet,
//! a process that cannot take over leaves the switch as it was, and captures go on.

mod successor;

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use linerate_tests::netns::Netns;
use linerate_tests::process::Process;
use linerate_tests::switch::{Port, Switch, configuration};
use linerate_tests::{binary, folder, need, wait};
use serde_json::Value;

const SWITCH_CPU: usize = 0;
const GENERATOR_CPU: &str = "1";
/// One worker that runs to completion.
const ALONE: &str = "\n[[worker]]\ncpu = 0\n";
const REACTION: Duration = Duration::from_secs(10);
/// Pause between two upgrades, so that packets pass in each process.
const PAUSE: Duration = Duration::from_millis(300);
/// Packets of a limited capture: more than one process forwards.
const LIMIT: u64 = 6_000;
/// Ports beside those under load.
const OTHERS: usize = 61;

fn vhost<'a>(name: &'a str, socket: &'a Path) -> Port<'a> {
    Port { name, socket, client: false, pairs: 1 }
}

/// Sends from one socket to the other while `meanwhile` runs. Returns the report of the generator.
fn under_load(
    switch: &mut Switch,
    sockets: [&Path; 2],
    more: &str,
    meanwhile: impl FnOnce(&mut Switch),
) -> Value {
    under_load_of(["5kpps", "3s"], switch, sockets, more, meanwhile)
}

/// [`under_load`] with this rate and duration.
fn under_load_of(
    [rate, duration]: [&str; 2],
    switch: &mut Switch,
    sockets: [&Path; 2],
    more: &str,
    meanwhile: impl FnOnce(&mut Switch),
) -> Value {
    let ports = sockets.map(|socket| format!("kind=virtio-user,socket={}{more}", socket.display()));
    let mut words =
        vec!["gen", "--port", &ports[0], "--port", &ports[1], "--cpu", GENERATOR_CPU, "-o", "json"];
    words.extend(["--warm-up", "0s", "--rate", rate, "--duration", duration]);
    thread::scope(|scope| {
        let load = scope.spawn(|| Command::new(binary::linerate()).args(&words).output().expect("a program"));
        switch.wait_running("red", 1, REACTION);
        switch.wait_running("blue", 1, REACTION);
        thread::sleep(PAUSE);
        meanwhile(switch);
        let output = load.join().expect("the generator ends");
        serde_json::from_slice(&output.stdout).expect("a report of the generator")
    })
}

/// The line about the number of filters of a process, which inherits those of the process that has started it.
fn filters(process: u32) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    status.lines().find(|line| line.starts_with("Seccomp_filters")).map(str::to_owned)
}

/// Replaces a switch with these workers three times under load. `more` is options of the generator's ports.
fn loses_nothing(workers: &str, more: &str) {
    let folder = folder();
    let (red, blue) = (folder.path().join("red"), folder.path().join("blue"));
    let mut text = configuration(&[], &[vhost("red", &red), vhost("blue", &blue)]) + workers;
    for i in 0..OTHERS {
        let socket = folder.path().join(format!("other-{i}"));
        write!(text, "[[port]]\nname = \"other-{i}\"\nsocket = \"{}\"\n", socket.display())
            .expect("a string");
    }
    let mut switch = Switch::start_from(folder.path(), &text);
    let confined = filters(switch.pid());
    let report = under_load(&mut switch, [&red, &blue], more, |switch| {
        for _ in 0..3 {
            let report = switch.upgrade(&[]).expect("an upgrade");
            assert_eq!(report["ports"], 2 + OTHERS, "{report}");
            println!("gap of {} us", report["gap_us"]);
            thread::sleep(PAUSE);
        }
    });
    let (sent, lost) = (report["sent"].as_u64().unwrap_or_default(), report["lost"].as_u64());
    assert!(sent > 3_000 && lost == Some(0), "{report}");
    let [from, to] = switch.settled(&["red", "blue"])[..] else { panic!("two ports") };
    // The counters are those of all four processes; both sides have announced an address.
    assert_eq!((from.rx_packets, to.queue_full + to.other_drops), (sent, 0), "{from:?} {to:?}");
    let addresses = switch.ask(&["fdb", "show"]).expect("addresses");
    assert_eq!(addresses["total"], 2, "{addresses}");
    assert_eq!(filters(switch.pid()), confined, "filters add up");
    // The ports accept guests again.
    let again = under_load(&mut switch, [&red, &blue], more, |_| ());
    assert_eq!(again["lost"], 0, "{again}");
    switch.stop();
}

#[test]
#[ignore = "needs two CPUs: run by `cargo xtask test`"]
fn guests_lose_no_packet() {
    loses_nothing(ALONE, "");
}

#[test]
#[ignore = "needs two CPUs: run by `cargo xtask test`"]
fn guests_with_packed_rings_lose_no_packet() {
    loses_nothing(ALONE, ",ring=packed");
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn interfaces_stay_and_lose_no_packet() {
    let folder = folder();
    let (left, right) = (Netns::new(), Netns::new());
    let mut text = "[[worker]]\ncpu = 0\n".to_owned();
    for (name, netns) in [("left", &left), ("right", &right)] {
        let netns = netns.name();
        write!(
            text,
            "[[port]]\nname = \"{name}\"\nkind = \"tap\"\ninterface = \"eth0\"\nnetns = \"{netns}\"\n"
        )
        .expect("a string");
    }
    let mut switch = Switch::start_from(folder.path(), &text);
    for (netns, address) in [(&left, "10.0.0.1/24"), (&right, "10.0.0.2/24")] {
        netns.wait_link("eth0", true, REACTION);
        netns.configure("eth0", &[address]);
    }
    left.ping("10.0.0.2", 1, &["-w", "20"]);
    let pings = left.spawn(folder.path(), "ping", "ping", &["-n", "-i", "0.002", "-c", "1000", "10.0.0.2"]);
    for _ in 0..3 {
        thread::sleep(PAUSE);
        switch.upgrade(&[]).expect("an upgrade");
    }
    let mut pings = pings;
    let status = pings.finish(REACTION);
    assert!(status.success() && pings.output().contains("1000 received"), "{}", pings.output());
    switch.stop();
}

/// Packets of a capture that is complete, or written now.
fn packets(file: &Path) -> u64 {
    let output = Command::new("tcpdump").args(["-n", "-r"]).arg(file).output().expect("tcpdump runs");
    String::from_utf8_lossy(&output.stdout).lines().count() as u64
}

#[test]
#[ignore = "needs two CPUs and tcpdump: run by `cargo xtask test`"]
fn captures_go_on_in_the_new_process_with_its_first_packet() {
    need::program("tcpdump");
    let folder = folder();
    let (red, blue) = (folder.path().join("red"), folder.path().join("blue"));
    let ports = [vhost("red", &red), vhost("blue", &blue)];
    let mut switch = Switch::start_from(folder.path(), &configuration(&[SWITCH_CPU], &ports));
    let capture = |name: &str, words: &[&str]| {
        let (file, control) = (folder.path().join(name), folder.path().join("control.sock"));
        let (path, control) = (file.display().to_string(), control.display().to_string());
        let words = [&["--control", &control, "capture"], words, &["-w", &path]].concat();
        let capture = Process::spawn(folder.path(), &format!("{name}-log"), binary::linerate(), &words);
        let begun = wait::until(REACTION, || file.exists().then_some(()));
        assert!(begun.is_some(), "{}", capture.output());
        (capture, file)
    };
    let (mut all, received) = capture("all.pcapng", &["red", "--direction", "in"]);
    let limit = LIMIT.to_string();
    let (mut some, sent) = capture("some.pcapng", &["blue", "--direction", "out", "--limit", &limit]);
    let report = under_load(&mut switch, [&red, &blue], "", |switch| {
        for _ in 0..2 {
            switch.upgrade(&[]).expect("an upgrade");
            thread::sleep(PAUSE);
        }
    });
    assert_eq!(report["lost"], 0, "{report}");
    assert!(some.finish(REACTION).success(), "{}", some.output());
    assert_eq!(packets(&sent), LIMIT, "{}", some.output());
    let expected = switch.settled(&["red"])[0].rx_packets;
    let complete = wait::until(REACTION, || (packets(&received) == expected).then_some(()));
    assert!(complete.is_some(), "{} of {expected}: {}", packets(&received), all.output());
    assert!(all.terminate(REACTION).success(), "{}", all.output());
    assert_eq!(packets(&received), expected);
    let noted = all.output();
    assert_eq!(noted.matches("the capture goes on").count(), 2, "{noted}");
    assert!(!noted.contains("interrupted"), "{noted}");
    let metrics = switch.request("GET /metrics HTTP/1.0\r\n\r\n");
    let depth = "linerate_port_transmit_depth_entries_count{port=\"blue\"}";
    assert!(metrics.contains(depth), "{metrics}");
    // The last process counts the packets of all three.
    switch.wait_logged(&["a capture has ended", &format!("\"packets\":{expected},\"missed\":0")], REACTION);
    switch.stop();
}

#[test]
#[ignore = "needs two CPUs: run by `cargo xtask test`"]
fn a_program_that_cannot_take_over_changes_nothing() {
    let folder = folder();
    let (red, blue) = (folder.path().join("red"), folder.path().join("blue"));
    let program = folder.path().join("linerate");
    fs::copy(binary::linerate(), &program).expect("a copy of the program");
    fs::write(
        folder.path().join("switch.toml"),
        configuration(&[SWITCH_CPU], &[vhost("red", &red), vhost("blue", &blue)]),
    )
    .expect("a file of the test");
    let mut switch = Switch::restart_as(folder.path(), &[program.clone().into()]).expect("a switch");
    let pid = switch.pid();
    let report = under_load(&mut switch, [&red, &blue], "", |switch| {
        for (script, expected) in [(None, "No such file"), (Some("#!/bin/sh\nexit 1\n"), "did not take over")]
        {
            fs::remove_file(&program).ok();
            if let Some(script) = script {
                fs::write(&program, script).expect("a file of the test");
                fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a file of the test");
            }
            let error = switch.upgrade(&[]).expect_err("no program");
            assert!(error.contains(expected) && error.contains("runs as before"), "{error}");
        }
    });
    assert_eq!((report["lost"].as_u64(), switch.pid()), (Some(0), pid), "{report}");
    switch.stop();
}

#[test]
#[ignore = "needs a switch: run by `cargo xtask test`"]
fn ports_that_cannot_be_handed_over_are_opened_again_if_asked_to() {
    let folder = folder();
    let (red, tape) = (folder.path().join("red"), folder.path().join("tape"));
    let mut text = configuration(&[SWITCH_CPU], &[vhost("red", &red)]);
    write!(
        text,
        "[[port]]\nname = \"tape\"\nkind = \"pcap\"\nwrite = \"{}\"\noverwrite = true\n",
        tape.display()
    )
    .expect("a string");
    let mut switch = Switch::start_from(folder.path(), &text);
    let error = switch.upgrade(&[]).expect_err("a pcap port");
    assert!(error.contains("port \"tape\"") && error.contains("--accept-loss"), "{error}");
    let report = switch.upgrade(&["--accept-loss"]).expect("an upgrade");
    let lost = report["lost"][0].as_str().unwrap_or_default();
    assert!(report["ports"] == 1 && lost.starts_with("port \"tape\""), "{report}");
    switch.wait_state("tape", "connected", REACTION);
    switch.stop();
}

#[test]
#[ignore = "needs a switch: run by `cargo xtask test`"]
fn a_spanning_tree_starts_again_if_asked_to() {
    let folder = folder();
    let red = folder.path().join("red");
    let text = configuration(&[SWITCH_CPU], &[vhost("red", &red)]);
    let text = format!("{text}[[bridge]]\nname = \"tree\"\nstp = \"rstp\"\n");
    let mut switch = Switch::start_from(folder.path(), &text);
    let pid = switch.pid();
    let error = switch.upgrade(&[]).expect_err("a spanning tree");
    assert!(error.contains("bridge \"tree\"") && error.contains("spanning tree starts again"), "{error}");
    assert_eq!(switch.pid(), pid);
    let report = switch.upgrade(&["--accept-loss"]).expect("an upgrade");
    assert_eq!((&report["ports"], report["lost"].as_array().map(Vec::len)), (&1.into(), Some(1)), "{report}");
    switch.stop();
}

#[test]
#[ignore = "needs two CPUs: run by `cargo xtask test`"]
fn workers_that_no_file_expresses_and_files_that_are_gone_refuse_no_upgrade() {
    let folder = folder();
    let (red, other) = (folder.path().join("red"), folder.path().join("other"));
    fs::create_dir(&other).expect("a folder of the test");
    let (gone, workers) = (other.join("gone"), "[worker]\nwork = [0, 1]\n");
    let text = workers.to_owned() + &configuration(&[], &[vhost("red", &red), vhost("gone", &gone)]);
    let mut switch = Switch::start_from(folder.path(), &text);
    switch.tell(&["workers", "set", "1", "polling=busy"]).expect("a worker");
    switch.tell(&["ports", "remove", "gone"]).expect("a port");
    fs::remove_dir_all(&other).expect("a folder of the test");
    for _ in 0..2 {
        let report = switch.upgrade(&[]).expect("an upgrade");
        assert_eq!(report["ports"], 1, "{report}");
    }
    let sleeps = |worker: usize| {
        let report = switch.ask(&["workers", "show"]).expect("workers");
        report["workers"][worker]["sleeps"].as_u64().expect("a number")
    };
    assert!(wait::until(REACTION, || (sleeps(0) > 0).then_some(())).is_some(), "{}", switch.log());
    assert_eq!(sleeps(1), 0, "it polls without sleep");
    switch.stop();
}

mod every {
    use super::{ALONE, loses_nothing};

    #[test]
    #[ignore = "needs two CPUs: run by `cargo xtask test --all`"]
    fn guests_with_rings_in_order_lose_no_packet() {
        loses_nothing(ALONE, ",ring=split-inorder");
        loses_nothing(ALONE, ",ring=packed-inorder");
    }

    #[test]
    #[ignore = "needs two CPUs: run by `cargo xtask test --all`"]
    fn guests_lose_no_packet_in_other_execution_models() {
        for workers in [
            "work = [0, 1]",
            "work = [0, 1]\nrss_mode = \"software\"",
            "model = \"stealing\"\nwork = [0, 1]",
            "model = \"pipeline\"\nrx = [0]\nwork = [1]\ntx = [0]",
        ] {
            println!("{workers}");
            loses_nothing(&format!("\n[worker]\n{workers}\n"), "");
        }
    }
}
