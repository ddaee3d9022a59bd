//! The binary as a command: arguments, invalid input, and generated texts.

use super::common::{Switch, command, linerate, stderr, stdout};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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
fn invalid_input_of_serve_is_refused_with_a_remedy() {
    let tap = ["--address", "10.9.0.2/24", "--port", "kind=tap,interface=lr-x"];
    for (words, reason) in [
        (
            &["--port", "kind=tap,interface=lr-x,vlan=3"][..],
            "`vlan` is not supported for a port outside of a switch",
        ),
        (&["--port", "kind=null"], "remedy: name a port of another kind"),
        (&["--port", "tap"], "`tap` has no `=`"),
        (&["--gateway", "10.8.0.1"], "choose an address within 10.9.0.2/24"),
        (
            &["--route", "10.7.0.0/16=10.8.0.1"],
            "--route 10.7.0.0/16=10.8.0.1: the router is not in the network",
        ),
        (&["--route", "fd07::/64=10.9.0.1"], "network and router are of different IP versions"),
        (&["--neighbour", "10.9.0.1"], "expected two values with = between them"),
        (&["--mtu", "1000"], "1000 is not in 1280..=65535"),
        (&["--address", "10.9.0.2"], "expected an address with a prefix length"),
        (&["--workers", "4..2"], "the first number of a range is the lower one"),
        (&["--workers", "1..2", "--steering", "arrival"], "remedy: write --workers 2"),
        (&["--workers", "1..2", "--threads", "split"], "--workers 1..2: the load of a program"),
        (&["--threads", "merge"], "remedy: add --cpus with a CPU for each worker"),
    ] {
        let network = if words[0] == "--port" { &tap[..2] } else { &tap[..] };
        let output = linerate(&[&["serve", "echo"], network, words].concat());
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(stderr(&output).contains(reason), "{words:?}: {}", stderr(&output));
    }
}

#[test]
fn invalid_input_of_servers_is_refused_before_the_port_is_opened() {
    let end = ["--port", "kind=tap,interface=lr-x", "--address", "10.9.0.2/24"];
    for (words, reason) in [
        (&["http", "/nonexistent"][..], "remedy: choose a directory that can be read"),
        (&["http", "/", "--sqpoll", "--files", "copy"], "--files copy has no ring"),
        (&["kv", "--workers", "2", "--memory", "3MiB"], "write 4MiB or more, or use fewer --workers"),
        (&["kv", "--workers", "1..2"], "the keys of a store are divided among all workers"),
        (&["kv", "--threads", "merge"], "remedy: add --cpus with a CPU for each worker"),
        (&["sockets", "--listen", "/nonexistent/s", "--threads", "split"], "remedy: leave --threads out"),
        (&["sockets", "--listen", "/nonexistent/s", "--workers", "33"], "33 is not in 1..=32"),
    ] {
        let output = linerate(&[&["serve"], words, &end[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(reason), "{words:?}: {}", stderr(&output));
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
fn invalid_file_is_reported_and_nothing_starts() {
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
fn socket_of_another_program_is_not_removed() {
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
    each_command(&mut Vec::new());
}

/// Checks the pages of help of a command and of all below it.
fn each_command(words: &mut Vec<String>) {
    for flag in ["-h", "--help"] {
        let all: Vec<&str> = words.iter().map(String::as_str).chain([flag]).collect();
        let help = stdout(&linerate(&all));
        let long = help.lines().find(|line| line.chars().count() > 80);
        assert_eq!(long, None, "{all:?}");
        if flag == "--help" {
            for name in subcommands(&help) {
                words.push(name);
                each_command(words);
                words.pop();
            }
        }
    }
}

/// Names in the section "Commands" of a page.
fn subcommands(help: &str) -> Vec<String> {
    let section = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let rows = section.take_while(|line| !line.is_empty()).filter_map(|line| line.strip_prefix("  "));
    let names = rows.filter(|row| !row.starts_with(' ')).filter_map(|row| row.split(' ').next());
    names.filter(|name| !["help", "lab"].contains(name)).map(str::to_owned).collect()
}

#[test]
fn errors_begin_with_the_program_and_do_not_advise_two_dashes() {
    for wrong in [
        &["ports", "show", "-1"][..],
        &["check", "-1"],
        &["ports", "add", "r", "--interface", "x"],
        &["gen", "--foo"],
    ] {
        let output = linerate(wrong);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {said}");
        assert!(said.starts_with("linerate: unexpected argument") && !said.contains("'-- "), "{said}");
    }
}

/// Runs a shell in `folder` that creates a program. A program that this process writes may not start: if another test
/// starts one meanwhile, that one has the file open for writing, too.
fn make(folder: &Path, script: &str) {
    assert!(Command::new("sh").args(["-c", script]).current_dir(folder).status().unwrap().success());
}

/// A copy of the program in `folder`.
pub(super) fn copied(folder: &Path) -> PathBuf {
    make(folder, concat!("cp '", env!("CARGO_BIN_EXE_linerate"), "' linerate"));
    folder.join("linerate")
}

/// Root may connect to any socket, so another user runs the program.
#[test]
fn control_socket_without_permission_is_reported_with_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let socket = dir.path().join("control");
    let _listener = UnixListener::bind(&socket).unwrap();
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o000)).unwrap();
    // The folder with the binary permits no access.
    let binary = copied(dir.path());
    let mut command = Command::new(&binary);
    command.args(["--control", &socket.display().to_string(), "status"]);
    if rustix::process::getuid().is_root() {
        command.uid(65_534).gid(65_534);
    }
    let said = stderr(&command.output().unwrap());
    let expected = format!("linerate: control socket {}: Permission denied", socket.display());
    assert!(said.starts_with(&expected) && said.contains("remedy: run as user "), "{said}");
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
    let alone = copied(folder.path());
    let output = Command::new(&alone).args(["lab", "list"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("linerate-lab") && stderr(&output).contains("remedy: "),
        "{}",
        stderr(&output)
    );
    let script = r#"printf '#!/bin/sh\necho "$@"\nexit 3\n' >linerate-lab && chmod 755 linerate-lab"#;
    make(folder.path(), script);
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
    let verbs = completed(&["ports", ""]);
    assert!(verbs.contains(&"remove".to_owned()) && !verbs.contains(&"del".to_owned()), "{verbs:?}");
    assert!(completed(&["ports", "del", "--"]).contains(&"--output".to_owned()), "the alias is understood");
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
        &["trace", "--in-port", ""],
        &["bonds", "add", "x", "--ports", ""],
        &["mirrors", "add", "x", "--source-ports", ""],
        &["mirrors", "add", "x", "--destination-ports", ""],
        &["mirrors", "add", "x", "--output-port", ""],
    ] {
        let found = completed(&[&["--control", &control], words].concat());
        assert!(["a", "b"].iter().all(|name| found.contains(&(*name).to_owned())), "{words:?}: {found:?}");
    }
    assert!(switch.ask(&["mirrors", "add", "copies", "--all", "--output-port", "b"]).status.success());
    for (noun, name) in [("bridges", "main"), ("mirrors", "copies")] {
        let found = completed(&["--control", &control, noun, "show", ""]);
        assert!(found.contains(&name.to_owned()), "{noun}: {found:?}");
    }
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
