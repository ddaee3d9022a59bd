//! Unmodified programs over the TCP/IP stack: they run under `liblinerate_preload.so`, their peers over the kernel in a
//! namespace at the other end of a TAP interface.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use linerate_tests::netns::Netns;
use linerate_tests::stack_server::{LIMIT, STACK, StackServer};
use linerate_tests::{binary, folder, need, wait};
use rustix::process::{Pid, Signal};
use serde_json::Value;

mod datagrams;

const BYTES: usize = 8 << 20;
/// Debian's Python.
pub(crate) const PYTHON: &str = "/usr/bin/python3";

/// `linerate serve sockets`, and the library that finds it.
pub(crate) struct Service {
    pub(crate) server: StackServer,
    socket: PathBuf,
    library: PathBuf,
}

impl Service {
    pub(crate) fn start(folder: &Path) -> Service {
        Service::start_with(folder, &[])
    }

    /// A service with further options.
    fn start_with(folder: &Path, options: &[&str]) -> Service {
        let socket = folder.join("sockets");
        let path = socket.to_str().expect("a path of text");
        let server = StackServer::start(&[&["sockets", "--listen", path], options].concat());
        Service { server, socket, library: binary::preload() }
    }

    /// The kernel computes each checksum: ICMP errors quote its packets as they are.
    fn without_offloads(self) -> Service {
        Service { server: self.server.without_offloads(), ..self }
    }

    pub(crate) fn netns(&self) -> &Netns {
        &self.server.netns
    }

    /// A program under the library, without a program between that a signal would reach instead.
    pub(crate) fn command(&self, program: &str, arguments: &[&str]) -> Command {
        need::program(program);
        let mut command = Command::new(program);
        command.args(arguments);
        command.env("LD_PRELOAD", &self.library).env("LINERATE_SERVICE", &self.socket);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a program under the library to its end.
    fn run(&self, program: &str, arguments: &[&str]) -> Output {
        need::program(program);
        let limited = [&["--kill-after=5", "60", program], arguments].concat();
        self.command("timeout", &limited).output().expect("the program starts")
    }
}

/// A running program, which ends with the test.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn body() -> Vec<u8> {
    (0..BYTES).map(|i| (i / 251 + i % 251) as u8).collect()
}

