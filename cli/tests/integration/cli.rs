//! The binary as a command: exit codes, created and removed files, and generated texts.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn linerate(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
    command.args(arguments).env_remove("LINERATE_CONTROL");
    command
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A temporary directory with a configuration, and its running switch.
struct Switch {
    dir: tempfile::TempDir,
    child: Option<Child>,
}

impl Switch {
    fn start() -> Self {
        Self::start_with("")
    }

    /// Starts a switch with these lines in `[switch]`.
    fn start_with(lines: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        let text = format!(
            "[switch]\ncontrol = \"{}\"\n{lines}\n[[port]]\nname = \"a\"\nsocket = \"{}\"\n",
            path("c.sock"),
            path("a.sock")
        );
        fs::write(dir.path().join("switch.toml"), text).unwrap();
        let mut switch = Self { dir, child: None };
        switch.child = Some(switch.run());
        switch.wait_until(|switch| switch.control().exists());
        switch
    }

    fn run(&self) -> Child {
        command(&["run", &self.path("switch.toml")]).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    fn control(&self) -> PathBuf {
        self.dir.path().join("c.sock")
    }

    fn ask(&self, arguments: &[&str]) -> Output {
        linerate(&[&["--control", &self.path("c.sock")], arguments].concat())
    }

    /// Waits until `condition` is true. Panics after a timeout.
    fn wait_until(&self, condition: impl Fn(&Self) -> bool) {
        let until = Instant::now() + Duration::from_secs(30);
        while !condition(self) {
            assert!(Instant::now() < until, "nothing happened");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn signal(&self, name: &str) {
        let pid = self.child.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    fn ended(&mut self) -> Output {
        self.child.take().unwrap().wait_with_output().unwrap()
    }

    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir.path()).unwrap();
        let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn signals_end_the_switch_cleanly_and_its_sockets_are_gone() {
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

#[test]
fn a_hangup_changes_nothing() {
    let switch = Switch::start();
    switch.wait_until(|switch| switch.ask(&["status"]).status.success());
    switch.signal("-HUP");
    assert!(switch.ask(&["status"]).status.success());
}

#[test]
fn stop_returns_when_the_switch_has_gone() {
    let mut switch = Switch::start();
    switch.wait_until(|switch| switch.ask(&["status"]).status.success());
    assert!(switch.ask(&["stop"]).status.success());
    assert_eq!(switch.files(), ["switch.toml"]);
    assert_eq!(switch.ended().status.code(), Some(0));
}

#[test]
fn a_second_switch_on_the_same_socket_is_refused_and_the_first_is_not_disturbed() {
    let switch = Switch::start();
    switch.wait_until(|switch| switch.ask(&["status"]).status.success());
    let second = linerate(&["run", &switch.path("switch.toml")]);
    assert_eq!(second.status.code(), Some(2));
    assert!(stderr(&second).contains("a switch is already running there"), "{}", stderr(&second));
    assert!(stderr(&second).contains("remedy: "), "{}", stderr(&second));
    assert!(switch.ask(&["status"]).status.success());
    assert!(switch.path("a.sock").parse::<PathBuf>().unwrap().exists());
}

#[test]
fn a_switch_that_was_killed_leaves_nothing_that_hinders_the_next() {
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

#[test]
fn addresses_are_pinned_and_shown() {
    let switch = Switch::start();
    switch.wait_until(|switch| switch.ask(&["status"]).status.success());
    assert!(switch.ask(&["fdb", "add", "02:00:00:00:00:01", "--port", "a"]).status.success());
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
fn what_is_changed_while_running_is_said_to_be_lost_and_how_to_keep_it() {
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

/// Whether the process has installed a handler of SIGINT.
fn catches_interrupts(child: &Child) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 0b10 != 0)
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

#[test]
fn a_duration_without_a_unit_is_refused_with_the_format() {
    for words in [
        &["top", "--interval", "1"][..],
        &["demo", "--duration", "5"],
        &["guest", "--connect", "/a", "--duration", "5"],
        &["gen", "--duration", "5"],
        &["gen", "--warm-up", "5"],
        &["bench", "--duration", "5"],
        &["bench", "--timeout", "5"],
        &["rebalance", "--duration", "5"],
    ] {
        let output = linerate(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        let said = stderr(&output);
        assert!(said.contains("expected a number with a unit, such as 5s, 200ms or 1m"), "{words:?}: {said}");
    }
}

#[test]
fn without_a_switch_every_question_fails_with_a_remedy() {
    for verb in
        [&["status"][..], &["ports", "show"], &["fdb", "show"], &["workers", "show"], &["top"], &["stop"]]
    {
        let output = linerate(&[&["--control", "/tmp/lr-none.sock"], verb].concat());
        assert_eq!(output.status.code(), Some(1), "{verb:?}");
        assert!(stderr(&output).contains("no switch answers on /tmp/lr-none.sock"), "{}", stderr(&output));
        assert!(
            stderr(&output).contains("remedy: start a switch with `linerate run FILE`"),
            "{}",
            stderr(&output)
        );
    }
}

#[test]
fn mistakes_in_the_file_are_named_and_nothing_is_started() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("bad.toml");
    fs::write(&file, "[[port]]\nname = \"a\"\nsokcet = \"/tmp/a\"\n").unwrap();
    let file = file.display().to_string();
    for verb in ["run", "check"] {
        let output = linerate(&[verb, &file]);
        assert_eq!(output.status.code(), Some(2));
        let expected =
            format!("{file}:3: port \"a\": unknown key `sokcet`\n    remedy: did you mean `socket`?\n");
        assert_eq!(stderr(&output), expected);
        assert_eq!(stdout(&output), "");
    }
    let json: serde_json::Value =
        serde_json::from_slice(&linerate(&["check", &file, "-o", "json"]).stdout).unwrap();
    assert_eq!(json["errors"][0]["line"], 3);
}

#[test]
fn a_stranger_on_the_control_socket_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (file, socket) = (dir.path().join("s.toml"), dir.path().join("c.sock"));
    fs::write(&file, format!("[switch]\ncontrol = \"{}\"\n", socket.display())).unwrap();
    let _stranger = UnixListener::bind(&socket).unwrap();
    assert_eq!(linerate(&["run", &file.display().to_string()]).status.code(), Some(2));
    UnixStream::connect(&socket).unwrap();
}

#[test]
fn wrong_arguments_are_bad_input() {
    for wrong in [
        &["nonsense"][..],
        &["demo", "--size", "12"],
        &["demo", "--ring", "round"],
        &["fdb", "show", "--vlan", "9999"],
        &["demo", "--duration", "-1"],
        &["guest"],
        &["guest", "--connect", "/a", "--listen", "/b"],
        &["guest", "--connect", "/a", "--queue-size", "0"],
        &["guest", "--connect", "/a", "--descriptors", "two"],
        &["ports", "add"],
        &["ports", "add", "a", "--kind", "pigeon"],
        &["ports", "add", "a", "--set", "socket"],
        &["ports", "add", "a", "--socket", "/tmp/a", "--set", "socket=/tmp/b"],
        &["top", "-o", "yaml"],
    ] {
        let output = linerate(wrong);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {}", stderr(&output));
    }
}

#[test]
fn a_negative_number_is_refused_with_the_reason() {
    let output = linerate(&["ports", "add", "a", "--max-macs", "-1"]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("invalid value '-1' for '--max-macs <N>'") && !said.contains("-- -1"), "{said}");
}

#[test]
fn help_is_at_most_80_columns_wide() {
    for words in
        [&["--help"][..], &["guest", "--help"], &["gen", "--help"], &["bench", "-h"], &["ports", "add", "-h"]]
    {
        let help = stdout(&linerate(words));
        let long = help.lines().find(|line| line.chars().count() > 80 && !line.contains("--"));
        assert_eq!(long, None, "{words:?}");
    }
}

/// Root is exempt: it may connect to any socket.
#[test]
fn a_control_socket_without_permission_is_named_as_such() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("control");
    let _listener = UnixListener::bind(&socket).unwrap();
    std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o000)).unwrap();
    let output = linerate(&["--control", &socket.display().to_string(), "status"]);
    if UnixStream::connect(&socket).is_err() {
        let said = stderr(&output);
        let expected = format!("linerate: control socket {}: Permission denied", socket.display());
        assert!(said.starts_with(&expected) && said.contains("remedy: run as user "), "{said}");
    }
}

const VERBS: [&str; 14] = [
    "run",
    "check",
    "snippet",
    "status",
    "top",
    "ports",
    "fdb",
    "workers",
    "stop",
    "demo",
    "guest",
    "lab",
    "completions",
    "man",
];

#[test]
fn the_laboratory_is_a_program_beside_this_one() {
    let folder = tempfile::tempdir().unwrap();
    let alone = folder.path().join("linerate");
    fs::copy(env!("CARGO_BIN_EXE_linerate"), &alone).unwrap();
    let output = Command::new(&alone).args(["lab", "list"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("linerate-lab") && stderr(&output).contains("remedy: "),
        "{}",
        stderr(&output)
    );
    let script = "#!/bin/sh\necho \"$@\"\nexit 3\n";
    let lab = folder.path().join("linerate-lab");
    fs::write(&lab, script).unwrap();
    fs::set_permissions(&lab, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let output = Command::new(&alone).args(["lab", "run", "--help", "-o", "json"]).output().unwrap();
    assert_eq!((output.status.code(), stdout(&output).trim()), (Some(3), "run --help -o json"));
}

#[test]
fn completions_know_every_verb() {
    for shell in ["bash", "zsh", "fish"] {
        let output = linerate(&["completions", shell]);
        assert!(output.status.success() && stdout(&output).contains("LINERATE_COMPLETE"), "{shell}");
    }
    let candidates = completed(&[""]);
    for verb in VERBS {
        assert!(candidates.contains(&verb.to_owned()), "{candidates:?} is without {verb}");
    }
}

/// Candidates for the last of these words, as fish asks for them.
fn completed(words: &[&str]) -> Vec<String> {
    let words = [&["--", "linerate"], words].concat();
    let output = command(&words).env("LINERATE_COMPLETE", "fish").output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output).lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect()
}

#[test]
fn completions_list_the_ports_of_the_running_switch() {
    let switch = Switch::start();
    switch.wait_until(|switch| switch.ask(&["status"]).status.success());
    let socket = switch.path("b.sock");
    assert!(switch.ask(&["ports", "add", "b", "--socket", &socket]).status.success());
    let control = switch.path("c.sock");
    for words in [
        &["ports", "show", ""][..],
        &["ports", "remove", ""],
        &["snippet", ""],
        &["fdb", "show", "--port", ""],
    ] {
        let found = completed(&[&["--control", &control], words].concat());
        assert!(["a", "b"].iter().all(|name| found.contains(&(*name).to_owned())), "{words:?}: {found:?}");
    }
    let found = completed(&["--control", &control, "bridges", "show", ""]);
    assert!(found.contains(&"main".to_owned()), "{found:?}");
    let added = completed(&["--control", &control, "ports", "add", ""]);
    assert!(!added.contains(&"b".to_owned()), "{added:?}");
}

#[test]
fn man_pages_exist_for_every_verb_and_the_first_names_them_all() {
    let page = stdout(&linerate(&["man"]));
    for verb in VERBS {
        assert!(page.contains(&format!("linerate\\-{verb}(1)")), "{verb}");
    }
    let dir = tempfile::tempdir().unwrap();
    assert!(linerate(&["man", "--out", &dir.path().display().to_string()]).status.success());
    for verb in VERBS.iter().chain(&["ports-add", "fdb-flush", "fdb-remove", "workers-show"]) {
        let page = fs::read_to_string(dir.path().join(format!("linerate-{verb}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS"), "{verb}");
    }
    assert_eq!(linerate(&["man", "--out", "/dev/null/pages"]).status.code(), Some(2));
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let mut child =
        command(&["completions", "bash"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
}

#[test]
fn every_example_is_a_topology() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let mut seen = 0;
    for entry in fs::read_dir(examples).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|kind| kind != "toml") || path.ends_with("Cargo.toml") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        // Directories and CPUs of the examples depend on the machine and are replaced or removed. Everything else
        // must be valid.
        let dir = tempfile::tempdir().unwrap();
        let here = text.replace("/run/linerate", &dir.path().display().to_string());
        let here: Vec<&str> = here.lines().filter(|line| !line.starts_with("cpu =")).collect();
        let file = dir.path().join("example.toml");
        fs::write(&file, here.join("\n")).unwrap();
        let output = linerate(&["check", &file.display().to_string()]);
        assert!(output.status.success(), "{}: {}", path.display(), stderr(&output));
        seen += 1;
    }
    assert!(seen >= 3);
}
