//! `linerate check` with invalid and malicious files: one error per invalid entry, with its line, reason and
//! remedy, exit code 2, and no output on standard output.

use super::common::command;
use std::fs;
use std::path::Path;
use std::process::Output;

fn check(file: &Path) -> Output {
    command(&["check"]).arg(file).output().unwrap()
}

/// Errors of a file, without its name: `LINE: REASON -> REMEDY`.
fn said(file: &Path) -> Vec<String> {
    let output = check(file);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert_eq!(output.stdout, b"");
    let name = file.display().to_string();
    let errors = errors.replace("\n    remedy: ", " -> ");
    errors.lines().map(|line| line.strip_prefix(&name).unwrap().trim_start_matches(':').to_owned()).collect()
}

fn validated(text: impl AsRef<[u8]>) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("s.toml");
    fs::write(&file, text).unwrap();
    said(&file)
}

/// A valid port.
const PORT: &str = "[[port]]\nname = \"a\"\nsocket = \"/tmp/lr-check-a.sock\"\n";

/// Lines that follow [`PORT`], with all expected errors.
const AFTER_A_PORT: [(&str, &[&str]); 17] = [
    (
        "vlan = 0",
        &["4: port \"a\": invalid value 0 for `vlan`: expected 1 to 4094 -> give 1 to 4094 as a VLAN"],
    ),
    (
        "vlan = { trunk = [1, 4095, 1], native = 0 }",
        &[
            "4: port \"a\": invalid value 0 for `native`: expected 1 to 4094 -> give 1 to 4094 as a VLAN",
            "4: port \"a\": invalid value 4095 in `trunk`: expected 1 to 4094 -> list VLANs from 1 to 4094",
            "4: port \"a\": `trunk` lists VLAN 1 twice -> list it once",
        ],
    ),
    (
        "socket_mode = \"0999\"",
        &["4: port \"a\": invalid value \"0999\" for `socket_mode`: expected a permission in octal \
            -> write it as \"0660\""],
    ),
    (
        "socket_group = \"no such group\"",
        &["4: port \"a\": there is no group \"no such group\" on this machine \
            -> write the name or number of a group"],
    ),
    (
        "mode = \"client\"\nsocket_owner = \"root\"",
        &["5: port \"a\": `socket_owner` is not supported: the port creates no socket file \
            -> remove it, or write mode = \"server\" and a path"],
    ),
    ("queue_pair = 2", &["4: port \"a\": unknown key `queue_pair` -> did you mean `queue_pairs`?"]),
    ("MTU = 1500", &["4: port \"a\": unknown key `MTU` -> did you mean `mtu`?"]),
    ("mtu = 1500\nmtu = 9000", &["5: syntax: duplicate key -> remove one of the two"]),
    (
        "[[port]]\nname = \"a\"\nsocket = \"/tmp/lr-check-b.sock\"",
        &["5: port \"a\": a port of this name already exists (line 2) -> rename one of them"],
    ),
    (
        "[[port]]\nname = \"b\"\nsocket = \"/tmp/../tmp//./lr-check-a.sock\"",
        &["6: port \"b\": `socket` /tmp/../tmp//./lr-check-a.sock is already used by port \"a\" (line 3) \
            -> give each port a socket of its own"],
    ),
    (
        "[switch]\ncontrol = \"/tmp/./lr-check-a.sock\"",
        &["3: port \"a\": `socket` is the control socket -> give the port a path of its own"],
    ),
    (
        "[switch]\ncontrol = \"/tmp/lr-check\"\n[[port]]\nname = \"b\"\nsocket = \"/tmp/lr-check.lock\"",
        &["8: port \"b\": `socket` is the control socket's lock -> give the port a path of its own"],
    ),
    (
        "[switch]\nname = \"x\"\n[switch]\nname = \"y\"\n",
        &["6: syntax: duplicate key -> remove one of the two"],
    ),
    (
        "bridge = \"lam\"\n[[bridge]]\nname = \"lan\"",
        &["4: port \"a\": there is no bridge \"lam\" -> did you mean \"lan\"?"],
    ),
    (
        "[[bridge]]\nname = \"b\"\ntable = 99999999999999999999999999999999999999999",
        &["6: bridge \"b\": `table` is a number out of range -> give 16 to 16777216 addresses"],
    ),
    (
        "[[bridge]]\nname = \"b\"\n[[bridge.static]]\nmac = \"ff:ff:ff:ff:ff:ff\"\nport = \"b\"",
        &[
            "7: bridge \"b\", static entry 0: `mac` ff:ff:ff:ff:ff:ff is a group address or zero \
                -> write the address of one station, such as 02:00:00:00:00:01",
            "8: bridge \"b\", static entry 0: there is no port \"b\" \
                -> name \"a\", or add a [[port]] section with this name",
        ],
    ),
    (
        "[[worker]]\npolling = true\nqueue_full = \"Drop\"",
        &[
            "5: worker 0: `polling` is true or false, not \"adaptive\" or \"busy\" -> write \"adaptive\" or \"busy\"",
            "6: worker 0: invalid value \"Drop\" for `queue_full`: expected \"drop\" or \"wait\" -> write \"drop\" or \"wait\"",
        ],
    ),
];

