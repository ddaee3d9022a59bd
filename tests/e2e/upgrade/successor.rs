//! Programs that are started by `linerate upgrade` and do not take over: of another protocol, with invalid messages,
//! killed, or without an answer.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use linerate_tests::switch::{Switch, configuration};
use linerate_tests::{binary, folder, need, wait};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{REACTION, SWITCH_CPU, under_load_of, vhost};

/// A program in Python that fails at a step of the exchange.
const SUCCESSOR: &str = include_str!("successor.py");
/// How errors end that are not those of the successor.
const UNCHANGED: &str = "runs as before";
/// Where the successor fails, and a part of the error.
const STEPS: [(&str, &str); 13] = [
    ("at its start", UNCHANGED),
    ("with the offer", UNCHANGED),
    ("of another protocol", "version 9.9.9 takes over by 9"),
    ("with text that is no answer", "sent an invalid message"),
    ("with an empty answer", "sent no message"),
    ("with bytes that are no message", "it is too long"),
    ("when it is ready", UNCHANGED),
    ("with the state", UNCHANGED),
    ("with the addresses", UNCHANGED),
    ("with the descriptions", UNCHANGED),
    ("with prepared ports", UNCHANGED),
    ("with all ports", UNCHANGED),
    ("with all ports and text that is no answer", "sent an invalid message"),
];
/// Steps after which the successor is killed because a time has passed: with half a minute, and with five seconds in
/// which no packet passes.
const SILENT: [(&str, &str); 2] =
    [("without an answer", "does not answer"), ("with all ports and without an answer", "does not answer")];

/// Errors if the successor has the ports and does not answer, or ends.
const UNCONFIRMED: [&str; 2] =
    ["does not confirm that the ports run", "ended before it confirmed that the ports run"];

/// A switch that was started from a file that a test replaces.
struct Replaceable {
    folder: tempfile::TempDir,
    program: PathBuf,
    switch: Switch,
}

impl Replaceable {
    fn start() -> Replaceable {
        need::program("python3");
        let folder = folder();
        let program = folder.path().join("linerate");
        fs::copy(binary::linerate(), &program).expect("a copy of the program");
        let [red, blue] = sockets(folder.path());
        let text = configuration(&[SWITCH_CPU], &[vhost("red", &red), vhost("blue", &blue)]);
        fs::write(folder.path().join("switch.toml"), text).expect("a file of the test");
        let switch = Switch::restart_as(folder.path(), &[program.clone().into()]).expect("a switch");
        Replaceable { folder, program, switch }
    }
}

/// Installs a program that fails at `step`, and kills the switch before if `kills`.
fn install(program: &Path, step: &str, kills: bool) {
    let kills = if kills { "True" } else { "False" };
    let text = format!("#!/usr/bin/env python3\nSTEP = '{step}'\nKILLS = {kills}\n{SUCCESSOR}");
    // The file of a running program cannot be written.
    fs::remove_file(program).expect("the program");
    fs::write(program, text).expect("a file of the test");
    fs::set_permissions(program, fs::Permissions::from_mode(0o755)).expect("a file of the test");
}

fn sockets(folder: &Path) -> [PathBuf; 2] {
    ["red", "blue"].map(|name| folder.join(name))
}

/// Upgrades to programs that fail at these steps, under a load of this rate and duration.
fn refused(steps: &[(&str, &str)], load: [&str; 2]) {
    let Replaceable { folder, program, mut switch } = Replaceable::start();
    let [red, blue] = sockets(folder.path());
    let pid = switch.pid();
    let report = under_load_of(load, &mut switch, [&red, &blue], "", |switch| {
        for (step, expected) in steps {
            install(&program, step, false);
            let output = switch.command(&["upgrade"]).output().expect("linerate runs");
            let error = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{step}: {error}");
            assert!(error.contains(expected) && error.matches("remedy: ").count() == 1, "{step}: {error}");
            assert!(switch.get("/v1/status").is_ok(), "{step}: no answer");
        }
    });
    let sent = report["sent"].as_u64().unwrap_or_default();
    assert!(sent > 100 && report["lost"] == 0 && switch.pid() == pid, "{report}");
    assert_eq!(of_program(&program), [pid], "a successor is left");
    switch.stop();
}

