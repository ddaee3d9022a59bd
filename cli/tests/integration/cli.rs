//! The binary with a running switch: exit codes, created and removed files, and changes.

use super::arguments::copied;
use super::common::{Switch, catches_interrupts, command, json, linerate, stderr, stdout};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[test]
fn signals_end_the_switch_with_code_0_and_remove_its_sockets() {
    for signal in ["-TERM", "-INT"] {
        let mut switch = Switch::start();
        switch.wait_until(|switch| switch.ask(&["status"]).status.success());
        switch.signal(signal);
        let output = switch.ended();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(switch.files(), ["switch.toml"]);
    }
}

#[test]
fn each_line_of_a_log_that_is_not_for_a_terminal_is_a_json_object() {
    let mut switch = Switch::start();
    switch.wait_until(|switch| switch.ask(&["status"]).status.success());
    switch.signal("-TERM");
    let text = stderr(&switch.ended());
    let message = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
        line["message"].as_str().unwrap().to_owned()
    };
    let messages: Vec<_> = text.lines().map(message).collect();
    for said in ["added", "running", "removed", "stopped"] {
        assert!(messages.iter().any(|message| message == said), "{said}: {messages:?}");
    }
}

/// A guest that connects and is killed, one that sends garbage, and a second one that is added and removed: each leaves
/// one line with the state and its reason.
#[test]
fn events_of_ports_are_lines_of_the_log() {
    let mut switch = Switch::start();
    switch.wait_until(|switch| switch.ask(&["status"]).status.success());
    let socket = switch.path("a.sock");
    let state = |switch: &Switch, wanted: &str| {
        let port = json(&switch.ask(&["ports", "show", "a", "-o", "json"]));
        port["live"]["state"].as_str().is_some_and(|state| state.starts_with(wanted))
    };
    let mut guest = command(&["guest", "--connect", &socket]).stdout(Stdio::null()).spawn().unwrap();
    switch.wait_until(|switch| state(switch, "connected"));
    guest.kill().unwrap();
    guest.wait().unwrap();
    switch.wait_until(|switch| state(switch, "waiting"));
    let mut garbage = UnixStream::connect(&socket).unwrap();
    garbage.write_all(&[0xa5; 64]).unwrap();
    let reasons = |switch: &Switch| stdout(&switch.ask(&["ports", "show", "a"]));
    switch.wait_until(|switch| reasons(switch).contains("vhost-user protocol"));
    assert!(switch.ask(&["ports", "add", "b", "--socket", &switch.path("b.sock")]).status.success());
    assert!(switch.ask(&["ports", "remove", "b"]).status.success());
    switch.signal("-TERM");
    let text = stderr(&switch.ended());
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect();
    let of = |port: &str| {
        let messages =
            lines.iter().filter(|line| line["port"] == port).filter_map(|line| line["message"].as_str());
        // A guest may be killed before its queues run.
        messages.filter(|message| *message != "running").collect::<Vec<_>>()
    };
    assert_eq!(of("b"), ["added", "removed"]);
    assert_eq!(of("a"), ["added", "connected", "disconnected", "connected", "stopped", "removed"]);
}

#[test]
fn sighup_has_no_effect() {
    let switch = Switch::start();
    switch.wait_until(|switch| switch.ask(&["status"]).status.success());
    switch.signal("-HUP");
    assert!(switch.ask(&["status"]).status.success());
}

#[test]
fn stop_returns_after_the_switch_has_ended() {
    let mut switch = Switch::start();
    switch.wait_until(|switch| switch.ask(&["status"]).status.success());
    assert!(switch.ask(&["stop"]).status.success());
    assert_eq!(switch.files(), ["switch.toml"]);
    assert_eq!(switch.ended().status.code(), Some(0));
}

