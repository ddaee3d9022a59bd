//! Confinement: what the threads of a running switch may do, by `/proc`, while packets flow; and ports that need more.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use linerate_tests::guest::Guest;
use linerate_tests::netns::Netns;
use linerate_tests::switch::{Port, Switch, configuration};
use linerate_tests::{folder, wait};
use rustix::process::{Pid, Signal, kill_process};

const LIMIT: Duration = Duration::from_secs(20);
/// Bits of capabilities (`linux/capability.h`).
const FILES: u64 = 1 << 0 | 1 << 1 | 1 << 3;
const NET_ADMIN: u64 = 1 << 12;
const IPC_LOCK: u64 = 1 << 14;
const SYS_ADMIN: u64 = 1 << 21;
const SYS_PTRACE: u64 = 1 << 19;

/// One thread in `/proc`.
#[derive(Debug)]
struct Thread {
    capabilities: u64,
    no_new_privileges: bool,
    seccomp: u64,
    filters: u64,
}

/// The threads of a process by name.
fn threads(pid: u32) -> BTreeMap<String, Thread> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("threads");
    let thread = |task: fs::DirEntry| {
        let status = fs::read_to_string(task.path().join("status")).ok()?;
        let value = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
            line.map_or_else(|| panic!("no {key} in {status}"), str::trim).to_owned()
        };
        let number = |key: &str| value(key).parse::<u64>().expect("a number");
        Some((
            value("Name"),
            Thread {
                capabilities: u64::from_str_radix(&value("CapPrm"), 16).expect("a set"),
                no_new_privileges: number("NoNewPrivs") == 1,
                seccomp: number("Seccomp"),
                filters: number("Seccomp_filters"),
            },
        ))
    };
    tasks.filter_map(|task| thread(task.expect("a thread"))).collect()
}

/// Asserts that every thread is confined: workers and readers without capabilities, the others with some of `kept`.
fn assert_confined(switch: &Switch, kept: u64) {
    let gives_up = |name: &str| name.starts_with("worker") || name == "read-api";
    // The last thread of the start runs, and each thread has given up what it does not need, which it does itself.
    let all = || {
        Some(threads(switch.pid())).filter(|threads| {
            let mut confined = threads.iter().filter(|(name, _)| gives_up(name));
            let all = ["watchdog", "worker-0", "read-api"];
            all.iter().all(|name| threads.contains_key(*name))
                && confined.all(|(_, thread)| thread.capabilities == 0)
        })
    };
    let threads = wait::until(LIMIT, all).unwrap_or_else(|| threads(switch.pid()));
    let own = threads_of_test();
    assert!(threads.contains_key("worker-0") && threads.contains_key("read-api"), "{threads:?}");
    for (name, thread) in &threads {
        let may_keep = if gives_up(name) { 0 } else { kept & own };
        assert_eq!(thread.capabilities, may_keep, "{name}: {thread:?}");
        assert!(thread.no_new_privileges && thread.seccomp == 2, "{name}: {thread:?}");
    }
    assert!(threads["worker-0"].filters > threads["control"].filters, "{threads:?}");
}

/// Capabilities of this process, which are those of the switch before it gives them up.
fn threads_of_test() -> u64 {
    threads(std::process::id()).into_values().next().expect("a thread").capabilities
}

fn switch_section(folder: &std::path::Path, more: &str) -> String {
    format!("[switch]\nread_socket = \"{}\"\n{more}\n", folder.join("read.sock").display())
}

fn tap(name: &str, netns: &Netns) -> String {
    format!(
        "[[port]]\nname = \"{name}\"\nkind = \"tap\"\ninterface = \"eth0\"\nnetns = \"{}\"\n",
        netns.name()
    )
}

#[test]
#[ignore = "needs a switch: run by `cargo xtask test`"]
fn a_switch_of_guests_keeps_no_capability_for_interfaces_and_refuses_such_ports() {
    let folder = folder();
    let [a, b] = ["a.sock", "b.sock"].map(|name| folder.path().join(name));
    let port = |name, socket| Port { name, socket, client: false, pairs: 1 };
    let ports = configuration(&[0], &[port("a", &a), port("b", &b)]);
    let text = format!("{}{ports}", switch_section(folder.path(), "runtime_kinds = [\"null\"]"));
    let switch = Switch::start_from(folder.path(), &text);
    assert_confined(&switch, FILES);
    let receiver = Guest::endless(folder.path(), "receiver", "--connect", &[&b], &["--mode", "rxonly"]);
    let sender = Guest::endless(folder.path(), "sender", "--connect", &[&a], &["--mode", "txonly"]);
    let passed = wait::until(LIMIT, || (switch.counters("b").tx_packets > 10_000).then_some(()));
    assert!(passed.is_some(), "{:?}", switch.counters("b"));
    let error =
        switch.tell(&["ports", "add", "t", "--kind", "tap", "--set", "interface=lr-none"]).unwrap_err();
    for part in ["port \"t\"", "CAP_NET_ADMIN", "`runtime_kinds`", "\"tap\""] {
        assert!(error.contains(part), "{error}");
    }
    switch.tell(&["ports", "add", "n", "--kind", "null"]).expect("a port of a named kind");
    let status = switch.ask(&["status"]).expect("a status");
    assert_eq!(status["confinement"]["seccomp"], true, "{status}");
    assert_confined(&switch, FILES);
    drop((sender.end(), receiver.end()));
    switch.stop();
}