/// Connects from the namespace as soon as the program listens.
fn connect(address: &str, port: u16) -> TcpStream {
    let address = SocketAddr::new(address.parse().expect("an address"), port);
    let began = Instant::now();
    loop {
        match TcpStream::connect_timeout(&address, LIMIT) {
            Ok(stream) => {
                stream.set_read_timeout(Some(LIMIT)).expect("a time limit");
                return stream;
            }
            Err(error) => assert!(began.elapsed() < LIMIT, "{address}: {error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A client of the kernel's listener, within the time limit.
fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    listener.set_nonblocking(true).expect("a flag");
    let began = Instant::now();
    loop {
        match listener.accept() {
            Ok((stream, from)) => {
                stream.set_nonblocking(false).expect("a flag");
                stream.set_read_timeout(Some(LIMIT)).expect("a time limit");
                return (stream, from);
            }
            Err(error) => assert!(began.elapsed() < LIMIT, "no client: {error}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Serves one HTTP request on the kernel's stack.
fn serve_once(listener: &TcpListener) {
    let (mut stream, _) = accept(listener);
    let (mut request, mut buffer) = (Vec::new(), [0; 1024]);
    while !request.ends_with(b"\r\n\r\n") {
        let n = stream.read(&mut buffer).expect("a request");
        request.extend(&buffer[..n]);
    }
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {BYTES}\r\nConnection: close\r\n\r\n")
        .expect("a client");
    stream.write_all(&body()).expect("the client reads");
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn curl_fetches_from_a_server_of_the_kernel() {
    let folder = folder();
    let service = Service::start(folder.path());
    for address in ["10.9.0.1", "[fd09::1]"] {
        let output = std::thread::scope(|scope| {
            let url = format!("http://{address}:8000/");
            let listener = service.netns().enter(|| TcpListener::bind("[::]:8000").expect("a listener"));
            scope.spawn(move || serve_once(&listener));
            service.run("curl", &["--silent", "--show-error", "--max-time", "30", &url])
        });
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stdout == body(), "{address}: {} bytes, or others", output.stdout.len());
    }
    let refused = service.run("curl", &["--silent", "--max-time", "10", "http://10.9.0.1:9/"]);
    assert_eq!(refused.status.code(), Some(7), "connection refused");
    let summary = service.server.stop();
    assert_eq!((&summary["clients"], &summary["connected"]), (&3.into(), &2.into()), "{summary}");
    assert!(summary["left"]["the client left"].as_u64() >= Some(2), "{summary}");
}

/// Connections of each worker, which the summary of a service reports.
fn by_worker(summary: &Value, name: &str) -> Vec<u64> {
    let workers = summary["workers"].as_array().expect("a list");
    workers.iter().filter_map(|worker| worker[name].as_u64()).collect()
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn curl_fetches_over_two_workers() {
    let folder = folder();
    let service = Service::start_with(folder.path(), &["--workers", "2"]);
    let output = std::thread::scope(|scope| {
        let listener = service.netns().enter(|| TcpListener::bind("[::]:8000").expect("a listener"));
        scope.spawn(move || (0..4).for_each(|_| serve_once(&listener)));
        let url = "http://10.9.0.1:8000/";
        service.run("curl", &["--silent", "--show-error", "--max-time", "30", url, url, url, url])
    });
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stdout == body().repeat(4), "{} bytes, or others", output.stdout.len());
    let summary = service.server.stop();
    assert_eq!((&summary["clients"], by_worker(&summary, "connected")), (&1.into(), vec![2, 2]), "{summary}");
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn a_killed_server_is_replaced_on_both_workers() {
    let folder = folder();
    let service = Service::start_with(folder.path(), &["--workers", "2"]);
    let words = ["--port", "6379", "--bind", "10.9.0.2", "--save", "", "--protected-mode", "no"];
    for _ in 0..2 {
        let mut server = Running(service.command("redis-server", &words).spawn().expect("redis starts"));
        let mut streams: Vec<_> =
            service.netns().enter(|| (0..16).map(|_| connect(STACK[0], 6379)).collect());
        for (i, stream) in streams.iter_mut().enumerate() {
            redis(stream, &format!("SET key{i} value{i}\r\n"), "+OK\r\n");
        }
        for (i, stream) in streams.iter_mut().rev().enumerate() {
            let value = format!("value{i}");
            redis(stream, &format!("GET key{i}\r\n"), &format!("${}\r\n{value}\r\n", value.len()));
        }
        server.0.kill().expect("redis runs");
        for stream in &mut streams {
            // The end of the stream, or a reset.
            assert_eq!(stream.read(&mut [0]).unwrap_or_default(), 0, "a connection is left");
        }
    }
    let summary = service.server.stop();
    let accepted = by_worker(&summary, "accepted");
    assert!(accepted.len() == 2 && !accepted.contains(&0), "{summary}");
    assert!(accepted.iter().sum::<u64>() >= 32, "{summary}");
    assert!(summary["left"]["the client left"].as_u64() >= Some(1), "{summary}");
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn netcat_passes_bytes_in_both_roles() {
    let folder = folder();
    let service = Service::start(folder.path());
    // It listens, and its peer is a client of the kernel.
    let mut nc = service.command("nc", &["-l", "-N", "10.9.0.2", "7000"]);
    let mut nc = Running(nc.stdin(Stdio::piped()).spawn().expect("nc starts"));
    nc.0.stdin.take().expect("a pipe").write_all(b"from nc").expect("nc reads");
    let text = service.netns().enter(|| {
        let mut stream = connect(STACK[0], 7000);
        stream.write_all(b"to nc").expect("nc reads");
        stream.shutdown(std::net::Shutdown::Write).expect("the connection is open");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("nc closes");
        text
    });
    assert_eq!(text, "from nc");
    let mut received = String::new();
    nc.0.stdout.take().expect("a pipe").read_to_string(&mut received).expect("nc ends");
    assert_eq!(received, "to nc");
    // It connects to a server of the kernel.
    let listener = service.netns().enter(|| TcpListener::bind("[::]:7001").expect("a listener"));
    let served = std::thread::spawn(move || {
        let (mut stream, from) = accept(&listener);
        let mut received = Vec::new();
        stream.read_to_end(&mut received).expect("nc closes");
        stream.write_all(&received[..5]).expect("nc reads");
        (received, from)
    });
    let mut nc = service.command("nc", &["-N", "fd09::1", "7001"]);
    let mut nc = Running(nc.stdin(Stdio::piped()).spawn().expect("nc starts"));
    nc.0.stdin.take().expect("a pipe").write_all(&body()).expect("nc reads");
    let (received, from) = served.join().expect("the server ends");
    assert!(received == body() && from.ip().to_string() == STACK[1], "{from}: {}", received.len());
    let mut answer = Vec::new();
    nc.0.stdout.take().expect("a pipe").read_to_end(&mut answer).expect("nc ends");
    assert_eq!(answer, &body()[..5]);
}

/// Sends commands and reads the reply to the last one.
fn redis(stream: &mut TcpStream, commands: &str, reply: &str) {
    stream.write_all(commands.as_bytes()).expect("the server reads");
    let mut received = vec![0; reply.len()];
    stream.read_exact(&mut received).expect("a reply");
    assert_eq!(String::from_utf8_lossy(&received), reply);
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn redis_answers_clients_of_the_kernel() {
    let folder = folder();
    let service = Service::start(folder.path());
    let directory = folder.path().to_str().expect("a path of text");
    // Bound to an address of the kernel as well, so that one epoll has descriptors of both.
    let local = service.socket.with_extension("redis");
    let local = local.to_str().expect("a path of text");
    let words = ["--port", "6379", "--bind", STACK[0], STACK[1], "--save", "", "--protected-mode", "no"];
    let words = [&words[..], &["--dir", directory, "--unixsocket", local]].concat();
    let mut server = Running(service.command("redis-server", &words).spawn().expect("redis starts"));
    service.netns().enter(|| {
        let mut streams: Vec<_> = (0..8).map(|i| connect(STACK[i % 2], 6379)).collect();
        for (i, stream) in streams.iter_mut().enumerate() {
            redis(stream, &format!("SET key{i} value{i}\r\n"), "+OK\r\n");
        }
        for (i, stream) in streams.iter_mut().enumerate() {
            let key = 7 - i;
            redis(stream, &format!("GET key{key}\r\n"), &format!("$6\r\nvalue{key}\r\n"));
        }
        let large = "x".repeat(1 << 20);
        let command = format!("*3\r\n$3\r\nSET\r\n$5\r\nlarge\r\n${}\r\n{large}\r\n", large.len());
        redis(&mut streams[0], &command, "+OK\r\n");
        redis(&mut streams[1], "GET large\r\n", &format!("${}\r\n{large}\r\n", large.len()));
    });
    let mut stream = std::os::unix::net::UnixStream::connect(local).expect("redis listens");
    stream.write_all(b"GET key3\r\n").expect("redis reads");
    let mut reply = [0; 12];
    stream.read_exact(&mut reply).expect("a reply");
    assert_eq!(&reply, b"$6\r\nvalue3\r\n");
    // Without the service it still serves the kernel's clients, and ends on request.
    service.server.stop();
    stream.write_all(b"GET key4\r\n").expect("redis reads");
    stream.read_exact(&mut reply).expect("a reply");
    assert_eq!(&reply, b"$6\r\nvalue4\r\n");
    let pid = Pid::from_child(&server.0);
    rustix::process::kill_process(pid, Signal::TERM).expect("redis runs");
    let ended = wait::until(LIMIT, || server.0.try_wait().expect("a child"));
    assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
}

/// Waits for the end of the service at a listener, and for anything after the error.
const LISTENER: &str = r#"
import select, socket, sys
listener = socket.socket()
listener.bind((sys.argv[1], 7000))
listener.listen()
listener.setblocking(False)
poll = select.poll()
poll.register(listener, select.POLLIN)
print("listening", flush=True)
assert poll.poll(30000)
try:
    listener.accept()
except BlockingIOError:
    sys.exit("no error")
except OSError:
    pass
events = poll.poll(1000)
assert events == [], events
"#;

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn listener_reports_the_end_of_the_service_once() {
    let folder = folder();
    let service = Service::start(folder.path());
    let mut program = service.command(PYTHON, &["-c", LISTENER, STACK[0]]);
    let mut program = Running(program.spawn().expect("Python starts"));
    let mut line = [0; 10];
    program.0.stdout.as_mut().expect("a pipe").read_exact(&mut line).expect("it listens");
    service.server.stop();
    let ended = wait::until(LIMIT, || program.0.try_wait().expect("a child"));
    let mut said = String::new();
    program.0.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
    assert!(ended.is_some_and(|status| status.success()), "{said}");
}

/// Bytes that iperf3 has sent and need not count, because its receiver ends when all is written: the receive buffer of
/// a connection of the stack (1 MiB), and the buffers of the kernel, which `--window` bounds.
const UNCOUNTED: u64 = (1 << 20) + (512 << 10);

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn iperf_measures_both_directions() {
    let folder = folder();
    let service = Service::start(folder.path());
    for (address, more) in [(STACK[0], &[][..]), (STACK[1], &["--reverse"])] {
        let mut server = service.command("iperf3", &["--server", "--one-off", "--port", "5202"]);
        let _server = Running(server.spawn().expect("iperf3 starts"));
        let client = ["--client", address, "--port", "5202", "--bytes", "16M", "--window", "128K"];
        let words = [&client[..], &["--json", "--connect-timeout", "5000"], more].concat();
        let began = Instant::now();
        // iperf3 reports that the server does not listen yet in its JSON.
        let (output, result) = loop {
            let output = service.netns().attempt("iperf3", &words).unwrap_or_else(|error| error);
            let result: Value = serde_json::from_str(&output).unwrap_or_default();
            if result["end"]["sum_received"].is_object() {
                break (output, result);
            }
            assert!(began.elapsed() < LIMIT, "{output}");
            std::thread::sleep(Duration::from_millis(100));
        };
        let received = result["end"]["sum_received"]["bytes"].as_u64().unwrap_or_default();
        assert!(received >= (16 << 20) - UNCOUNTED, "{more:?}: {received} bytes in {output}");
    }
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn iperf_measures_a_server_of_the_kernel() {
    let folder = folder();
    let service = Service::start(folder.path());
    let datagrams = ["--udp", "--bitrate", "20M", "--length", "1400"];
    let window = ["--window", "128K"];
    let reverse = [&window[..], &["--reverse"]].concat();
    let clients = [
        ("5203", "10.9.0.1", &window[..]),
        ("5204", "fd09::1", &reverse),
        ("5205", "10.9.0.1", &datagrams),
        ("5206", "fd09::1", &window),
    ];
    for (port, address, more) in clients {
        let words = ["--server", "--one-off", "--port", port, "--forceflush"];
        let mut server = service.netns().spawn(folder.path(), &format!("iperf-{port}"), "iperf3", &words);
        server.wait_for("Server listening", 0, LIMIT);
        let words = ["--client", address, "--port", port, "--bytes", "8M", "--json"];
        let output = service.run("iperf3", &[&words[..], more].concat());
        let text = String::from_utf8_lossy(&output.stdout);
        let result: Value = serde_json::from_str(&text).unwrap_or_default();
        let received = ["sum_received", "sum"].map(|name| result["end"][name]["bytes"].as_u64());
        let received = received.into_iter().flatten().next().unwrap_or_default();
        assert!(
            output.status.success() && received >= (8 << 20) - UNCOUNTED,
            "{more:?}: {received} bytes in {text}"
        );
    }
}
