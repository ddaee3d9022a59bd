//! Network namespaces: each has its own interfaces, addresses and routes.
//!
//! A namespace has a unique name under `/run/netns` and is deleted on drop, with its unused interfaces. A killed run
//! leaves its namespaces behind, so creating one first removes those whose process has ended. Requires root.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::fd::AsFd;
use rustix::fs::{Mode, OFlags};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;

use crate::process::Process;
use crate::{need, wait};

const FOLDER: &str = "/run/netns";
/// Prefix of all names; followed by the process ID and a number.
const PREFIX: &str = "linerate-";
/// Time limit of a program in a namespace.
const LIMIT: Duration = Duration::from_mins(1);
/// Time limit of a server's start.
const START: Duration = Duration::from_secs(10);

static MADE: AtomicU32 = AtomicU32::new(0);

/// A network namespace; deleted on drop.
#[derive(Debug)]
pub struct Netns {
    name: String,
}

impl Netns {
    /// Creates a namespace with only a loopback interface, which is up. IPv6 addresses are usable at once, without
    /// duplicate address detection.
    pub fn new() -> Netns {
        sweep();
        Netns::make(format!("{PREFIX}{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed)))
    }

    /// Deletes the name and creates a new namespace with it, after `meanwhile`. The old namespace exists while it is
    /// in use.
    #[must_use]
    pub fn replace(self, meanwhile: impl FnOnce()) -> Netns {
        let name = self.name.clone();
        self.vanish();
        meanwhile();
        Netns::make(name)
    }

    fn make(name: String) -> Netns {
        need::root("a network namespace");
        tool("ip", &["netns", "add", &name]);
        let netns = Netns { name };
        for scope in ["all", "default"] {
            netns.set(&format!("net/ipv6/conf/{scope}/accept_dad"), 0);
        }
        netns.ip("link set lo up");
        netns
    }

    /// Switches IPv6 off on all interfaces, present and later ones, so that the kernel sends no packets of its own:
    /// router solicitations and listener reports.
    pub fn disable_ipv6(&self) {
        for scope in ["all", "default"] {
            self.set(&format!("net/ipv6/conf/{scope}/disable_ipv6"), 1);
        }
    }

    /// Sets a variable of the kernel, such as `net/ipv4/tcp_ecn`, without starting a process.
    pub fn set(&self, variable: &str, value: u32) {
        let file = Path::new("/proc/sys").join(variable);
        self.enter(move || {
            let set = std::fs::write(&file, value.to_string());
            set.unwrap_or_else(|error| panic!("cannot write {}: {error}", file.display()));
        });
    }

    /// Name, as used by `ip netns` and a port's `netns`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Path of its file.
    pub fn path(&self) -> PathBuf {
        Path::new(FOLDER).join(&self.name)
    }

    /// Runs a program inside and returns its output. Panics if it fails.
    pub fn run<S: AsRef<OsStr> + std::fmt::Debug>(&self, program: &str, arguments: &[S]) -> String {
        let done = self.attempt(program, arguments);
        done.unwrap_or_else(|error| panic!("{program} {arguments:?} in {}: {error}", self.name))
    }

    /// [`Netns::run`] that returns the error output if the program fails.
    pub fn attempt<S: AsRef<OsStr>>(&self, program: &str, arguments: &[S]) -> Result<String, String> {
        // Programs may wait forever for what the switch does not do, unlike `ip` itself.
        let limit = LIMIT.as_secs().to_string();
        let limited = ["--kill-after=5", &limit, "ip"].map(OsStr::new);
        attempt("timeout", &[&limited, &self.words(program, arguments)[..]].concat())
    }

    /// Starts a program inside, in the background.
    pub fn spawn<S: AsRef<OsStr>>(
        &self,
        folder: &Path,
        name: &str,
        program: &str,
        arguments: &[S],
    ) -> Process {
        Process::spawn(folder, name, "ip", &self.words(program, arguments))
    }

    fn words<'a, S: AsRef<OsStr>>(&'a self, program: &'a str, arguments: &'a [S]) -> Vec<&'a OsStr> {
        need::program(program);
        let inside = ["netns", "exec", &self.name, program].map(OsStr::new);
        inside.into_iter().chain(arguments.iter().map(AsRef::as_ref)).collect()
    }