#[test]
#[ignore = "needs a switch and network namespaces: run by `cargo xtask test`"]
fn a_switch_of_interfaces_keeps_what_they_need_and_forwards() {
    let folder = folder();
    let (left, right) = (Netns::new(), Netns::new());
    let text = format!(
        "{}{}{}",
        switch_section(folder.path(), "runtime_kinds = []"),
        tap("l", &left),
        tap("r", &right)
    );
    let switch = Switch::start_from(folder.path(), &text);
    assert_confined(&switch, NET_ADMIN | IPC_LOCK | SYS_ADMIN | SYS_PTRACE | 1 << 1);
    left.configure("eth0", &["10.9.0.1/24"]);
    right.configure("eth0", &["10.9.0.2/24"]);
    for port in ["l", "r"] {
        switch.wait_state(port, "connected", LIMIT);
    }
    left.ping("10.9.0.2", 3, &[]);
    let error =
        switch.tell(&["ports", "add", "x", "--kind", "af_xdp", "--set", "interface=eth0"]).unwrap_err();
    assert!(error.contains("CAP_BPF") && error.contains("`runtime_kinds`"), "{error}");
    switch.tell(&["ports", "remove", "l"]).expect("the port");
    switch.stop();
}

#[test]
#[ignore = "needs a switch: run by `cargo xtask test`"]
fn a_switch_that_is_not_confined_keeps_everything() {
    let folder = folder();
    let text = format!(
        "{}[[port]]\nname = \"a\"\nkind = \"null\"\n",
        switch_section(folder.path(), "confine = false")
    );
    let switch = Switch::start_from(folder.path(), &text);
    for (name, thread) in threads(switch.pid()) {
        let is_free = thread.seccomp == 0 && !thread.no_new_privileges;
        assert!(is_free && thread.capabilities == threads_of_test(), "{name}: {thread:?}");
    }
    switch.stop();
}

#[test]
#[ignore = "needs a switch: run by `cargo xtask test`"]
fn files_of_requests_are_below_the_paths_and_the_kernel_agrees() {
    let (folder, outside) = (folder(), folder());
    let below = folder.path().display();
    let text = format!(
        "{}[[port]]\nname = \"a\"\nkind = \"null\"\n",
        switch_section(folder.path(), &format!("paths = [\"{below}\"]"))
    );
    let switch = Switch::start_from(folder.path(), &text);
    let status = switch.ask(&["status"]).expect("a status");
    let rules = status["confinement"]["file_rules"].as_str();
    assert!(["on", "in part", "not supported by the kernel"].map(Some).contains(&rules), "{status}");
    let add = |name: &str, file: &std::path::Path| {
        let write = format!("write={}", file.display());
        switch.tell(&["ports", "add", name, "--kind", "pcap", "--set", &write])
    };
    add("in", &folder.path().join("in.pcapng")).expect("a file below the directory");
    assert!(folder.path().join("in.pcapng").exists());
    std::os::unix::fs::symlink(outside.path(), folder.path().join("link")).expect("a link");
    for file in [
        outside.path().join("x.pcapng"),
        folder.path().join("link/x.pcapng"),
        folder.path().join("../x.pcapng"),
    ] {
        let error = add("out", &file).unwrap_err();
        assert!(error.contains("`write`") && error.contains("`paths`"), "{error}");
    }
    assert_eq!(fs::read_dir(outside.path()).expect("a folder").count(), 0);
    let guest = folder.path().join("guest.sock").display().to_string();
    switch.tell(&["ports", "add", "guest", "--socket", &guest]).expect("a socket below the directory");
    switch.stop();
}

#[test]
#[ignore = "needs the program: run by `cargo xtask test`"]
fn a_signal_that_ends_the_process_is_in_its_log() {
    let folder = folder();
    let mut switch = Switch::start_from(folder.path(), &configuration(&[0], &[]));
    let pid = Pid::from_raw(switch.pid().cast_signed()).expect("a process");
    kill_process(pid, Signal::ABORT).expect("a process");
    assert!(wait::until(LIMIT, || (!switch.is_running()).then_some(())).is_some(), "it runs");
    let sender = format!("\"sender\":{},", std::process::id());
    switch.wait_logged(&["a signal ends the process", "\"SIGABRT\"", &sender], LIMIT);
}