/// Processes whose command line has this program.
fn of_program(program: &Path) -> Vec<u32> {
    let program = program.display().to_string();
    let is_of = |process: &u32| {
        let words = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).any(|word| word == program.as_bytes())
    };
    let processes = fs::read_dir("/proc").expect("processes").flatten();
    processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_of).collect()
}

#[test]
#[ignore = "needs two CPUs and python3: run by `cargo xtask test`"]
fn a_successor_that_fails_at_any_step_changes_nothing() {
    refused(&STEPS, ["5kpps", "2s"]);
}

#[test]
#[ignore = "needs python3: run by `cargo xtask test`"]
fn a_switch_that_ends_while_it_is_replaced_starts_again() {
    for step in ["with the offer", "when it is ready", "with prepared ports", "with all ports"] {
        let Replaceable { folder, program, switch } = Replaceable::start();
        install(&program, step, true);
        let error = switch.tell(&["upgrade"]).expect_err("the switch has ended");
        assert_eq!(error.matches("remedy: ").count(), 1, "{step}: {error}");
        let has_ended = wait::until(REACTION, || of_program(&program).is_empty().then_some(()));
        assert!(has_ended.is_some(), "{step}: {:?} are left", of_program(&program));
        drop(switch);
        let mut switch = Switch::restart(folder.path());
        let [red, blue] = sockets(folder.path());
        let report = under_load_of(["1kpps", "100ms"], &mut switch, [&red, &blue], "", |_| ());
        assert!(report["sent"].as_u64() > Some(0) && report["lost"] == 0, "{step}: {report}");
        switch.stop();
    }
}

/// Sends SIGTERM to the switch while its successor is held at `step`. The switch ends alone: `is_over` if the successor
/// has the ports then, and otherwise the successor has ended before.
fn ended_at(step: &str, (accepts, is_over): (bool, bool)) {
    let Replaceable { folder, program, mut switch } = Replaceable::start();
    let pid = switch.pid();
    install(&program, &format!("held {step}"), false);
    let upgrade = switch.command(&["upgrade"]).stderr(Stdio::piped()).spawn().expect("linerate runs");
    let held = folder.path().join("linerate.held");
    assert!(wait::until(REACTION, || held.exists().then_some(())).is_some(), "{step}: {}", switch.log());
    if accepts {
        let error = switch.tell(&["stop"]).expect_err("an upgrade runs");
        assert!(error.contains("remedy: wait for the upgrade to end"), "{step}: {error}");
    }
    kill_process(Pid::from_raw(pid.cast_signed()).expect("a process"), Signal::TERM).expect("a process");
    let ended = wait::until(2 * REACTION, || (!switch.is_running()).then_some(()));
    assert!(ended.is_some(), "{step}: {}", switch.log());
    let output = upgrade.wait_with_output().expect("linerate ends");
    let error = String::from_utf8_lossy(&output.stderr);
    let expected = if is_over { UNCONFIRMED[0] } else { "was told to end" };
    assert!(!output.status.success() && error.contains(expected), "{error}");
    let left = of_program(&program);
    let control = folder.path().join("control.sock");
    assert_eq!((left.len(), control.exists()), (usize::from(is_over), is_over), "{step}: {left:?}");
    for process in left {
        kill_process(Pid::from_raw(process.cast_signed()).expect("a process"), Signal::KILL)
            .expect("a process");
    }
}

#[test]
#[ignore = "needs python3: run by `cargo xtask test`"]
fn a_switch_that_is_told_to_end_while_it_is_replaced_leaves_no_successor_without_sockets() {
    ended_at("at its start", (true, false));
    ended_at("with the offer", (true, false));
    for step in ["when it is ready", "with the state", "with prepared ports", "with all ports"] {
        ended_at(step, (false, false));
    }
    ended_at("with the ports", (false, true));
}