#[test]
fn errors_beside_a_valid_port_are_reported() {
    for (text, expected) in AFTER_A_PORT {
        assert_eq!(validated(format!("{PORT}{text}\n")), expected, "{text}");
    }
}

/// Complete files, with all expected errors.
const FILES: [(&str, &[&str]); 11] = [
    (
        "[[port]]\nname = 5\nsocket = [\"x\"]\n",
        &[
            "2: port 0: `name` is an integer, not a string -> write a string",
            "3: port 0: `socket` is a list, not a string -> write a string",
        ],
    ),
    (
        "[[port]]\nname = \"a\"\nsokcet = \"/tmp/a\"\n",
        &["3: port \"a\": unknown key `sokcet` -> did you mean `socket`?"],
    ),
    (
        "\u{feff}[[worker]]\r\ncpu = 65000\r\n",
        &["2: worker 0: CPU 65000 is not online -> choose one of CPUS"],
    ),
    (
        "{\"port\": [{\"name\": \"a\"}]}\n",
        &["1: this is JSON, and a configuration is TOML \
            -> write it as TOML: [[port]], and below it lines such as: name = \"guest-a\""],
    ),
    (
        "port:\n  - name: a\n",
        &[
            "1: syntax: key with no value, expected `=` -> write KEY = VALUE, a [section], or # and a comment",
            "2: syntax: key with no value, expected `=` -> write KEY = VALUE, a [section], or # and a comment",
        ],
    ),
    (
        "[[port]]\nname = a\nsocket = “/tmp/a”\n",
        &[
            "2: syntax: string values must be quoted, expected literal string \
                -> put the value between plain double quotes",
            "3: syntax: string values must be quoted, expected literal string \
                -> put the value between plain double quotes",
        ],
    ),
    (
        "[port]\nname = \"a\"\n",
        &["1: `port` is a table, not a list of sections -> write [[port]], with two brackets on each side"],
    ),
    (
        "[[port]]\nname = \"\\u001b[2J\"\nsocket = \"/tmp/a\\u0000\"\n",
        &[
            "2: port \"\\u{1b}[2J\": `name` contains '\\u{1b}' \
                -> write 1 to 32 letters, digits, dots, dashes or underscores, \
                and begin with a letter or digit",
            "3: port \"\\u{1b}[2J\": `socket` /tmp/a\\u{0}: the path contains a zero byte -> remove it",
        ],
    ),
    (
        "[[port]]\nname = \"a\"\nsocket = \"/lr-nowhere/a.sock\"\n",
        &["3: port \"a\": `socket` /lr-nowhere/a.sock: its directory does not exist -> mkdir -p /lr-nowhere"],
    ),
    (
        "[[port]]\nname = \"a\"\nsocket = \"~/a.sock\"\n",
        &["3: port \"a\": `socket` ~/a.sock: the path is not absolute \
            -> begin it with /, so that guests use the same file"],
    ),
    (
        "[[port]]\nname = \"a\"\nsocket = \"/tmp/lr-check/\"\n",
        &["3: port \"a\": `socket` /tmp/lr-check/: the path is a directory -> add the socket's own name"],
    ),
];