#[test]
fn second_switch_on_the_same_socket_is_rejected_and_the_first_continues() {
    let switch = Switch::start();
    switch.wait_until(|switch| switch.ask(&["status"]).status.success());
    let second = linerate(&["run", &switch.path("switch.toml")]);
    assert_eq!(second.status.code(), Some(2));
    assert!(stderr(&second).contains("is already running there"), "{}", stderr(&second));
    assert!(stderr(&second).contains("remedy: "), "{}", stderr(&second));
    assert!(switch.ask(&["status"]).status.success());
    assert!(switch.path("a.sock").parse::<PathBuf>().unwrap().exists());
}

#[test]
fn switch_starts_after_an_earlier_one_was_killed() {
    let mut switch = Switch::start();
    switch.wait_until(|switch| switch.ask(&["status"]).status.success());
    switch.signal("-KILL");
    switch.ended();
    assert!(switch.control().exists());
    switch.child = Some(switch.run());
    switch.wait_until(|switch| switch.ask(&["status"]).status.success());
}

#[test]
fn a_port_that_is_added_has_a_socket_until_it_is_removed() {
    let switch = Switch::start();
    switch.wait_until(|switch| switch.ask(&["status"]).status.success());
    let socket = switch.path("b.sock");
    let added = switch.ask(&["ports", "add", "b", "--socket", &socket, "--trunk", "10,20", "--native", "1"]);
    assert!(added.status.success(), "{}", stderr(&added));
    switch.wait_until(|_| UnixStream::connect(&socket).is_ok());
    assert!(stdout(&switch.ask(&["ports", "show", "b"])).contains("trunk VLANs 10,20, native 1"));
    let shown = stdout(&switch.ask(&["ports", "show", "-o", "json"]));
    let names = |shown: &str| {
        let json: serde_json::Value = serde_json::from_str(shown).unwrap();
        let ports = json.as_array().unwrap().clone();
        ports.iter().map(|port| port["settings"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&shown), ["a", "b"]);
    assert!(switch.ask(&["ports", "remove", "b"]).status.success());
    switch.wait_until(|_| !Path::new(&socket).exists());
    assert_eq!(names(&stdout(&switch.ask(&["ports", "show", "-o", "json"]))), ["a"]);
    assert_eq!(switch.ask(&["ports", "remove", "b"]).status.code(), Some(2));
}

#[test]
fn a_port_may_be_added_by_the_keys_of_its_section() {
    let switch = Switch::start();
    switch.wait_until(|switch| switch.ask(&["status"]).status.success());
    let socket = format!("socket={}", switch.path("up.sock"));
    let words = ["ports", "add", "up", "--kind", "virtio-user", "--set", &socket];
    let added = switch.ask(&[&words[..], &["--set", "ring=packed", "--set", "queue_size=300"]].concat());
    assert!(stdout(&added).contains("packed rings of 300"), "{}", stderr(&added));
    let shown = stdout(&switch.ask(&["ports", "show"]));
    assert!(shown.contains("PLACE") && shown.contains(&switch.path("up.sock")), "{shown}");
    for (words, said) in [
        (&["--kind", "vhost-user"][..], "`socket` is missing"),
        (&["--set", "mtu=big"], "`mtu` is a string, not an integer"),
        (&["--set", "ring=packed"], "`ring` is an option of a driver"),
        (&["--set", "colour=7"], "unknown key `colour`"),
    ] {
        let refused = switch.ask(&[&["ports", "add", "x"], words].concat());
        assert_eq!(refused.status.code(), Some(2), "{words:?}");
        assert!(stderr(&refused).contains(said), "{}", stderr(&refused));
    }
}

#[test]
fn sockets_have_the_permission_of_their_port_or_of_the_switch() {
    let switch = Switch::start_with("socket_mode = \"0660\"");
    switch.wait_until(|switch| switch.ask(&["status"]).status.success());
    let mode = |name: &str| fs::metadata(switch.path(name)).unwrap().permissions().mode() & 0o777;
    switch.wait_until(|_| mode("a.sock") == 0o660);
    for (name, more, expected) in [("b", &["--set", "socket_mode=0600"][..], 0o600), ("d", &[], 0o660)] {
        let file = format!("{name}.sock");
        let words = ["ports", "add", name, "--socket", &switch.path(&file)];
        let added = switch.ask(&[&words[..], more].concat());
        assert!(added.status.success(), "{}", stderr(&added));
        assert_eq!(mode(&file), expected, "{name}");
    }
    let shown = stdout(&switch.ask(&["ports", "show", "b", "-o", "json"]));
    assert!(shown.contains("\"socket_mode\": \"0600\""), "{shown}");
}

/// Only root may give a socket to another group, and run programs as another user.
#[test]
fn only_members_of_the_group_of_a_socket_may_connect() {
    if !rustix::process::getuid().is_root() {
        return;
    }
    // Group 100 is `users` in each Debian.
    let switch =
        Switch::start_with("socket_mode = \"0660\"\nsocket_owner = \"nobody\"\nsocket_group = \"users\"");
    fs::set_permissions(switch.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let socket = switch.path("a.sock");
    let port = format!("kind=virtio-user,socket={socket}");
    // Set last, after owner and group.
    switch.wait_until(|_| fs::metadata(&socket).is_ok_and(|found| found.mode() & 0o777 == 0o660));
    let found = fs::metadata(&socket).unwrap();
    assert_eq!((found.uid(), found.gid()), (65_534, 100));
    let binary = copied(switch.dir.path());
    let run = |group: u32, words: &[&str]| {
        let mut command = Command::new(&binary);
        command.args(words).uid(1).gid(group).env("TMPDIR", "/tmp").output().unwrap()
    };
    let guest = ["guest", "--connect", &socket, "--duration", "100ms"];
    let allowed = run(100, &guest);
    assert!(allowed.status.success(), "{}", stderr(&allowed));
    for words in [&guest[..], &["gen", "--port", &port, "--no-baseline"]] {
        let refused = run(1, words);
        let said = stderr(&refused);
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(
            said.contains("Permission denied") && said.contains("write permission on the socket"),
            "{said}"
        );
    }
}

#[test]
fn addresses_are_pinned_and_shown() {
    let switch = Switch::start();
    switch.wait_until(|switch| switch.ask(&["status"]).status.success());
    let added = switch.ask(&["fdb", "add", "02:00:00:00:00:01", "--port", "a"]);
    let kept =
        "below the section of its bridge:\n\n[[bridge.static]]\nmac = \"02:00:00:00:00:01\"\nport = \"a\"\n";
    assert!(stdout(&added).contains(kept), "{}", stdout(&added));
    let port = stdout(&switch.ask(&["ports", "show", "a"]));
    assert!(
        port.contains("0 learned of at most") && port.contains(", 1 static; 0 packets with others"),
        "{port}"
    );
    let shown = stdout(&switch.ask(&["fdb", "show"]));
    assert!(shown.contains("02:00:00:00:00:01") && shown.contains("static"), "{shown}");
    assert_eq!(switch.ask(&["fdb", "add", "03:00:00:00:00:01", "--port", "a"]).status.code(), Some(2));
    assert!(switch.ask(&["fdb", "flush", "--port", "a"]).status.success());
    assert!(
        stdout(&switch.ask(&["fdb", "show"])).contains("02:00:00:00:00:01"),
        "a flush keeps static entries"
    );
}

#[test]
fn every_change_of_a_running_switch_is_also_printed_as_json() {
    let switch = Switch::start();
    switch.wait_until(|switch| switch.ask(&["status"]).status.success());
    let json = |words: &[&str]| -> serde_json::Value {
        let output = switch.ask(&[words, &["-o", "json"]].concat());
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{words:?}: {}", stderr(&output)))
    };
    let socket = switch.path("b.sock");
    assert_eq!(json(&["ports", "add", "b", "--socket", &socket])["settings"]["name"], "b");
    assert_eq!(json(&["fdb", "add", "02:00:00:00:00:01", "--port", "b"])["port"], "b");
    assert_eq!(json(&["fdb", "del", "02:00:00:00:00:01"])["mac"], "02:00:00:00:00:01");
    assert_eq!(json(&["fdb", "flush"])["flushed"], 0);
    assert_eq!(json(&["bridges", "show", "main"])["name"], "main");
    assert_eq!(switch.ask(&["bridges", "show", "none"]).status.code(), Some(2));
    let quiet = switch.ask(&["-q", "ports", "add", "q", "--socket", &switch.path("q.sock"), "-o", "json"]);
    assert_eq!((quiet.status.code(), stderr(&quiet)), (Some(0), String::new()));
    let quiet = switch.ask(&["ports", "remove", "q", "-q"]);
    assert_eq!((quiet.status.code(), stderr(&quiet)), (Some(0), String::new()));
    assert_eq!(json(&["ports", "del", "b"])["name"], "b");
}

#[test]
fn an_address_that_was_pinned_is_removed_again() {
    let switch = Switch::start();
    switch.wait_until(|switch| switch.ask(&["status"]).status.success());
    for (verb, vlan) in [("remove", "0"), ("del", "0")] {
        assert!(switch.ask(&["fdb", "add", "02:00:00:00:00:01", "--port", "a"]).status.success());
        let elsewhere = switch.ask(&["fdb", verb, "02:00:00:00:00:01", "--vlan", "7"]);
        assert_eq!(elsewhere.status.code(), Some(2));
        assert!(stderr(&elsewhere).contains("in VLAN 7\n    remedy: "), "{}", stderr(&elsewhere));
        let removed = switch.ask(&["fdb", verb, "02:00:00:00:00:01", "--port", "a", "--vlan", vlan]);
        assert_eq!(stdout(&removed), "removed static 02:00:00:00:00:01 at port a, bridge main\n");
        assert!(!stdout(&switch.ask(&["fdb", "show"])).contains("02:00:00:00:00:01"));
    }
    assert_eq!(switch.ask(&["fdb", "remove", "02:00:00:00:00:01"]).status.code(), Some(2));
    assert_eq!(switch.ask(&["fdb", "flush", "--vlan", "7"]).status.code(), Some(0));
}

#[test]
fn runtime_changes_are_reported_as_unsaved_with_the_lines_to_add() {
    let switch = Switch::start();
    switch.wait_until(|switch| switch.ask(&["status"]).status.success());
    let socket = switch.path("b.sock");
    let added = switch.ask(&["ports", "add", "b", "--socket", &socket, "--trunk", "10,20"]);
    let said = stdout(&added);
    let section = said.split_once("add to it:\n\n").unwrap().1;
    let mut file = fs::OpenOptions::new().append(true).open(switch.path("switch.toml")).unwrap();
    std::io::Write::write_all(&mut file, section.as_bytes()).unwrap();
    assert!(stderr(&switch.ask(&["ports", "remove", "b"])).contains("returns at the next start"));
    let checked = stdout(&linerate(&["check", &switch.path("switch.toml")]));
    assert!(
        checked.contains("port b: vhost-user server") && checked.contains("trunk VLANs 10,20"),
        "{checked}"
    );
}

#[test]
fn a_patch_port_without_its_peer_is_reported_when_it_is_added() {
    let switch = Switch::start();
    switch.wait_until(|switch| switch.ask(&["status"]).status.success());
    let added = switch.ask(&["ports", "add", "p", "--kind", "patch", "--set", "peer=q"]);
    assert!(added.status.success(), "{}", stderr(&added));
    assert!(stderr(&added).contains("port p waits until its peer, port q, is added"), "{}", stderr(&added));
}

#[test]
fn a_mirror_is_added_with_the_section_that_keeps_it() {
    let switch = Switch::start();
    switch.wait_until(|switch| switch.ask(&["status"]).status.success());
    assert!(switch.ask(&["ports", "add", "b", "--socket", &switch.path("b.sock")]).status.success());
    let added = switch.ask(&["mirrors", "add", "m", "--all", "--output-port", "b"]);
    let said = stdout(&added);
    assert!(said.contains("add to it:\n\n[[mirror]]\nname = \"m\"\n"), "{said}{}", stderr(&added));
    let removed = switch.ask(&["mirrors", "remove", "m"]);
    assert!(stderr(&removed).contains("a mirror with a section there returns"), "{}", stderr(&removed));
}

#[test]
fn requests_are_logged_on_both_sides_if_asked() {
    let mut switch = Switch::start();
    switch.signal("-KILL");
    switch.ended();
    switch.child =
        Some(command(&["run", "-v", &switch.path("switch.toml")]).stderr(Stdio::piped()).spawn().unwrap());
    switch.wait_until(|switch| switch.ask(&["status"]).status.success());
    let asked = stderr(&switch.ask(&["bridges", "show", "-v"]));
    assert!(asked.contains("DEBUG") && asked.contains("GET path=\"/v1/bridges\" status=200"), "{asked}");
    switch.signal("-TERM");
    let log = stderr(&switch.ended());
    assert!(log.lines().any(|line| line.contains("DEBUG") && line.contains("/v1/bridges")), "{log}");
}

#[test]
fn unknown_objects_are_named() {
    let switch = Switch::start();
    switch.wait_until(|switch| switch.ask(&["status"]).status.success());
    for (words, said) in [
        (&["queues", "show", "zz"][..], "there is no such port"),
        (&["queues", "show", "a"], "it has no queues"),
        (&["stack", "show"], "name the control socket of a `linerate serve`"),
    ] {
        let refused = switch.ask(words);
        assert_eq!(refused.status.code(), Some(2), "{words:?}");
        assert!(stderr(&refused).contains(said), "{words:?}: {}", stderr(&refused));
    }
}

#[test]
fn workers_top_and_snippet_answer_from_the_running_switch() {
    let switch = Switch::start();
    switch.wait_until(|switch| switch.ask(&["status"]).status.success());
    assert!(stdout(&switch.ask(&["workers", "show"])).starts_with("WORKER"));
    let top = stdout(&switch.ask(&["top", "--once", "--interval", "10ms", "-o", "json"]));
    let top: serde_json::Value = serde_json::from_str(&top).unwrap();
    assert_eq!(top["ports"][0]["name"], "a");
    let snippet = stdout(&switch.ask(&["snippet", "a", "--for", "qemu"]));
    assert!(snippet.contains(&format!("path={}", switch.path("a.sock"))), "{snippet}");
}

#[test]
fn top_follows_a_switch_with_a_line_of_json_for_each_reading() {
    let switch = Switch::start();
    switch.wait_until(|switch| switch.ask(&["status"]).status.success());
    let words = ["--control", &switch.path("c.sock"), "top", "--interval", "10ms", "-o", "json"];
    let mut top = command(&words).stdout(Stdio::piped()).spawn().unwrap();
    let readings = BufReader::new(top.stdout.take().unwrap()).lines().take(3);
    for reading in readings {
        let reading: serde_json::Value = serde_json::from_str(&reading.unwrap()).unwrap();
        assert_eq!(reading["ports"][0]["name"], "a");
    }
    // Standard output is a closed pipe: the command must end without an error.
    assert!(top.wait().unwrap().success());
}

#[test]
fn an_interrupt_ends_top_with_success() {
    let switch = Switch::start();
    switch.wait_until(|switch| switch.ask(&["status"]).status.success());
    let words = ["--control", &switch.path("c.sock"), "top", "--interval", "10m"];
    let top = command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    switch.wait_until(|_| catches_interrupts(&top));
    assert!(Command::new("kill").args(["-INT", &top.id().to_string()]).status().unwrap().success());
    let output = top.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}
