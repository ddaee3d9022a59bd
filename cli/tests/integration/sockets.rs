//! Programs with a stack: access to the socket of `linerate serve sockets` and its removal on every way out, and the
//! interval of counters.

use super::common::{command, json, stderr};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const ADDRESS: [&str; 2] = ["--address", "10.9.0.2/24"];

/// A service in a temporary directory, which waits for the peer of its port.
struct Service {
    dir: tempfile::TempDir,
    child: Child,
}

impl Service {
    fn start(more: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut command = service(dir.path(), "mode=server");
        let child = command.args(more).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let service = Self { dir, child };
        wait_until(|| service.socket().exists());
        service
    }

    fn socket(&self) -> PathBuf {
        socket(self.dir.path())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until `condition` is true. Panics after a timeout.
fn wait_until(condition: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < until, "nothing happened");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn socket(dir: &Path) -> PathBuf {
    dir.join("web.sock")
}

/// The command with a vhost-user port in this mode; both sockets are in `dir`.
fn service(dir: &Path, mode: &str) -> Command {
    service_at(dir, &socket(dir), mode)
}

fn service_at(dir: &Path, listen: &Path, mode: &str) -> Command {
    let port = format!("kind=vhost-user,socket={},{mode}", dir.join("port.sock").display());
    let mut command = command(&["serve", "sockets", "--port", &port]);
    command.args(ADDRESS).arg("--listen").arg(listen);
    command
}

fn files(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn socket_has_its_access_and_ends_with_the_service() {
    for (more, expected) in
        [(&[][..], 0o600), (&["--mode", "0660", "--group", "0", "--owner", "0"][..], 0o660)]
    {
        // Only root may give the file to another group.
        if !more.is_empty() && !rustix::process::geteuid().is_root() {
            continue;
        }
        let mut service = Service::start(more);
        // The file is created for its owner only.
        wait_until(|| fs::metadata(service.socket()).unwrap().permissions().mode() & 0o777 == expected);
        assert_eq!(files(service.dir.path()), ["port.sock", "port.sock.rings", "web.sock", "web.sock.lock"]);
        let pid = service.child.id().to_string();
        assert!(Command::new("kill").arg(pid).status().unwrap().success());
        assert!(service.child.wait().unwrap().success());
        assert!(files(service.dir.path()).is_empty(), "{:?}", files(service.dir.path()));
    }
}

#[test]
fn path_of_another_service_is_refused_and_kept() {
    let running = Service::start(&[]);
    let other = tempfile::tempdir().unwrap();
    let output = service_at(other.path(), &running.socket(), "mode=server").output().unwrap();
    let error = stderr(&output);
    let place = format!("--listen {}: ", running.socket().display());
    assert!(output.status.code() == Some(2) && error.contains(&place), "{error}");
    assert!(
        error.contains("already running there") && error.contains("another path with --listen"),
        "{error}"
    );
    assert!(running.socket().exists() && files(other.path()).is_empty());
}

#[test]
fn no_socket_is_left_if_the_port_cannot_be_opened() {
    let dir = tempfile::tempdir().unwrap();
    let output = service(dir.path(), "mode=client").output().unwrap();
    assert!(!output.status.success() && stderr(&output).contains("port.sock"), "{}", stderr(&output));
    assert!(files(dir.path()).is_empty(), "{:?}", files(dir.path()));
}

#[test]
fn socket_is_removed_if_the_summary_cannot_be_printed() {
    let dir = tempfile::tempdir().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut service = command(&["serve", "sockets", "--port", &recording_port(dir.path())]);
    service.args(ADDRESS).arg("--listen").arg(socket(dir.path()));
    let mut child = service.stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("serves sockets at")), "the service did not start");
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    child.wait().unwrap();
    assert_eq!(files(dir.path()), ["out.pcapng"]);
}

#[test]
fn signal_ends_the_interval_of_counters_with_their_differences() {
    let dir = tempfile::tempdir().unwrap();
    let control = dir.path().join("control.sock");
    let mut server = command(&["serve", "echo", "--port", &recording_port(dir.path())]);
    let server =
        server.args(ADDRESS).arg("--control").arg(&control).stderr(Stdio::piped()).stdout(Stdio::null());
    let mut server = server.spawn().unwrap();
    let mut lines = BufReader::new(server.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("serves port 7")), "the server did not start");
    let mut counters = command(&["stack", "counters", "--interval", "1h", "-o", "json", "--control"]);
    let child = counters.arg(&control).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The handlers are installed before the interval begins.
    wait_until(|| catches_interrupts(child.id()));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let found = json(&child.wait_with_output().unwrap());
    assert!(found["deltas"]["rounds_idle"].is_u64() && found["seconds"].as_f64() < Some(3600.0), "{found}");
    assert!(Command::new("kill").arg(server.id().to_string()).status().unwrap().success());
    assert!(server.wait().unwrap().success());
}

/// A port that plays a file and records another one, which needs no peer and no privilege.
fn recording_port(dir: &Path) -> String {
    let read = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/pcap/pcap-microseconds");
    let read = read.canonicalize().unwrap();
    format!("kind=pcap,read={},write={}", read.display(), dir.join("out.pcapng").display())
}

/// Whether a process handles SIGINT.
fn catches_interrupts(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(caught.trim(), 16).unwrap() & 0b10 != 0
}

#[test]
fn invalid_access_and_paths_are_refused_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let cases = [
        (["--mode", "0999"], "expected a permission in octal"),
        (["--owner", "no such user"], "there is no user \"no such user\" on this machine"),
        (["--group", "no such group"], "there is no group \"no such group\" on this machine"),
    ];
    for (more, reason) in cases {
        let output = service(dir.path(), "mode=server").args(more).output().unwrap();
        let error = stderr(&output);
        assert!(output.status.code() == Some(2) && error.contains(reason), "{error}");
    }
    fs::write(socket(dir.path()), "text").unwrap();
    let output = service(dir.path(), "mode=server").output().unwrap();
    let error = stderr(&output);
    assert!(!output.status.success() && error.contains("a file that is not a socket is there"), "{error}");
    assert_eq!(fs::read_to_string(socket(dir.path())).unwrap(), "text");
    assert_eq!(files(dir.path()), ["web.sock"]);
}
