//! `linerate doctor` finds real causes: a wrong role, access to a socket, a missing interface, a guest that does not take
//! packets, and a busy CPU.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use linerate_tests::guest::Guest;
use linerate_tests::process::Process;
use linerate_tests::switch::Switch;
use linerate_tests::{binary, folder, need, wait};
use serde_json::Value;

const REACTION: Duration = Duration::from_secs(30);
/// CPU of the worker.
const CPU: &str = "0";

/// A switch with a worker on [`CPU`] and these sections.
fn switch(folder: &Path, polling: &str, sections: &str) -> Switch {
    let worker = format!("[[worker]]\ncpu = {CPU}\npolling = \"{polling}\"\n");
    Switch::start_from(folder, &format!("{worker}{sections}"))
}

fn guest_port(name: &str, socket: &Path, more: &str) -> String {
    format!("[[port]]\nname = \"{name}\"\nsocket = \"{}\"\n{more}\n", socket.display())
}

/// The findings about a port, or about all if it is empty. The exit code tells whether there are any.
fn findings(folder: &Path, port: &str, interval: &str) -> Vec<Value> {
    let control = folder.join("control.sock");
    let mut command = Command::new(binary::linerate());
    command.arg("--control").arg(control).args(["doctor", "--interval", interval, "-o", "json"]);
    let output = command.args((!port.is_empty()).then_some(port)).output();
    let output = output.unwrap_or_else(|error| panic!("cannot run linerate: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("no report: {errors}"));
    let findings = report["findings"].as_array().cloned().unwrap_or_default();
    assert_eq!(output.status.code(), Some(i32::from(!findings.is_empty())), "{errors}");
    findings
}

/// Whether a check found something about a subject.
fn has(findings: &[Value], check: &str, subject: &str) -> bool {
    findings.iter().any(|finding| finding["check"] == check && finding["subject"] == subject)
}

#[test]
#[ignore = "end to end: run by `cargo xtask test`"]
fn causes_at_sockets_and_interfaces_are_found() {
    let folder = folder();
    need::root("packet sockets");
    let path = |name: &str| folder.path().join(name);
    let sections = guest_port("alone", &path("alone.sock"), "socket_mode = \"0700\"")
        + &guest_port("both", &path("both.sock"), "")
        + &guest_port("late", &path("late.sock"), "")
        + &guest_port("connects", &path("none.sock"), "mode = \"client\"")
        + &guest_port("stale", &path("stale.sock"), "mode = \"client\"")
        + "[[port]]\nname = \"card\"\nkind = \"af_packet\"\ninterface = \"lr-doctor0\"\n";
    drop(UnixListener::bind(path("stale.sock")).unwrap());
    let _first = UnixListener::bind(path("late.sock")).unwrap();
    let switch = switch(folder.path(), "adaptive", &sections);
    // The peer listens too, and replaces the file as QEMU does.
    fs::remove_file(path("both.sock")).unwrap();
    let _peer = UnixListener::bind(path("both.sock")).unwrap();
    let found = findings(folder.path(), "", "100ms");
    for (check, port) in [
        ("socket-no-peer", "port alone"),
        ("socket-access", "port alone"),
        ("socket-both-listen", "port both"),
        ("socket-both-listen", "port late"),
        ("socket-missing", "port connects"),
        ("socket-stale", "port stale"),
        ("interface-missing", "port card"),
    ] {
        assert!(has(&found, check, port), "{check}, {port}: {found:#?}");
    }
    // One port alone, and one that does not exist.
    let card = findings(folder.path(), "card", "100ms");
    assert!(
        has(&card, "interface-missing", "port card") && !has(&card, "socket-stale", "port stale"),
        "{card:#?}"
    );
    let unknown = switch.tell(&["doctor", "other"]).unwrap_err();
    assert!(unknown.contains("there is no such port"), "{unknown}");
    switch.stop();
}

#[test]
#[ignore = "end to end: run by `cargo xtask test`"]
fn a_guest_that_does_not_take_packets_and_a_busy_cpu_are_found() {
    let folder = folder();
    need::program("taskset");
    let sockets = ["sender", "receiver"].map(|name| folder.path().join(name));
    let sections = guest_port("sender", &sockets[0], "") + &guest_port("receiver", &sockets[1], "");
    let switch = switch(folder.path(), "busy", &sections);
    let receiver =
        Guest::endless(folder.path(), "receiving", "--connect", &[&sockets[1]], &["--mode", "rxonly"]);
    let sender = Guest::endless(folder.path(), "sending", "--connect", &[&sockets[0]], &["--mode", "txonly"]);
    for port in ["sender", "receiver"] {
        switch.wait_running(port, 1, REACTION);
    }
    receiver.pause();
    let stuck = wait::until(REACTION, || {
        let found = findings(folder.path(), "receiver", "300ms");
        has(&found, "not-draining", "port receiver").then_some(())
    });
    assert!(stuck.is_some(), "{:#?}", findings(folder.path(), "", "300ms"));
    let loop_forever = "while :; do :; done";
    let words = ["-c", CPU, "sh", "-c", loop_forever];
    let busy = Process::spawn(folder.path(), "busy", "taskset", &words);
    let shared = wait::until(REACTION, || {
        let found = findings(folder.path(), "", "500ms");
        has(&found, "cpu-shared", "worker 0").then_some(())
    });
    assert!(shared.is_some(), "{:#?}", findings(folder.path(), "", "500ms"));
    drop((busy, sender, receiver));
    switch.stop();
}
