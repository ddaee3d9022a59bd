//! Ports that a switch grants to applications: `linerate serve` asks for one, and the kernel in a namespace is its
//! client over a TAP port of the same bridge. The switch revokes grants, and holders hang and die.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use linerate_tests::capture::KernelCapture;
use linerate_tests::netns::Netns;
use linerate_tests::noise::Noise;
use linerate_tests::process::Process;
use linerate_tests::switch::Switch;
use linerate_tests::{binary, folder, tcp, wait};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::stack::exchange;

const LIMIT: Duration = Duration::from_secs(20);
const CLIENTS: [&str; 2] = ["10.9.0.1/24", "10.9.0.3/24"];
const OTHER: &str = "10.9.0.3";
/// Bytes of a file.
const FILE: u64 = 16_000_000;
const SERVER: &str = "10.9.0.2";
/// A user that may ask for ports, beside root, and one that may not.
const USERS: [&str; 2] = ["65534", "65533"];

/// Number of servers started, for the names of their logs.
static STARTED: AtomicU32 = AtomicU32::new(0);

/// A switch with two namespaces on its bridge, and a socket for grants.
struct Stage {
    switch: Switch,
    namespaces: [Netns; 2],
    grants: PathBuf,
}

impl Stage {
    fn start(folder: &Path) -> Stage {
        // Other users enter it.
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("the test's own folder");
        let (namespaces, grants) = ([Netns::new(), Netns::new()], folder.join("grants.sock"));
        let ports = namespaces.iter().enumerate().map(|(number, netns)| {
            let name = netns.name();
            format!("[[port]]\nname = \"host{number}\"\nkind = \"tap\"\ninterface = \"eth0\"\nnetns = \"{name}\"\n")
        });
        let text = format!(
            "[switch]\ngrants = \"{}\"\n[[worker]]\n{}[[grant]]\nusers = [\"0\", \"{}\"]\nports = 2\nmax_macs = 1\n",
            grants.display(),
            ports.collect::<String>(),
            USERS[0]
        );
        let switch = Switch::start_from(folder, &text);
        for (netns, address) in namespaces.iter().zip(CLIENTS) {
            netns.wait_link("eth0", true, LIMIT);
            netns.configure("eth0", &[address]);
        }
        Stage { switch, namespaces, grants }
    }

    /// Arguments of an echo server on a granted port.
    fn words(&self, more: &[&str]) -> Vec<String> {
        let port = format!("kind=grant,name=web,switch={}", self.grants.display());
        let address = format!("{SERVER}/24");
        let words = ["serve", "echo", "--port", &port, "--address", &address];
        words.iter().chain(more).map(|word| (*word).to_owned()).collect()
    }

    fn serve(&self, folder: &Path, more: &[&str]) -> Process {
        let name = format!("web{}", STARTED.fetch_add(1, Ordering::Relaxed));
        let mut server = Process::spawn(folder, &name, binary::linerate(), &self.words(more));
        server.wait_for("serves port 7", 0, LIMIT);
        server
    }

    /// Exchanges megabytes with the server.
    fn exchange(&self, seed: u64) {
        self.namespaces[0].enter(move || exchange(SERVER, seed));
    }

    /// The settings of the granted port, if it exists.
    fn granted(&self) -> Option<Value> {
        let ports = self.switch.ask(&["ports", "show"]).expect("the switch answers");
        let ports = ports.as_array().expect("a list");
        ports.iter().map(|port| port["settings"].clone()).find(|settings| settings["name"] == "web")
    }

    /// Waits until the port has gone, with its memory.
    fn wait_gone(&self) {
        let gone = wait::until(LIMIT, || self.granted().is_none().then_some(()));
        assert!(gone.is_some(), "{:?}", self.granted());
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.switch.pid())).expect("a process");
        assert!(!maps.contains("linerate-port"), "{maps}");
    }

    fn revoke(&self) {
        let removed = self.switch.ask(&["ports", "remove", "web"]).expect("the port is removed");
        assert_eq!(removed["kind"], "granted", "{removed}");
    }
}

#[track_caller]
fn check_revoked(server: &mut Process) {
    let (status, output) = (server.finish(LIMIT), server.output());
    assert_eq!(status.code(), Some(1), "{output}");
    assert!(output.contains("port web: the grant ended: revoked by the switch"), "{output}");
}

