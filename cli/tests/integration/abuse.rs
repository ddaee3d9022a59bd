//! Robustness of a running switch: signals at any time, unusable paths, and control clients that send nothing, too
//! much or invalid data. Packet forwarding must continue.

use super::common::command as linerate;
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The user `nobody`.
const NOBODY: u32 = 65534;
/// What all connections together may occupy, in bytes: 64 KiB for each that the server has at one time.
const MEMORY: u64 = 256 << 16;

/// A child process that is killed when its test ends.
struct Running(Child);

impl Running {
    fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.0.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Anonymous memory in bytes.
    fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        1024 * line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A temporary directory with the configuration of a switch with two ports.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        let port = |name: &str| format!("[[port]]\nname = \"{name}\"\nsocket = \"{}\"\n", place.text(name));
        let text = format!("[switch]\ncontrol = \"{}\"\n{}{}", place.text("control"), port("a"), port("b"));
        fs::write(place.path("switch.toml"), text).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn spawn(&self) -> Running {
        // Resets signal dispositions: a shell that runs the tests in the background may ignore SIGINT and SIGHUP, and
        // children inherit this until they install handlers. An earlier signal would be lost, and the test would
        // hang.
        let mut command = Command::new("env");
        command.args(["--default-signal", env!("CARGO_BIN_EXE_linerate"), "run", &self.text("switch.toml")]);
        command.env_remove("LINERATE_CONTROL");
        Running(command.stderr(Stdio::null()).spawn().unwrap())
    }

    fn run(&self) -> Running {
        let running = self.spawn();
        wait_until(|| self.ask(&["status"]).status.success());
        running
    }

    fn ask(&self, arguments: &[&str]) -> Output {
        linerate(&[&["--control", &self.text("control")], arguments].concat()).output().unwrap()
    }