    /// Runs `work` on a thread inside. Sockets that it creates stay in the namespace.
    pub fn enter<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let place = rustix::fs::open(self.path(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        let place = place.unwrap_or_else(|error| panic!("{self:?}: {error}"));
        // A separate thread enters the namespace, so that it does not have to return.
        let thread = std::thread::spawn(move || {
            let entered = move_into_link_name_space(place.as_fd(), Some(LinkNameSpaceType::Network));
            entered.unwrap_or_else(|error| panic!("cannot enter a namespace: {error}"));
            work()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Runs `ip` inside with the words of `line`, such as `link set eth0 up`.
    pub fn ip(&self, line: &str) -> String {
        let words: Vec<_> = line.split_whitespace().collect();
        tool("ip", &[&["-netns", &self.name], &words[..]].concat())
    }

    /// Output of `ip -json` for an interface; `None` if it does not exist.
    pub fn link(&self, interface: &str) -> Option<Value> {
        let words = ["-netns", &self.name, "-json", "-details", "link", "show", "dev", interface];
        let said = attempt("ip", &words).ok()?;
        serde_json::from_str::<Value>(&said).ok()?.as_array()?.first().cloned()
    }

    /// Waits until an interface exists, or does not. Panics after `limit`.
    pub fn wait_link(&self, interface: &str, there: bool, limit: Duration) {
        let reached = wait::until(limit, || (self.link(interface).is_some() == there).then_some(()));
        let wanted = if there { "appear" } else { "go" };
        assert!(reached.is_some(), "{interface} did not {wanted} in {limit:?} in {}", self.name);
    }

    /// Assigns addresses with prefix lengths to an interface, such as `10.9.0.1/24` or `fd00::1/64`, and sets it up.
    pub fn configure(&self, interface: &str, addresses: &[&str]) {
        for address in addresses {
            self.ip(&format!("address replace {address} dev {interface} {}", if_six(address)));
        }
        self.ip(&format!("link set {interface} up"));
    }

    /// Sets the MTU of an interface.
    pub fn set_mtu(&self, interface: &str, mtu: u32) {
        self.ip(&format!("link set {interface} mtu {mtu}"));
    }

    /// A counter of the kernel for an interface, such as `rx_packets`.
    pub fn statistic(&self, interface: &str, name: &str) -> u64 {
        let file = format!("/sys/class/net/{interface}/statistics/{name}");
        let text = self.run("cat", &[&file]);
        text.trim().parse().unwrap_or_else(|error| panic!("{file} holds {text:?}: {error}"))
    }

    /// Pings an address, IPv4 or IPv6, until it answers `count` times in one run. Panics after a minute.
    pub fn ping(&self, address: &str, count: u32, more: &[&str]) {
        let count = count.to_string();
        let words = [&["-n", "-q", "-i", "0.05", "-W", "2", "-c", &count], more, &[address]].concat();
        let mut last = String::new();
        let answered = wait::until(LIMIT, || match self.attempt("ping", &words) {
            Ok(said) => said.contains(" 0% packet loss").then_some(()),
            Err(said) => {
                last = said;
                None
            }
        });
        assert!(answered.is_some(), "{address} did not answer in {}: {last}", self.name);
    }

    /// Waits until a program listens on a TCP port, at any address. Panics with the output of `server` if it does not.
    #[track_caller]
    pub fn await_listener(&self, port: u16, server: &Process) {
        let listens = || self.enter(move || has_listener(port)).then_some(());
        let found = wait::until(START, listens);
        assert!(found.is_some(), "no program listens on port {port} in {}: {}", self.name, server.output());
    }

    /// Creates a veth pair with one interface here and one in `other`, and sets both up.
    pub fn cable(&self, here: &str, other: &Netns, there: &str) {
        let peer = format!("type veth peer name {there} netns {}", other.name);
        self.ip(&format!("link add {here} {peer}"));
        self.ip(&format!("link set {here} up"));
        other.ip(&format!("link set {there} up"));
    }

    /// Deletes the name, as `ip netns delete` does. The namespace exists while it is in use.
    pub fn vanish(self) {
        drop(self);
    }
}

impl Default for Netns {
    fn default() -> Netns {
        Netns::new()
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        if self.path().exists() {
            // A namespace that could not be removed is removed by the next run.
            let _ = attempt("ip", &["netns", "delete", &self.name]);
        }
    }
}

/// Disables duplicate address detection for an IPv6 address.
fn if_six(address: &str) -> &'static str {
    if address.contains(':') { "nodad" } else { "" }
}

/// Whether a program listens on a TCP port in the namespace of this thread. Starts no process, because waits ask often.
pub fn has_listener(port: u16) -> bool {
    ["tcp", "tcp6"].iter().any(|table| {
        let sockets = std::fs::read_to_string(format!("/proc/thread-self/net/{table}"));
        sockets.unwrap_or_default().lines().any(|line| is_listener(line, port))
    })
}

/// Whether a line of `/proc/net/tcp` is a socket that listens on `port`.
fn is_listener(line: &str, port: u16) -> bool {
    let mut words = line.split_ascii_whitespace().skip(1);
    let local = words.next().unwrap_or_default();
    // The state is 10 for a listener (include/net/tcp_states.h).
    local.ends_with(&format!(":{port:04X}")) && words.nth(1) == Some("0A")
}

/// Removes namespaces of killed runs.
fn sweep() {
    let names = std::fs::read_dir(FOLDER).into_iter().flatten().flatten().map(|entry| entry.file_name());
    for name in names.filter_map(|name| name.into_string().ok()) {
        if is_left_over(&name) {
            // Another run may be removing it too.
            let _ = attempt("ip", &["netns", "delete", &name]);
        }
    }
}

/// Whether a namespace is ours and its process has ended.
fn is_left_over(name: &str) -> bool {
    let rest = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-'));
    let process = rest.and_then(|(process, _)| process.parse::<u32>().ok());
    process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists())
}

fn tool<S: AsRef<OsStr> + std::fmt::Debug>(program: &str, arguments: &[S]) -> String {
    attempt(program, arguments).unwrap_or_else(|error| panic!("{program} {arguments:?}: {error}"))
}

fn attempt<S: AsRef<OsStr>>(program: &str, arguments: &[S]) -> Result<String, String> {
    need::program(program);
    let output = Command::new(program).args(arguments).output();
    let Output { status, stdout, stderr } = output.map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&stdout).into_owned();
    if status.success() {
        return Ok(said);
    }
    Err(format!("{status}: {said}{}", String::from_utf8_lossy(&stderr)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_namespaces_of_dead_processes_are_stale() {
        assert!(!is_left_over("blue") && !is_left_over("linerate-x-1") && !is_left_over("linerate-1"));
        assert!(!is_left_over(&format!("linerate-{}-0", std::process::id())));
        assert!(is_left_over(&format!("linerate-{}-0", u32::MAX)));
    }

    #[test]
    fn only_listeners_of_the_port_are_found() {
        let line = |state| {
            format!("  3: 0A09000A:1451 00000000:0000 {state} 00000000:00000000 00:00000000 00000000")
        };
        assert!(is_listener(&line("0A"), 5201));
        assert!(!is_listener(&line("01"), 5201) && !is_listener(&line("0A"), 520));
        assert!(!is_listener(
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt",
            5201
        ));
    }

    #[test]
    #[ignore = "needs root; run by `cargo xtask test`"]
    fn veth_connects_two_namespaces_and_is_removed() {
        let (left, right) = (Netns::new(), Netns::new());
        left.cable("eth0", &right, "eth0");
        left.configure("eth0", &["10.9.0.1/24", "fd09::1/64"]);
        right.configure("eth0", &["10.9.0.2/24", "fd09::2/64"]);
        left.set_mtu("eth0", 9000);
        assert_eq!(left.link("eth0").unwrap()["mtu"], 9000);
        left.ping("10.9.0.2", 2, &[]);
        right.ping("fd09::1", 2, &[]);
        assert!(right.statistic("eth0", "rx_packets") >= 2);
        let folder = crate::folder();
        // By time: some megabytes are sent before the receiver starts counting, and it stops counting with the
        // sender.
        let report = crate::iperf::iperf(folder.path(), &left, &right, "10.9.0.2", &["--time", "1"]);
        assert!(crate::iperf::received(&report) >= 1 << 20);
        let path = right.path();
        right.vanish();
        assert!(!path.exists());
        left.wait_link("eth0", false, Duration::from_secs(10));
    }
}
