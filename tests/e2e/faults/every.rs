//! Each operation with each of its calls failing once. They run with `cargo xtask test --all` only, which builds the
//! program for them.

mod killed;
mod objects;
mod replaced;
mod started;
mod stored;

use std::fs;
use std::process::{Child, Command, Output, Stdio};

use linerate_tests::guest::Guest;
use linerate_tests::switch::Switch;
use linerate_tests::wait;

use super::{Held, LIMIT, Lab, is_well, mappings_remain, one_error, run, shown, walk};

#[test]
#[ignore = "needs root and a build of its own: run by `cargo xtask test --all`"]
fn an_applied_file_changes_all_or_nothing() {
    let lab = Lab::new();
    let mut switch = lab.start();
    let [old, new] = [("old.toml", 0), ("new.toml", 1)].map(|(name, k)| lab.write(name, &lab.texts[k]));
    let [mut apply, mut back] =
        [new, old].map(|path| switch.command(&["apply", &path.display().to_string()]));
    assert!(run(&mut apply).status.success() && run(&mut back).status.success());
    let (process, before) = (switch.pid(), Held::settled(switch.pid()));
    walk(&lab.faults, |what| {
        let output = run(&mut apply);
        let has_failed = lab.faults.disarm();
        let is_new = one_error(&output, what);
        let text = shown(&switch, what);
        let is = |k: usize| text.trim_end() == lab.texts[k].trim_end();
        // An error of the connection to the client may hide a success.
        assert!(is(1) || !is_new && is(0), "{what}: {text}");
        lab.passes();
        is_well(&mut switch, what);
        let output = run(&mut back);
        assert!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
        before.again(process, what);
        has_failed
    });
    mappings_remain(before, process);
    switch.stop();
}

#[test]
#[ignore = "needs root and a build of its own: run by `cargo xtask test --all`"]
fn a_capture_is_written_or_ends_with_one_error() {
    let lab = Lab::new();
    let mut switch = lab.start();
    let mut capture = switch.command(&["capture", "red", "--limit", "2", "-w", "-"]);
    assert!(captured(&lab, &mut capture).status.success());
    let (process, before) = (switch.pid(), Held::settled(switch.pid()));
    walk(&lab.faults, |what| {
        let output = captured(&lab, &mut capture);
        let has_failed = lab.faults.disarm();
        let is_whole = one_error(&output, what);
        assert!(!is_whole || output.stdout.len() > 100, "{what}: {} bytes", output.stdout.len());
        lab.passes();
        is_well(&mut switch, what);
        before.again(process, what);
        has_failed
    });
    mappings_remain(before, process);
    switch.stop();
}

/// Runs a capture, with packets until it ends.
fn captured(lab: &Lab, command: &mut Command) -> Output {
    let capture = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut capture: Child = capture.expect("linerate runs");
    let ended = wait::until(LIMIT, || {
        let ended = capture.try_wait().expect("a child");
        if ended.is_none() {
            // The calls that fail may be those of these packets.
            let _ = lab.ends[0].attempt("ping", &["-c1", "-W1", "-q", "10.0.0.2"]);
        }
        ended
    });
    if ended.is_none() {
        capture.kill().expect("a child");
    }
    assert!(ended.is_some(), "the capture does not end");
    capture.wait_with_output().expect("a child")
}

#[test]
#[ignore = "needs root and a build of its own: run by `cargo xtask test --all`"]
fn a_guest_connects_after_calls_failed() {
    let lab = Lab::new();
    let mut switch = lab.start();
    let path = lab.folder.path().join("green");
    let socket = path.display().to_string();
    let mut add = switch.command(&["ports", "add", "green", "--socket", &socket]);
    let mut remove = switch.command(&["ports", "remove", "green"]);
    // Each has a port of its own, because the pauses of a port between guests grow.
    let mut connect = |lab: &Lab, switch: &Switch, what: &str| {
        let mut has_failed = false;
        lab.calmly(|| assert!(run(&mut add).status.success(), "{what}"));
        let guest = Guest::endless(lab.folder.path(), "guest", "--connect", &[&path], &["--mode", "rxonly"]);
        let connected = wait::until(LIMIT, || {
            let state = switch.get("/v1/ports").ok()?;
            let ports = state.as_array()?;
            let port = ports.iter().find(|port| port["settings"]["name"] == "green")?;
            (port["live"]["state"] == "connected").then_some(())
        });
        has_failed |= lab.faults.disarm();
        assert!(connected.is_some(), "{what}: {:?}", switch.ask(&["ports", "show", "green"]));
        lab.passes();
        guest.end();
        let output = run(&mut remove);
        assert!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
        has_failed
    };
    lab.faults.disarm();
    connect(&lab, &switch, "no call fails");
    let (process, before) = (switch.pid(), Held::settled(switch.pid()));
    walk(&lab.faults, |what| {
        let has_failed = connect(&lab, &switch, what);
        is_well(&mut switch, what);
        before.again(process, what);
        has_failed
    });
    mappings_remain(before, process);
    switch.stop();
}