/// Sends and receives on one connection until `stop` is set or the connection fails. Returns the bytes received.
fn traffic(stop: &AtomicBool) -> usize {
    let mut stream = tcp::connect(SERVER, 7, LIMIT);
    stream.set_read_timeout(Some(Duration::from_millis(100))).expect("a time limit");
    stream.set_write_timeout(Some(Duration::from_millis(100))).expect("a time limit");
    let (mut bytes, mut received) = (0, vec![0; 1 << 16]);
    while !stop.load(Ordering::Relaxed) && stream.write_all(&received[..1 << 14]).is_ok() {
        match stream.read(&mut received) {
            Ok(0) | Err(_) => break,
            Ok(n) => bytes += n,
        }
    }
    bytes
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn revoked_server_ends_with_the_reason_and_other_traffic_goes_on() {
    let folder = folder();
    let stage = Stage::start(folder.path());
    let mut server = stage.serve(folder.path(), &[]);
    let settings = stage.granted().expect("a port");
    assert_eq!((&settings["kind"], &settings["uid"]), (&"granted".into(), &0.into()), "{settings}");
    assert_eq!(settings["pid"], server.pid(), "{settings}");
    let shown = String::from_utf8(stage.switch.tell(&["ports", "show"]).expect("a table")).expect("text");
    assert!(shown.contains(&format!("process {} of user 0", server.pid())), "{shown}");
    stage.exchange(1);
    let others = ["-n", "-q", "-i", "0.01", "-c", "300", OTHER];
    let mut others = stage.namespaces[0].spawn(folder.path(), "ping", "ping", &others);
    let stop = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        let flag = stop.clone();
        let client = scope.spawn(|| stage.namespaces[0].enter(move || traffic(&flag)));
        let before = stage.switch.counters("web").rx_packets;
        let flows =
            wait::until(LIMIT, || (stage.switch.counters("web").rx_packets > before + 500).then_some(()));
        assert!(flows.is_some(), "{:?}", stage.switch.counters("web"));
        stage.revoke();
        check_revoked(&mut server);
        stop.store(true, Ordering::Relaxed);
        assert!(client.join().expect("the client ends") > 0);
    });
    stage.wait_gone();
    assert!(others.finish(LIMIT).success());
    assert!(others.output().contains(" 0% packet loss"), "{}", others.output());
    // The name and the place are free.
    let mut server = stage.serve(folder.path(), &[]);
    let capture = KernelCapture::start(folder.path(), &stage.namespaces[0], "eth0");
    stage.exchange(2);
    capture.finish();
    assert!(server.terminate(LIMIT).success());
    stage.wait_gone();
    stage.switch.stop();
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn grants_of_stopped_and_killed_holders_end() {
    let folder = folder();
    let stage = Stage::start(folder.path());
    let mut server = stage.serve(folder.path(), &[]);
    stage.exchange(1);
    signal(&server, Signal::STOP);
    // Its rings fill.
    let _ = stage.namespaces[0].attempt("ping", &["-c", "2", "-W", "1", SERVER]);
    stage.revoke();
    stage.wait_gone();
    stage.namespaces[0].ping(OTHER, 3, &[]);
    signal(&server, Signal::CONT);
    check_revoked(&mut server);
    let mut server = stage.serve(folder.path(), &[]);
    stage.exchange(2);
    server.kill();
    stage.wait_gone();
    stage.namespaces[0].ping(OTHER, 3, &[]);
    stage.switch.stop();
}

