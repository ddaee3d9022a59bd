//! The hook of libvirt (`contrib/libvirt/qemu-hook`), called as libvirt calls it: with a domain and an operation as
//! arguments, and the domain's XML on standard input.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use linerate_tests::switch::Switch;
use linerate_tests::{binary, folder, need};

/// A domain with two ports, one of which states its name, and with an interface for which the switch has a port.
fn domain(folder: &Path) -> String {
    let socket = |name: &str| folder.join(name).display().to_string();
    format!(
        "<domain type='kvm'>\n<name>web</name>\n<metadata>\n<other:thing xmlns:other='urn:other'/>\n\
         <linerate:ports xmlns:linerate='urn:linerate:ports'>\n\
         <linerate:port socket='{}' bridge='lan' queue_pairs='2'/>\n\
         <linerate:port socket='{}' name='second' bridge='lan'/>\n\
         </linerate:ports>\n</metadata>\n<devices>\n\
         <interface type='vhostuser'><source type='unix' path='{}' mode='client'/></interface>\n\
         </devices>\n</domain>\n",
        socket("web.sock"),
        socket("2.sock"),
        socket("own.sock"),
    )
}

fn hook(folder: &Path, operation: [&str; 2], xml: &str) -> Output {
    need::program("python3");
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../contrib/libvirt/qemu-hook");
    let mut child = Command::new("python3")
        .arg(path)
        .args(["web", operation[0], operation[1], "-"])
        .env("LINERATE", binary::linerate())
        .env("LINERATE_CONTROL", folder.join("control.sock"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("cannot run python3: {error}"));
    let written = child.stdin.take().map(|mut input| input.write_all(xml.as_bytes()));
    // An operation that the hook ignores ends it before it reads.
    drop(written);
    child.wait_with_output().unwrap_or_else(|error| panic!("the hook was lost: {error}"))
}

/// Names of the switch's ports, with their numbers of queue pairs.
fn ports(switch: &Switch) -> Vec<(String, u64)> {
    let ports = switch.ask(&["ports", "show"]).unwrap_or_else(|error| panic!("no ports: {error}"));
    let settings = ports.as_array().into_iter().flatten().map(|port| &port["settings"]);
    let facts = |settings: &serde_json::Value| {
        (
            settings["name"].as_str().unwrap_or_default().to_owned(),
            settings["queue_pairs"].as_u64().unwrap_or(0),
        )
    };
    let mut all: Vec<_> = settings.map(facts).collect();
    all.sort();
    all
}

#[test]
#[ignore = "needs python3: run by `cargo xtask test`"]
fn ports_come_and_leave_with_their_domain() {
    let folder = folder();
    let own = folder.path().join("own.sock");
    let text =
        format!("[[bridge]]\nname = \"lan\"\n[[port]]\nname = \"own\"\nsocket = \"{}\"\n", own.display());
    let switch = Switch::start_from(folder.path(), &text);
    let xml = domain(folder.path());
    let run = |operation| {
        let output = hook(folder.path(), operation, &xml);
        assert!(output.status.success(), "{operation:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let without = [("own".to_owned(), 1)];
    let with = [("own".to_owned(), 1), ("second".to_owned(), 1), ("web".to_owned(), 2)];

    run(["prepare", "begin"]);
    assert_eq!(ports(&switch), with);
    for operation in [["start", "begin"], ["started", "begin"], ["stopped", "end"], ["reconnect", "begin"]] {
        run(operation);
        assert_eq!(ports(&switch), with, "{operation:?}");
    }
    run(["release", "end"]);
    assert_eq!(ports(&switch), without);
    run(["release", "end"]);
    switch.stop();
}

#[test]
#[ignore = "needs python3: run by `cargo xtask test`"]
fn a_domain_whose_port_cannot_be_added_does_not_start() {
    let folder = folder();
    let switch = Switch::start_from(folder.path(), "[[bridge]]\nname = \"lan\"\n");
    let wrong = domain(folder.path()).replacen("bridge='lan'", "bridge='wan'", 1);
    let Output { status, stderr, .. } = hook(folder.path(), ["prepare", "begin"], &wrong);
    let said = String::from_utf8_lossy(&stderr);
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("linerate:") && said.contains("wan") && said.contains("remedy:"), "{said}");
    switch.stop();
    let Output { status, stderr, .. } = hook(folder.path(), ["prepare", "begin"], &domain(folder.path()));
    let said = String::from_utf8_lossy(&stderr);
    assert_eq!(status.code(), Some(1), "without a switch: {said}");
    assert!(said.contains("no switch answers on"), "{said}");
}