#[test]
#[ignore = "needs a build of its own: run by `cargo xtask test --all`"]
fn a_saved_file_is_the_old_or_the_new_one() {
    let lab = Lab::new();
    // Calls of the client fail, not those of the switch.
    lab.write("switch.toml", &lab.texts[0]);
    let switch = Switch::restart(lab.folder.path());
    let file = lab.folder.path().join("switch.toml");
    let socket = lab.folder.path().join("green").display().to_string();
    let mut save = lab.client(&switch, &["config", "save"]);
    let count = || fs::read_dir(lab.folder.path()).expect("a folder").count();
    let mut is_there = false;
    walk(&lab.faults, |what| {
        lab.calmly(|| toggled(&switch, is_there, &socket));
        is_there = !is_there;
        let (old, new) = (fs::read_to_string(&file).expect("a file"), shown(&switch, what));
        let files = count();
        let output = run(&mut save);
        let has_failed = lab.faults.disarm();
        let is_saved = one_error(&output, what);
        let text = fs::read_to_string(&file).expect("a file");
        assert!(text.trim_end() == new.trim_end() || !is_saved && text == old, "{what}: {text}");
        assert_eq!(count(), files, "{what}");
        resave(&switch, &file, what);
        has_failed
    });
    switch.stop();
}

/// Removes the port `green`, or adds it.
#[track_caller]
fn toggled(switch: &Switch, is_there: bool, socket: &str) {
    let add = ["ports", "add", "green", "--socket", socket];
    let changed = switch.tell(if is_there { &["ports", "remove", "green"] } else { &add });
    changed.unwrap_or_else(|error| panic!("{error}"));
}

/// After an error, saving works again: at once, or after the written file was applied.
#[track_caller]
fn resave(switch: &Switch, file: &std::path::Path, what: &str) {
    if switch.tell(&["config", "save"]).is_err() {
        let applied = switch.ask(&["apply", &file.display().to_string()]);
        let applied = applied.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(applied["changes"].as_array().map(Vec::len), Some(0), "{what}: {applied}");
        switch.tell(&["config", "save"]).unwrap_or_else(|error| panic!("{what}: {error}"));
    }
    let text = fs::read_to_string(file).expect("a file");
    assert_eq!(text.trim_end(), shown(switch, what).trim_end(), "{what}");
}

/// Workers continue after failed calls of their own.
#[test]
#[ignore = "needs root and a build of its own: run by `cargo xtask test --all`"]
fn workers_continue_after_failed_calls() {
    let lab = Lab::new();
    let mut switch = lab.start();
    for (function, error) in [
        ("poll", libc::EINTR),
        ("poll", libc::ENOMEM),
        ("ppoll", libc::EINTR),
        ("read", libc::EINTR),
        ("write", libc::EINTR),
        ("readv", libc::EINTR),
        ("writev", libc::EINTR),
        ("syscall", libc::EINTR),
        ("syscall", libc::ENOMEM),
        ("mmap64", libc::ENOMEM),
    ] {
        let mut failed = false;
        for n in 1..=3 {
            lab.faults.arm_workers(function, n, linerate_tests::faults::Fault::Error(error));
            lab.passes();
            failed |= lab.faults.disarm();
            is_well(&mut switch, &format!("call {n} of {function} of a worker fails with error {error}"));
        }
        // Those of io_uring, by which the queues of a TAP port end.
        assert!(failed || function != "syscall", "no call of {function} has failed");
    }
    switch.stop();
}
