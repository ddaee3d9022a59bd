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
    hook_of("web", folder, operation, xml)
}

/// Calls the hook for the domain called `name`.
fn hook_of(name: &str, folder: &Path, operation: [&str; 2], xml: &str) -> Output {
    need::program("python3");
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../contrib/libvirt/qemu-hook");
    let mut child = Command::new("python3")
        .arg(path)
        .args([name, operation[0], operation[1], "-"])
        .env("LINERATE", binary::linerate())
        .env("LINERATE_CONTROL", folder.join("control.sock"))
        .env("LINERATE_HOOK_STATE", folder.join("hook"))
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
    // The file has them, too.
    switch.tell(&["apply", &file(folder.path())]).expect("a valid file");
    assert_eq!(ports(&switch), with);
    // The domain ended without the hook, as by a loss of power.
    run(["prepare", "begin"]);
    assert_eq!(ports(&switch), with);
    run(["release", "end"]);
    assert_eq!(ports(&switch), without);
    run(["release", "end"]);
    switch.tell(&["apply", &file(folder.path())]).expect("a valid file");
    assert_eq!(ports(&switch), without);
    switch.stop();
}

/// The configuration file of the switch.
fn file(folder: &Path) -> String {
    folder.join("switch.toml").display().to_string()
}

#[test]
#[ignore = "needs python3: run by `cargo xtask test`"]
fn ports_of_others_are_neither_used_nor_removed() {
    let folder = folder();
    let socket = folder.path().join("admin.sock");
    let text = format!(
        "[[bridge]]\nname = \"lan\"\n[[port]]\nname = \"second\"\nsocket = \"{}\"\n",
        socket.display()
    );
    let switch = Switch::start_from(folder.path(), &text);
    let second = vec![("second".to_owned(), 1)];
    let (one, both) =
        (domain(folder.path()), domain(folder.path()).replace(" name='second'", " name='third'"));
    let run = |name, operation, xml: &str| hook_of(name, folder.path(), operation, xml);

    // A port of the file, and then one of another domain.
    let refused = |output: Output, port: &str| {
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(&format!("port \"{port}\"")) && said.contains("remedy:"), "{said}");
    };
    refused(run("web", ["prepare", "begin"], &one), "second");
    assert!(run("web", ["release", "end"], &one).status.success());
    assert_eq!(ports(&switch), second);

    assert!(run("web", ["prepare", "begin"], &both).status.success());
    let with = ports(&switch);
    assert_eq!(with.len(), 3, "{with:?}");
    refused(run("other", ["prepare", "begin"], &both), "web");
    assert!(run("other", ["release", "end"], &both).status.success());
    assert_eq!(ports(&switch), with);
    assert!(run("web", ["release", "end"], &both).status.success());
    assert_eq!(ports(&switch), second);
    switch.stop();
}

#[test]
#[ignore = "needs python3: run by `cargo xtask test`"]
fn ports_that_cannot_be_saved_are_added_with_a_warning() {
    let folder = folder();
    let switch = Switch::start_from(folder.path(), "[[bridge]]\nname = \"lan\"\n");
    // A file that differs from the one that the switch has read is not replaced.
    std::fs::write(file(folder.path()), "[[bridge]]\nname = \"lan\"\n# changed\n")
        .expect("a file of the test");
    let Output { status, stderr, .. } = hook(folder.path(), ["prepare", "begin"], &domain(folder.path()));
    let said = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{said}");
    assert!(
        said.contains("undoes the change of its ports") && said.contains("the file was changed"),
        "{said}"
    );
    assert_eq!(ports(&switch).len(), 2);
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