    fn json(&self, arguments: &[&str]) -> serde_json::Value {
        let output = self.ask(&[arguments, &["-o", "json"]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn connect(&self) -> UnixStream {
        UnixStream::connect(self.path("control")).unwrap()
    }

    fn packets(&self) -> u64 {
        self.json(&["status"])["traffic"]["tx_packets"].as_u64().unwrap()
    }

    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

/// Waits until `condition` is true. Panics after a timeout.
fn wait_until(mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_mins(1);
    while !condition() {
        assert!(Instant::now() < until, "nothing happened");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Starts a guest that is connected to both ports and circulates frames between them.
fn traffic(place: &Place) -> Running {
    let (a, b) = (place.text("a"), place.text("b"));
    let mut guest =
        linerate(&["guest", "--wait", "--connect", &a, "--connect", &b, "--in-flight", "64", "-o", "json"]);
    let running = Running(guest.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    wait_until(|| place.packets() > 1000);
    running
}

/// Checks that packets are still forwarded and that neither port has reconnected.
fn flows_on(place: &Place) {
    let before = place.packets();
    wait_until(|| place.packets() > before + 1000);
    for port in place.json(&["ports", "show"]).as_array().unwrap() {
        assert_eq!((&port["live"]["state"], &port["live"]["connects"]), (&"connected".into(), &1.into()));
    }
}

#[test]
fn idle_connections_are_closed_for_new_requests() {
    let place = Place::new();
    let _switch = place.run();
    let _guest = traffic(&place);
    let silent: Vec<UnixStream> = (0..300).map(|_| place.connect()).collect();
    let mut half: Vec<UnixStream> = (0..50).map(|_| place.connect()).collect();
    for stream in &mut half {
        stream.write_all(b"GET /v1/status HT").unwrap();
    }
    flows_on(&place);
    drop((silent, half));
    flows_on(&place);
}

#[test]
fn malformed_and_endless_requests_are_rejected_while_packets_are_forwarded() {
    let place = Place::new();
    let switch = place.run();
    let _guest = traffic(&place);
    let before = switch.memory();
    let long = format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "x".repeat(1 << 20));
    let headers = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(10_000));
    let body = format!("POST /v1/ports HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", 1_u64 << 40);
    let noise: Vec<u8> = (0..100_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for bytes in [long.as_bytes(), headers.as_bytes(), &noise, b"\0\0\0\0\r\n\r\n", b"\x16\x03\x01\x02\0\x01"]
    {
        let answer = told(place.connect(), bytes);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    let mut endless = place.connect();
    endless.write_all(body.as_bytes()).unwrap();
    // The server stops reading long before the whole body is sent.
    let chunk = vec![b' '; 1 << 16];
    let (mut sent, mut most) = (0, switch.memory());
    while sent < 1000 && endless.write_all(&chunk).is_ok() {
        (sent, most) = (sent + 1, most.max(switch.memory()));
    }
    assert!(sent < 1000, "{sent} chunks were taken");
    assert!(most < before + MEMORY, "{most} bytes, {before} before");
    flows_on(&place);
}

/// Sends `bytes` and returns the response, up to the end of the connection.
fn told(mut stream: UnixStream, bytes: &[u8]) -> String {
    // The server may close the connection before it has read everything.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn a_slow_reader_does_not_delay_other_clients() {
    let place = Place::new();
    let switch = place.run();
    let _guest = traffic(&place);
    let before = switch.memory();
    let mut slow: Vec<UnixStream> = (0..300).map(|_| place.connect()).collect();
    for stream in &mut slow {
        // Fails once the server has closed the connection: it answers one request per connection.
        let _ = stream.write_all("GET /v1/snapshot HTTP/1.1\r\nhost: x\r\n\r\n".repeat(200).as_bytes());
    }
    flows_on(&place);
    assert!(switch.memory() < before + MEMORY, "{} bytes, {before} before", switch.memory());
}

/// A lock file that other users can open, such as one of an earlier version, can also be locked by them.
#[test]
fn a_lock_held_by_another_user_is_named() {
    let place = Place::new();
    let lock = place.path("control.lock");
    fs::write(&lock, "").unwrap();
    fs::set_permissions(place.0.path(), Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&lock, Permissions::from_mode(0o644)).unwrap();
    let mut flock = Command::new("flock");
    flock.arg(&lock).args(["sh", "-c", "echo held; exec cat"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        flock.uid(NOBODY).gid(NOBODY);
    }
    let mut holder = Running(flock.spawn().unwrap());
    holder.0.stdout.as_mut().unwrap().read_exact(&mut [0; 5]).unwrap();
    let output = linerate(&["run", &place.text("switch.toml")]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    let stranger = fs::metadata(format!("/proc/{}", holder.0.id())).unwrap().uid() == NOBODY;
    let expected = if stranger { "of user 65534, which is not a program" } else { "already running" };
    assert!(said.contains(expected) && said.contains("remedy: "), "{said}");
}

/// A new client is served although partial requests occupy all connection slots.
#[test]
fn requests_that_never_end_give_their_place_to_those_that_do() {
    let place = Place::new();
    let _switch = place.run();
    let request = "POST /v1/ports HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{";
    let mut unfinished: Vec<UnixStream> = (0..256).map(|_| place.connect()).collect();
    for stream in &mut unfinished {
        stream.write_all(request.as_bytes()).unwrap();
    }
    let output = place.ask(&["status"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A signal at any time during start ends the switch and leaves no files behind.
#[test]
fn a_signal_at_any_moment_of_the_start_leaves_nothing_behind() {
    for (round, signal) in (0..12).zip(["-TERM", "-INT", "-HUP"].into_iter().cycle()) {
        let place = Place::new();
        let mut switch = place.spawn();
        std::thread::sleep(Duration::from_micros(1400) * round);
        switch.signal(signal);
        if signal == "-HUP" {
            // SIGHUP ends the process until it installs a handler; afterwards SIGHUP is ignored and `stop` ends it.
            wait_until(|| place.ask(&["stop"]).status.success() || switch.0.try_wait().unwrap().is_some());
        }
        let status = switch.0.wait().unwrap();
        assert!(status.success() || matches!(status.signal(), Some(1 | 2 | 15)), "{signal}: {status}");
        assert_eq!(place.files(), ["switch.toml"], "{signal} after {round} steps");
    }
}

#[test]
fn a_path_where_no_socket_can_be_made_is_named_and_nothing_is_started() {
    let place = Place::new();
    let file = place.text("switch.toml");
    for control in ["/proc/control", "/lr-nowhere/control", &place.text("switch.toml")] {
        let output = linerate(&["--control", control, "run", &file]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{said}");
        assert!(said.contains(control) && said.contains("remedy: "), "{said}");
        assert_eq!(place.files(), ["switch.toml"]);
    }
    assert!(Path::new(&file).metadata().unwrap().len() > 0);
}

#[test]
fn a_second_signal_while_the_switch_ends_does_not_leave_it_hanging() {
    for (first, second) in [("-TERM", "-TERM"), ("-INT", "-TERM"), ("-TERM", "-HUP")] {
        let place = Place::new();
        let mut switch = place.run();
        // An incomplete request delays the shutdown.
        let mut slow = place.connect();
        slow.write_all(b"GET /v1/status HTTP/1.1\r\nhost: x\r\n").unwrap();
        switch.signal(first);
        switch.signal(second);
        let status = switch.0.wait().unwrap();
        assert!(matches!(status.code(), Some(0 | 1)), "{first} {second}: {status}");
        // Files left by an early exit must not prevent the next start.
        let next = place.run();
        next.signal("-TERM");
    }
}

/// Requires an ordinary user, because root may write to any directory.
#[test]
fn a_directory_in_which_nothing_may_be_made_is_named() {
    let place = Place::new();
    let closed = place.path("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, Permissions::from_mode(0o555)).unwrap();
    fs::set_permissions(place.0.path(), Permissions::from_mode(0o755)).unwrap();
    let control = closed.join("control").display().to_string();
    let mut command = linerate(&["--control", &control, "run", &place.text("switch.toml")]);
    if fs::write(closed.join("root"), "").is_ok() {
        fs::remove_file(closed.join("root")).unwrap();
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{said}");
    assert!(said.contains(&control) && said.contains("ermission denied"), "{said}");
    assert!(said.contains("remedy: "), "{said}");
}

#[test]
fn socket_path_of_a_regular_file_is_rejected_and_the_file_is_kept() {
    let place = Place::new();
    fs::write(place.path("a"), "precious").unwrap();
    let output = linerate(&["run", &place.text("switch.toml")]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(&place.text("a")) && said.contains("remedy: "), "{said}");
    assert_eq!(fs::read_to_string(place.path("a")).unwrap(), "precious");
}

#[test]
fn only_the_owner_may_command_a_switch() {
    let place = Place::new();
    let _switch = place.run();
    let mode = place.path("control").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_control_socket_may_be_named_from_the_working_directory() {
    let place = Place::new();
    let mut command = linerate(&["--control", "here", "run", "switch.toml"]);
    let _switch = Running(command.current_dir(place.0.path()).stderr(Stdio::null()).spawn().unwrap());
    let from_here =
        || linerate(&["--control", "here", "status"]).current_dir(place.0.path()).output().unwrap();
    wait_until(|| from_here().status.success());
    assert!(place.path("here").exists());
}