#[test]
fn invalid_files_are_rejected() {
    for (text, expected) in FILES {
        let found = validated(text);
        // Available CPUs depend on the machine.
        let found: Vec<String> = found.iter().map(|line| anonymous(line)).collect();
        assert_eq!(found, expected, "{text}");
    }
}

fn anonymous(line: &str) -> String {
    match line.split_once("choose one of ") {
        Some((before, list)) if list.starts_with(|c: char| c.is_ascii_digit()) => {
            format!("{before}choose one of CPUS")
        }
        _ => line.to_owned(),
    }
}

#[test]
fn invalid_text_is_rejected_with_place_and_remedy() {
    assert_eq!(
        validated(b"[[port]]\nname = \"\xff\"\n"),
        ["2: is not text in UTF-8 -> name a TOML file, and save it as UTF-8"]
    );
    let hidden = format!("{PORT}bridge = \"a\0b\"\n");
    let [said] = validated(hidden).try_into().unwrap();
    assert!(said.starts_with("4: syntax: ") && said.ends_with("remove the invisible character"), "{said}");
    let long = format!("[[port]]\nname = \"a\"\nsocket = \"/tmp/{}\"\n", "x".repeat(200));
    let [said] = validated(long).try_into().unwrap();
    assert!(
        said.ends_with(
            "the path has 205 bytes, and a Unix socket's has room for 107 -> choose a shorter one"
        )
    );
    let deep = format!("x = {}{}\n", "[".repeat(5000), "]".repeat(5000));
    assert_eq!(validated(deep).len(), 1);
}

#[test]
fn files_that_are_too_large_or_none_are_refused_at_once() {
    let [said] = validated("# a comment\n".repeat(2 << 20)).try_into().unwrap();
    assert_eq!(said, " is larger than 16 MiB, the limit of a configuration -> name a TOML file");
    let ports = (0..3_000).map(|i| format!("[[port]]\nname = \"p{i}\"\nsocket = \"/tmp/lr-p{i}\"\n"));
    let [said] = validated(ports.collect::<String>()).try_into().unwrap();
    assert!(
        said.starts_with("3073: port \"p1024\": there are 3000 ports, and the maximum is 1024"),
        "{said}"
    );
    for path in ["/", "/dev/zero", "/lr-nowhere.toml"] {
        assert!(said_of(path).contains(" -> name a "), "{path}");
    }
}

fn said_of(path: &str) -> String {
    said(Path::new(path)).join("\n")
}

/// A valid file of two megabytes is accepted; a file without sections is rejected.
#[test]
fn a_large_file_is_valid_and_an_empty_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("s.toml");
    let comments = "# nothing is said here, at some length\n".repeat(60_000);
    let entry = |i: u32| {
        format!("[[bridge.static]]\nmac = \"02:00:00:00:{:02x}:{:02x}\"\nport = \"a\"\n", i >> 8, i & 255)
    };
    let many: String = (0..10_000).map(entry).collect();
    let many = format!("{PORT}[[bridge]]\nname = \"lan\"\n{many}");
    for text in [&format!("{comments}[switch]\n"), &many] {
        fs::write(&file, text).unwrap();
        let output = check(&file);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    for text in ["", "\n\n", &comments] {
        fs::write(&file, text).unwrap();
        assert_eq!(
            said(&file),
            [" the file has no section -> write at least a [switch] or a [[port]] section"]
        );
    }
}