fn signal(process: &Process, signal: Signal) {
    let pid = Pid::from_raw(process.pid().cast_signed()).expect("a process");
    kill_process(pid, signal).expect("it runs");
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn only_users_of_the_policy_obtain_a_port() {
    let folder = folder();
    let stage = Stage::start(folder.path());
    // Other users may not enter the folder of the build.
    let program = folder.path().join("linerate");
    // Not by this process, which may start a program of another test meanwhile: that one would have the copy open, too.
    let copied = Command::new("cp").arg(binary::linerate()).arg(&program).status();
    assert!(copied.is_ok_and(|status| status.success()), "no copy of the program");
    let start = |user: &str, name: &str| {
        let ids = [format!("--reuid={user}"), format!("--regid={user}"), "--clear-groups".to_owned()];
        let program = program.display().to_string();
        let words = [&ids[..], &[program], &stage.words(&[])].concat();
        Process::spawn(folder.path(), name, "setpriv", &words)
    };
    let mut refused = start(USERS[1], "refused");
    let (status, output) = (refused.finish(LIMIT), refused.output());
    assert_eq!(status.code(), Some(2), "{output}");
    let reason = format!("the switch grants no ports to user {0}, group {0}", USERS[1]);
    assert!(output.contains(&reason) && output.contains("[[grant]] section"), "{output}");
    assert_eq!(stage.granted(), None);
    let mut server = start(USERS[0], "allowed");
    server.wait_for("serves port 7", 0, LIMIT);
    assert_eq!(stage.granted().expect("a port")["uid"].to_string(), USERS[0]);
    stage.exchange(1);
    // A second application of the same name is refused, and the first one is not affected.
    let mut second = Process::spawn(folder.path(), "second", binary::linerate(), &stage.words(&[]));
    assert_eq!(second.finish(LIMIT).code(), Some(2));
    assert!(second.output().contains("a port of this name already exists"), "{}", second.output());
    stage.exchange(2);
    drop(server);
    stage.wait_gone();
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn waiting_server_requests_a_revoked_grant_again() {
    for workers in [&[][..], &["--workers", "2"]] {
        let folder = folder();
        let stage = Stage::start(folder.path());
        let mut server = stage.serve(folder.path(), &[&["--wait"], workers].concat());
        stage.exchange(1);
        let first = stage.granted().expect("a port")["grant"].clone();
        stage.revoke();
        let again = wait::until(LIMIT, || stage.granted().filter(|settings| settings["grant"] != first));
        assert!(again.is_some(), "{}", server.output());
        stage.switch.wait_running("web", 1, LIMIT);
        stage.exchange(2);
        assert!(server.terminate(LIMIT).success());
        let is_named = server.output().contains("port web: the grant ended: revoked by the switch");
        assert!(is_named || !workers.is_empty(), "{}", server.output());
        let mut server = stage.serve(folder.path(), workers);
        stage.exchange(3);
        // The end of the switch revokes all grants.
        stage.switch.stop();
        check_revoked(&mut server);
    }
}

/// A second switch has a granted port as its uplink. Each revocation ends the port there, which then asks again.
#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn a_second_switch_carries_files_over_a_grant_until_it_is_revoked() {
    let (folder, other) = (folder(), linerate_tests::folder());
    let (stage, netns) = (Stage::start(folder.path()), Netns::new());
    let noise = Noise::make(other.path(), FILE);
    let text = format!(
        "[[worker]]\n[[port]]\nname = \"host\"\nkind = \"tap\"\ninterface = \"eth0\"\nnetns = \"{}\"\n\
         [[port]]\nname = \"web\"\nkind = \"grant\"\nswitch = \"{}\"\n",
        netns.name(),
        stage.grants.display()
    );
    let second = Switch::start_from(other.path(), &text);
    netns.wait_link("eth0", true, LIMIT);
    netns.configure("eth0", &[&format!("{SERVER}/24")]);
    let transfer = || {
        second.wait_state("web", "connected", LIMIT);
        stage.namespaces[0].ping(SERVER, 2, &[]);
        noise.send(other.path(), &netns, &stage.namespaces[0], SERVER);
        noise.send(other.path(), &stage.namespaces[0], &netns, "10.9.0.1");
        assert!(second.counters("web").tx_bytes > FILE, "{:?}", second.port("web"));
    };
    transfer();
    let log = || fs::read_to_string(other.path().join("linerate.log")).expect("a log");
    for revocations in 1..=2 {
        let first = stage.granted().expect("a port")["grant"].clone();
        stage.revoke();
        let again = wait::until(LIMIT, || stage.granted().filter(|settings| settings["grant"] != first));
        assert!(again.is_some(), "{}", log());
        transfer();
        assert_eq!(log().matches("the grant ended: revoked by the switch").count(), revocations, "{}", log());
    }
    stage.switch.stop();
    second.wait_state("web", "faulted", LIMIT);
    second.stop();
}
