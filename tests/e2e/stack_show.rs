//! `linerate stack`: connections, counters and captures of a running `linerate serve`, whose clients are sockets of the
//! kernel at the other end of a TAP interface.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use linerate_tests::capture::fields;
use linerate_tests::netns::Netns;
use linerate_tests::process::Process;
use linerate_tests::stack_server::{LIMIT, STACK, StackServer};
use linerate_tests::{binary, folder, tcp, wait};
use serde_json::Value;
use tempfile::TempDir;

/// Bytes of a connection while packets are captured.
const BYTES: usize = 300_000;
const DATAGRAMS: u64 = 7;

/// A server with a control socket.
struct Server {
    stack: StackServer,
    folder: TempDir,
}

impl Server {
    fn start(program: &[&str]) -> Server {
        let folder = folder();
        let control = folder.path().join("control").display().to_string();
        Server { stack: StackServer::start(&[program, &["--control", &control]].concat()), folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn words(&self, words: &[&str]) -> Vec<String> {
        let control = self.path("control").display().to_string();
        ["stack"]
            .into_iter()
            .chain(words.iter().copied())
            .chain(["--control", &control])
            .map(str::to_owned)
            .collect()
    }

    /// Runs `linerate stack` and returns its standard output.
    fn ask(&self, words: &[&str]) -> String {
        let Output { status, stdout, stderr } = linerate(&self.words(words));
        assert!(status.success(), "{words:?}: {}", String::from_utf8_lossy(&stderr));
        String::from_utf8_lossy(&stdout).into_owned()
    }

    fn json(&self, words: &[&str]) -> Value {
        let text = self.ask(&[words, &["-o", "json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    /// Runs `linerate stack`, which must fail with this code, and returns its standard error.
    fn fails(&self, code: i32, words: &[&str]) -> String {
        failed(code, &self.words(words))
    }

    fn connect(&self) -> TcpStream {
        self.stack.netns.enter(|| tcp::connect(STACK[0], 7, LIMIT))
    }

    /// Starts a capture into a file.
    fn capture(&self, file: &Path, more: &[&str]) -> Process {
        let words = self.words(&[&["capture", &file.display().to_string(), "-o", "json"], more].concat());
        let mut process = Process::spawn(self.folder.path(), "capture", binary::linerate(), &words);
        process.wait_for("capturing into", 0, LIMIT);
        process
    }
}

fn linerate<S: AsRef<std::ffi::OsStr>>(words: &[S]) -> Output {
    Command::new(binary::linerate())
        .args(words)
        .env_remove("LINERATE_CONTROL")
        .output()
        .expect("linerate runs")
}

/// Runs `linerate`, which must fail with this code and one error, and returns that.
fn failed<S: AsRef<std::ffi::OsStr> + std::fmt::Debug>(code: i32, words: &[S]) -> String {
    let Output { status, stdout, stderr } = linerate(words);
    let error = String::from_utf8_lossy(&stderr).into_owned();
    assert_eq!((status.code(), stdout.len()), (Some(code), 0), "{words:?}: {error}");
    assert_eq!(error.matches("remedy: ").count(), 1, "{error}");
    error
}

/// Sends `len` bytes in pieces and reads their echo.
fn exchange(stream: &mut TcpStream, len: usize) {
    let data: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
    for piece in data.chunks(10_000) {
        stream.write_all(piece).expect("the server reads");
        let mut echo = vec![0; piece.len()];
        stream.read_exact(&mut echo).expect("the server answers");
        assert!(echo == piece, "the echo differs");
    }
}

/// Datagrams of a sender that are not answered: all senders fill no queue of the interface, so that no SYN is lost.
const WINDOW: usize = 64;

/// Loads the server with small datagrams until the flag is set. Segments would load the kernel more than the server.
fn load(netns: &Netns, stop: &Arc<AtomicBool>) {
    let stop = stop.clone();
    let send = move || {
        let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
        socket.connect((STACK[0], 7)).expect("a route");
        socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a time limit");
        while !stop.load(Ordering::Relaxed) {
            (0..WINDOW).for_each(|_| _ = socket.send(&[1; 64]));
            // A missing reply ends the wait: the load goes on.
            (0..WINDOW).take_while(|_| socket.recv(&mut [0; 64]).is_ok()).for_each(drop);
        }
    };
    netns.enter(move || std::thread::scope(|scope| (0..4).for_each(|_| _ = scope.spawn(&send))));
}

/// Sets a flag when it is dropped, so that a failed test ends its threads.
struct SetOnDrop(Arc<AtomicBool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn a_second_worker_has_new_connections_while_the_first_is_busy() {
    let mut server = Server::start(&["echo", "--workers", "1..2"]);
    let counter =
        |server: &Server, name: &str| server.json(&["counters"])["counters"][name].as_u64().unwrap_or(0);
    let wait_for = |server: &Server, count: u64| {
        let reached = wait::until(LIMIT, || (counter(server, "workers_active") == count).then_some(()));
        assert!(reached.is_some(), "{count} active workers: {}", server.ask(&["counters"]));
    };
    // Connections of each worker.
    let connections = |server: &Server| {
        let report = server.json(&["show", "--port", "7"]);
        let all = report["connections"].as_array().expect("a list");
        [0, 1].map(|worker| all.iter().filter(|one| one["worker"] == worker).count())
    };
    wait_for(&server, 1);
    let mut kept: Vec<_> = (0..8).map(|_| server.connect()).collect();
    assert_eq!(connections(&server), [8, 0], "the second worker is not active");
    std::thread::scope(|scope| {
        let stop = Arc::new(AtomicBool::new(false));
        let _end = SetOnDrop(stop.clone());
        let netns = &server.stack.netns;
        scope.spawn({
            let stop = stop.clone();
            move || load(netns, &stop)
        });
        wait_for(&server, 2);
        // By the hash of its port, every second connection is on the second worker.
        let reached = wait::until(LIMIT, || {
            kept.push(server.connect());
            let remote = kept.last()?.local_addr().expect("an address").to_string();
            let report = server.json(&["show", "--remote", &remote]);
            (report["connections"][0]["worker"] == 1).then_some(())
        });
        assert!(reached.is_some(), "no connection on the second worker: {}", server.ask(&["show"]));
    });
    wait_for(&server, 1);
    let [first, second] = connections(&server);
    assert_eq!(first + second, kept.len(), "connections that were not opened");
    assert!(second > 0, "all {first} connections are on the first worker");
    kept.extend((0..8).map(|_| server.connect()));
    assert_eq!(connections(&server), [first + 8, second], "the second worker is drained");
    for stream in &mut kept {
        exchange(stream, 20_000);
    }
    drop(kept);
    let summary = server.stack.finish();
    for name in ["workers_added", "workers_drained"] {
        assert!(summary["counters"][name].as_u64() > Some(0), "{name}: {summary}");
    }
    assert_eq!(summary["aborted"], 0, "{summary}");
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn connections_and_counters_of_a_server_are_shown() {
    for more in [&["echo"][..], &["echo", "--workers", "2"], &["echo", "--threads", "split"]] {
        let mut server = Server::start(more);
        let mut streams = [(); 3].map(|()| server.connect());
        for stream in &mut streams {
            exchange(stream, BYTES);
        }
        let datagrams = || {
            let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
            socket.set_read_timeout(Some(LIMIT)).expect("a time limit");
            socket.connect((STACK[0], 7)).expect("a route");
            for _ in 0..DATAGRAMS {
                socket.send(&[1; 100]).expect("a datagram");
                assert_eq!(socket.recv(&mut [0; 200]).expect("a reply"), 100);
            }
        };
        server.stack.netns.enter(datagrams);
        let report = server.json(&["show"]);
        let shown = report["connections"].as_array().expect("a list");
        assert_eq!((shown.len(), &report["is_truncated"]), (3, &false.into()), "{report}");
        for stream in &streams {
            let remote = stream.local_addr().expect("an address").to_string();
            let one = server.json(&["show", "--remote", &remote]);
            let connection = &one["connections"][0];
            assert_eq!(connection["local"], format!("{}:7", STACK[0]), "{one}");
            assert_eq!(
                (&connection["remote"], &connection["state"]),
                (&remote.into(), &"ESTABLISHED".into())
            );
            assert_eq!(
                (&connection["congestion_control"], &connection["receive_queue"]),
                (&"cubic".into(), &0.into())
            );
            for field in ["congestion_window", "peer_window", "segment", "memory"] {
                assert!(connection[field].as_u64().is_some_and(|value| value > 0), "{field}: {connection}");
            }
            assert!(
                connection["rtt"]["smoothed_us"].as_u64().is_some_and(|us| us < 1_000_000),
                "{connection}"
            );
        }
        assert_eq!(server.ask(&["show", "--port", "7"]).matches("ESTABLISHED").count(), 3);
        assert_eq!(server.ask(&["show", "--port", "8"]).matches("ESTABLISHED").count(), 0);
        assert_eq!(server.json(&["show", "--limit", "2"])["is_truncated"], true);
        let counters = server.json(&["counters"])["counters"].clone();
        assert_eq!((&counters["TcpPassiveOpens"], &counters["TcpInCsumErrors"]), (&3.into(), &0.into()));
        assert_eq!(
            (&counters["UdpInDatagrams"], &counters["UdpOutDatagrams"]),
            (&DATAGRAMS.into(), &DATAGRAMS.into())
        );
        let table = server.ask(&["counters", "--interval", "100ms"]);
        assert!(table.contains("TcpPassiveOpens") && table.contains("0.0/s"), "{table}");
        // The last counters are those of the summary.
        let summary = server.stack.finish();
        assert!(!server.path("control").exists(), "the socket is removed");
        for name in ["TcpPassiveOpens", "UdpInDatagrams", "UdpOutDatagrams"] {
            assert_eq!(summary["counters"][name], counters[name], "{name}");
        }
        assert_eq!(summary["bytes_received"], 3 * BYTES as u64 + DATAGRAMS * 100);
    }
}

#[test]
#[ignore = "needs root and tshark; run by `cargo xtask test`"]
fn a_capture_has_the_packets_of_one_connection() {
    for more in [&["echo"][..], &["echo", "--workers", "2"]] {
        let server = Server::start(more);
        let (mut one, mut other) = (server.connect(), server.connect());
        exchange(&mut one, 1000);
        let (file, port) = (server.path("one.pcapng"), one.local_addr().expect("an address").port());
        let remote = format!("10.9.0.1:{port}");
        let mut capture = server.capture(&file, &["--remote", &remote]);
        let refused = server.fails(2, &["capture", "/tmp/none.pcapng", "--port", "7"]);
        assert!(refused.contains("is in progress"), "{refused}");
        exchange(&mut one, BYTES);
        exchange(&mut other, BYTES);
        assert!(capture.terminate(LIMIT).success());
        assert!(capture.output().contains("\"missed\": 0"));
        assert!(fields(&file, "_ws.malformed", &["frame.number"]).is_empty());
        let all = fields(&file, "frame", &["frame.number"]).len();
        let own = fields(&file, &format!("tcp.port == {port} && tcp.port == 7"), &["frame.number"]).len();
        assert!(all == own && all > 0, "{all} packets, {own} of the connection");
        let lengths = |filter: &str| {
            let lengths = fields(&file, filter, &["tcp.len"]);
            lengths.iter().filter_map(|fields| fields.first()?.parse::<usize>().ok()).sum::<usize>()
        };
        let first = |side: &str| format!("tcp.{side} == {port} && !tcp.analysis.retransmission");
        assert_eq!([lengths(&first("srcport")), lengths(&first("dstport"))], [BYTES; 2]);
    }
}

#[test]
#[ignore = "needs root and tshark; run by `cargo xtask test`"]
fn a_capture_ends_at_its_limits() {
    let server = Server::start(&["echo"]);
    let mut stream = server.connect();
    let file = server.path("port.pcapng");
    let mut capture = server.capture(&file, &["--port", "7", "--packets", "3"]);
    exchange(&mut stream, BYTES);
    assert!(capture.finish(LIMIT).success());
    assert_eq!(fields(&file, "frame", &["frame.number"]).len(), 3);
    let existing = server.fails(2, &["capture", &file.display().to_string(), "--port", "7"]);
    assert!(existing.contains("already exists"), "{existing}");
    let words = ["capture", &file.display().to_string(), "--port", "7", "--duration", "200ms", "--overwrite"];
    assert!(server.ask(&words).contains(" packets in "));
    // A client that vanishes leaves a capture, which ends for want of it.
    let other = server.path("other.pcapng");
    server.capture(&other, &["--port", "7"]).kill();
    let words = ["capture", &file.display().to_string(), "--port", "7", "--packets", "1", "--overwrite"];
    let is_free = || {
        linerate(&server.words(&[&words[..], &["--duration", "1ms"]].concat())).status.success().then_some(())
    };
    assert!(wait::until(LIMIT, is_free).is_some(), "the capture of a killed client goes on");
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn errors_name_place_reason_and_remedy() {
    let sockets = folder();
    let listen = sockets.path().join("sockets").display().to_string();
    let mut server = Server::start(&["sockets", "--listen", &listen]);
    assert_eq!(server.json(&["show"])["connections"], Value::Array(Vec::new()));
    let unknown = server.fails(2, &["show", "--remote", "10.9.0.1:1"]);
    assert!(unknown.contains("there is no such connection"), "{unknown}");
    let unknown = server.fails(2, &["capture", "/tmp/none.pcapng", "--remote", "10.9.0.1:1"]);
    assert!(unknown.contains("there is no such connection"), "{unknown}");
    let nowhere = server.fails(1, &["capture", "/none/x.pcapng", "--port", "7"]);
    assert!(nowhere.contains("No such file"), "{nowhere}");
    let missing = failed(2, &["stack", "show"]);
    assert!(missing.contains("no control socket is given"), "{missing}");
    let port = format!("kind=tap,interface=web1,netns={}", server.stack.netns.name());
    let end = ["serve", "echo", "--port", &port, "--address", "10.9.1.2/24"];
    let control = server.path("control").display().to_string();
    let taken = failed(2, &[&end[..], &["--control", &control]].concat());
    assert!(taken.contains("already running there"), "{taken}");
    assert!(server.stack.process.terminate(LIMIT).success());
    let none = server.fails(1, &["counters"]);
    assert!(none.contains("no program with a stack answers on"), "{none}");
}

#[test]
#[ignore = "needs root, to mount; run by `cargo xtask test`"]
fn a_capture_without_space_ends_with_an_error_and_the_server_continues() {
    let server = Server::start(&["echo"]);
    let small = server.path("small");
    fs::create_dir(&small).expect("a folder can be made");
    let at = small.display().to_string();
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=128k", "linerate-small", &at]).status();
    assert!(mounted.expect("mount runs").success());
    let mut capture = server.capture(&small.join("x.pcapng"), &["--port", "7"]);
    let mut stream = server.connect();
    exchange(&mut stream, BYTES);
    let status = capture.finish(LIMIT);
    let output = capture.output();
    exchange(&mut stream, BYTES);
    drop(server);
    // Lazily: the test may still have a file open.
    let _ = Command::new("umount").args(["-l", &at]).status();
    assert_eq!(status.code(), Some(1), "{output}");
    assert!(output.contains("No space left on device") && output.contains("remedy: "), "{output}");
}