#[test]
#[ignore = "needs python3: run by `cargo xtask test`"]
fn a_successor_that_ends_with_the_ports_is_an_error_and_the_switch_starts_again() {
    let Replaceable { folder, program, mut switch } = Replaceable::start();
    install(&program, "with the ports", false);
    let error = switch.tell(&["upgrade"]).expect_err("no switch is left");
    assert!(error.contains(UNCONFIRMED[1]) && error.matches("remedy: ").count() == 1, "{error}");
    assert_eq!(switch.exit_code(), Some(1), "systemd starts a switch again that fails: {}", switch.log());
    assert!(of_program(&program).is_empty() && !folder.path().join("control.sock").exists());
    switch.wait_logged(&["which had taken over, has ended"], REACTION);
    drop(switch);
    Switch::restart(folder.path()).stop();
}

#[test]
#[ignore = "needs a switch: run by `cargo xtask test`"]
fn a_successor_that_cannot_start_leaves_the_files_of_the_switch() {
    let folder = folder();
    let token = folder.path().join("token");
    fs::write(&token, "t".repeat(40)).expect("a file of the test");
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).expect("a file of the test");
    let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port");
    let keys = format!("[switch]\nweb = \"{free}\"\nweb_token_file = \"{}\"\n\n", token.display());
    let switch = Switch::start_from(folder.path(), &(keys + &configuration(&[SWITCH_CPU], &[])));
    let files = || {
        let files = fs::read_dir(folder.path()).expect("a folder").flatten();
        files.map(|file| file.file_name()).collect::<std::collections::BTreeSet<_>>()
    };
    fs::remove_file(&token).expect("the token");
    let before = files();
    let error = switch.tell(&["upgrade"]).expect_err("no token");
    assert!(error.contains("cannot take over") && error.contains("token"), "{error}");
    assert_eq!(files(), before);
    switch.stop();
}

/// A message of the exchange: one part without descriptors.
fn message(text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len()).expect("a short message");
    let numbers = [1, 6 + length, 0].map(u32::to_le_bytes).concat();
    [&numbers[..], &[0, 0], &length.to_le_bytes(), text.as_bytes()].concat()
}

#[test]
#[ignore = "needs the program: run by `cargo xtask test`"]
fn an_offer_that_is_not_understood_is_refused_with_one_error() {
    let folder = folder();
    let file = folder.path().join("switch.toml");
    fs::write(&file, configuration(&[SWITCH_CPU], &[])).expect("a file of the test");
    let offer = json!({
        "protocol": 9, "version": "9.9.9", "file": file, "loaded": "", "running": "", "control": null, "web": null,
        "ports": [], "reopened": [], "sockets": [], "web_token": null, "of_a_later_version": 1,
    });
    for (offer, expected) in [
        (message(&offer.to_string()), "version 9.9.9 hands over by protocol 9, version"),
        (message("[]"), "invalid message"),
        (vec![0xff; 100], "it is too long"),
        (Vec::new(), "closed the connection"),
    ] {
        let (mut own, other) = UnixStream::pair().expect("sockets");
        let mut command = Command::new(binary::linerate());
        command.args(["run", "--take-over"]).arg(&file).stdin(OwnedFd::from(other));
        own.write_all(&offer).expect("a socket with space");
        own.shutdown(Shutdown::Write).expect("a socket");
        let output = command.output().expect("linerate runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(1 | 2)), "{}: {error}", output.status);
        assert!(error.contains(expected) && error.matches("remedy: ").count() == 1, "{error}");
        drop(command);
        let mut answer = Vec::new();
        // Fails at its end if the program has not read everything.
        let _ = own.read_to_end(&mut answer);
        let answer: Option<Value> = answer.get(18..).and_then(|text| serde_json::from_slice(text).ok());
        let reason = answer.map(|answer| answer["error"]["reason"].to_string()).unwrap_or_default();
        assert!(reason.contains(expected), "{reason}");
    }
}

mod every {
    use super::{SILENT, refused};

    #[test]
    #[ignore = "needs two CPUs and python3, and waits: run by `cargo xtask test --all`"]
    fn a_successor_without_an_answer_changes_nothing() {
        refused(&SILENT, ["100pps", "45s"]);
    }
}
