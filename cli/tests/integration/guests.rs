//! Guests as commands: the demonstration, and guests connected to a running switch.

use super::common::{catches_interrupts, command, json};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const RINGS: [&str; 4] = ["split", "split-inorder", "packed", "packed-inorder"];

fn linerate(arguments: &[&str]) -> Command {
    let mut command = command(arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn interrupt(child: &Child) {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
}

#[test]
fn demo_reports_forwarded_packets_and_removes_its_files() {
    let dir = tempfile::tempdir().unwrap();
    let ring = RINGS[3];
    let words = ["demo", "--ring", ring, "--size", "64", "--size", "mix", "--duration", "200ms"];
    let words = [&words[..], &["--in-flight", "64", "-o", "json"]].concat();
    let report = json(&linerate(&words).env("TMPDIR", dir.path()).output().unwrap());
    assert_eq!((&report["ring"], &report["frames_in_circulation"]), (&ring.into(), &128.into()));
    assert!(report["processor"].is_string() && report["guest_cpus"].is_array(), "{report}");
    let runs = report["runs"].as_array().unwrap();
    assert_eq!(runs.iter().map(|run| &run["size"]).collect::<Vec<_>>(), ["64", "mix"]);
    for run in runs {
        let packets = run["packets"].as_f64().unwrap();
        let rate = |port: &Value| port["tx_mpps"].as_f64().unwrap();
        let rates: Vec<f64> = run["ports"].as_array().unwrap().iter().map(rate).collect();
        assert!(packets > 0.0 && rates.len() == 2, "{ring}: {run}");
        let sent = rates.iter().sum::<f64>() * run["seconds"].as_f64().unwrap() * 1e6;
        assert!((sent / packets - 1.0).abs() < 0.01, "the ports sent {sent} packets: {run}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "sockets are left");
}

#[test]
fn a_demonstration_that_is_interrupted_ends_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let mut demo = linerate(&["demo", "--duration", "10m", "-o", "json"]);
    let demo = demo.env("TMPDIR", dir.path()).spawn().unwrap();
    while fs::read_dir(dir.path()).unwrap().count() == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    interrupt(&demo);
    let output = demo.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("ended by a signal"), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["runs"].is_array());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "sockets are left");
}

/// A switch with two ports.
struct Switch {
    dir: tempfile::TempDir,
    child: Child,
}

impl Switch {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        let port = |name: &str| format!("[[port]]\nname = \"{name}\"\nsocket = \"{}\"\n", path(name));
        let text = format!("[switch]\ncontrol = \"{}\"\n{}{}", path("control"), port("a"), port("b"));
        fs::write(dir.path().join("switch.toml"), text).unwrap();
        let child = linerate(&["run", &path("switch.toml")]).stdout(Stdio::null()).spawn().unwrap();
        let switch = Self { dir, child };
        while !Path::new(&switch.path("control")).exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
        switch
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// Waits until a guest is connected to this port.
    fn wait_for(&self, port: &str) {
        let control = self.path("control");
        loop {
            let shown =
                linerate(&["--control", &control, "ports", "show", port, "-o", "json"]).output().unwrap();
            if String::from_utf8_lossy(&shown.stdout).contains("\"connected\"") {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn guest(words: &[&str]) -> Command {
    linerate(&[&["guest", "--wait", "-o", "json"], words].concat())
}

impl Drop for Switch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn counted(report: &Value, device: usize, what: &str) -> u64 {
    report["devices"][device][what].as_u64().unwrap()
}

#[test]
fn guests_that_return_frames_let_them_circulate_over_every_kind_of_ring() {
    let switch = Switch::start();
    let (a, b) = (switch.path("a"), switch.path("b"));
    for (ring, mode) in RINGS.iter().zip(["macswap", "io", "macswap", "macswap"]) {
        let words = ["--connect", &a, "--connect", &b, "--ring", ring, "--mode", mode];
        let words = [&words[..], &["--in-flight", "32", "--duration", "300ms"]].concat();
        let report = json(&guest(&words).output().unwrap());
        for device in 0..2 {
            assert!(counted(&report, device, "tx_packets") >= 32, "{ring}: {report}");
            assert!(counted(&report, device, "rx_packets") > 0, "{ring}: {report}");
        }
    }
}

#[test]
fn frames_of_a_txonly_guest_arrive_at_an_rxonly_guest() {
    let switch = Switch::start();
    let receiver = guest(&["--connect", &switch.path("b"), "--mode", "rxonly"]).spawn().unwrap();
    switch.wait_for("b");
    let words = ["--connect", &switch.path("a"), "--mode", "txonly", "--mac", "02:00:00:00:00:77"];
    let sent = json(&guest(&[&words[..], &["--duration", "500ms"]].concat()).output().unwrap());
    interrupt(&receiver);
    let received = json(&receiver.wait_with_output().unwrap());
    let (sent, received) = (
        (counted(&sent, 0, "tx_packets"), counted(&sent, 0, "rx_packets")),
        (counted(&received, 0, "tx_packets"), counted(&received, 0, "rx_packets")),
    );
    assert!(sent.0 > 0 && received.1 > 0 && received.1 <= sent.0, "{sent:?} {received:?}");
    assert_eq!((sent.1, received.0), (0, 0), "each did only what it was told");
}

#[test]
fn a_guest_ends_with_the_reason_if_nothing_listens() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("none.sock").display().to_string();
    let output = linerate(&["guest", "--connect", &socket, "--duration", "10m"]).output().unwrap();
    let expected = format!(
        "linerate: {socket}: cannot connect: No such file or directory (os error 2)\n    \
         remedy: start the switch first, or add --wait\n"
    );
    assert_eq!(String::from_utf8_lossy(&output.stderr), expected);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn an_interrupted_guest_fails_only_if_its_time_is_not_over() {
    let switch = Switch::start();
    for (words, code) in [(&[][..], 0), (&["--duration", "10m"], 1)] {
        let mut guest = guest(&[&["--connect", &switch.path("a")], words].concat()).spawn().unwrap();
        while !catches_interrupts(&guest) {
            std::thread::sleep(Duration::from_millis(10));
        }
        interrupt(&guest);
        assert_eq!(guest.wait().unwrap().code(), Some(code), "{words:?}");
    }
}

#[test]
fn a_guest_that_waits_connects_when_the_socket_is_there() {
    let switch = Switch::start();
    let link = switch.path("later");
    let waiting = guest(&["--connect", &link, "--mode", "rxonly", "--duration", "100ms"]).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(200));
    std::os::unix::fs::symlink(switch.path("a"), &link).unwrap();
    assert_eq!(json(&waiting.wait_with_output().unwrap())["devices"][0]["connects"], 1);
}

/// Starts a generator between both ports, changes something during its measurement, and returns its end.
fn generated(switch: &Switch, duration: &str, change: impl FnOnce(&Child)) -> Output {
    let ports = ["a", "b"].map(|name| format!("kind=virtio-user,socket={}", switch.path(name)));
    let words = ["gen", "--wait", "--port", &ports[0], "--port", &ports[1], "--no-baseline"];
    let mut child = linerate(&[&words[..], &["--duration", duration]].concat()).spawn().unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap());
    let mut text = String::new();
    while !text.contains("Mpps sent") && told.read_line(&mut text).unwrap() > 0 {}
    change(&child);
    let mut output = child.wait_with_output().unwrap();
    told.read_to_string(&mut text).unwrap();
    output.stderr = text.into_bytes();
    output
}

#[test]
fn a_generator_that_is_interrupted_prints_a_partial_result_and_fails() {
    let switch = Switch::start();
    let output = generated(&switch, "10m", interrupt);
    let (result, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(result.contains("the result is partial"), "{result}");
    assert!(said.contains("linerate gen: ended by a signal"), "{said}");
}

#[test]
fn a_generator_whose_port_is_removed_names_the_port_and_fails() {
    let switch = Switch::start();
    let output = generated(&switch, "2s", |_| {
        let remove = ["--control", &switch.path("control"), "ports", "remove", "b"];
        assert!(linerate(&remove).output().unwrap().status.success());
    });
    let (result, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{said}");
    for text in [&result, &said] {
        assert!(text.contains("port receive stopped after"), "{text}");
        assert!(text.contains("back end disconnected"), "{text}");
    }
    assert!(!result.contains("the switch was the limit"), "{result}");
}

#[test]
fn generator_that_times_out_reports_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("none.sock").display().to_string();
    let port = format!("kind=virtio-user,socket={socket}");
    let words = ["gen", "--port", &port, "--wait", "--timeout", "100ms", "--no-baseline"];
    let output = linerate(&words).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let reason = format!("not connected within 100ms to {socket}: No such file or directory (os error 2)\n");
    assert!(said.contains(&reason), "{said}");
    assert_eq!(output.status.code(), Some(1), "{said}");
}

#[test]
fn a_generator_ends_with_the_reason_if_nothing_listens() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("none.sock").display().to_string();
    let port = format!("kind=virtio-user,socket={socket}");
    let output = linerate(&["gen", "--port", &port, "--timeout", "10m"]).output().unwrap();
    let expected = format!(
        "linerate: port \"send\": cannot connect to {socket}: No such file or directory (os error 2)\n    \
         remedy: start the other side first, or add --wait\n"
    );
    assert_eq!(String::from_utf8_lossy(&output.stderr), expected);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_generator_that_waits_connects_when_the_socket_is_there() {
    let switch = Switch::start();
    let later = switch.path("later");
    let ports = [&later, &switch.path("b")].map(|path| format!("kind=virtio-user,socket={path}"));
    let words = ["gen", "--port", &ports[0], "--port", &ports[1], "--wait", "--timeout", "10m"];
    let more = ["--no-baseline", "--duration", "100ms"];
    let mut waiting = linerate(&[&words[..], &more].concat()).spawn().unwrap();
    let mut told = BufReader::new(waiting.stderr.take().unwrap());
    let mut text = String::new();
    while !text.contains("waiting for the ports") && told.read_line(&mut text).unwrap() > 0 {}
    std::os::unix::fs::symlink(switch.path("a"), &later).unwrap();
    let output = waiting.wait_with_output().unwrap();
    told.read_to_string(&mut text).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
}
