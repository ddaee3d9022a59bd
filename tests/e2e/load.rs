//! `linerate load` at one end of a TAP interface, servers of the kernel in a namespace at the other.

use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use linerate_tests::capture::{self, MAC};
use linerate_tests::netns::Netns;
use linerate_tests::process::Process;
use linerate_tests::stack_server::{ADDRESSES, KERNEL};
use linerate_tests::{binary, folder, scope, tcp, wait};
use serde_json::Value;

const LIMIT: Duration = Duration::from_mins(2);
/// Memory in bytes that a server takes for all connections together.
const BUFFERS: u64 = 64 << 20;
const SERVER: [&str; 2] = ["10.9.0.1", "fd09::1"];

/// A namespace with servers, whose interface `web0` appears when a client starts.
struct Link {
    netns: Netns,
}

/// A finished run.
struct Run {
    code: Option<i32>,
    output: String,
    result: Value,
}

impl Link {
    fn new() -> Link {
        let netns = Netns::new();
        netns.run("ip", &["tuntap", "add", "web0", "mode", "tap"]);
        netns.configure("web0", &KERNEL);
        Link { netns }
    }

    fn start(&self, folder: &Path, words: &str) -> Process {
        let capture = folder.join("capture");
        let port =
            format!("kind=tap,interface=web0,netns={},capture={}", self.netns.name(), capture.display());
        let mut words: Vec<&str> = std::iter::once("load").chain(words.split_whitespace()).collect();
        words.extend(["-o", "json", "--mac", MAC, "--port", &port]);
        words.extend(ADDRESSES);
        Process::spawn(folder, "load", binary::linerate(), &words)
    }

    /// Runs `linerate load` with these words to the end, and checks the packets that it has sent.
    fn load(&self, words: &str) -> Run {
        let folder = folder();
        let run = finish(self.start(folder.path(), words));
        if run.code == Some(0) {
            capture::assert_valid(&folder.path().join("capture"));
        }
        run
    }
}

fn finish(mut process: Process) -> Run {
    let code = process.finish(LIMIT).code();
    let output = process.output();
    let json = output.find("{\n").and_then(|at| output.get(at..)).unwrap_or_default();
    // An error follows the result.
    let mut values = serde_json::Deserializer::from_str(json).into_iter();
    let result = values.next().and_then(Result::ok).unwrap_or(Value::Null);
    Run { code, output, result }
}

impl Run {
    fn number(&self, path: &str) -> u64 {
        let value = self.result.pointer(path).and_then(Value::as_u64);
        value.unwrap_or_else(|| panic!("no {path} in {}", self.output))
    }

    fn sum(&self, path: &str) -> u64 {
        let map = self.result.pointer(path).and_then(Value::as_object);
        let map = map.unwrap_or_else(|| panic!("no {path} in {}", self.output));
        map.values().filter_map(Value::as_u64).sum()
    }

    /// Checks that each request and connection is counted once. Returns the number of replies.
    fn check(&self) -> u64 {
        let answered = self.number("/requests/answered");
        let ended = answered + self.sum("/requests/failed") + self.number("/requests/outstanding");
        let sent = self.number("/requests/sent");
        assert_eq!(sent, ended, "{}", self.output);
        assert_eq!(self.number("/requests/due"), sent + self.number("/requests/unsent"), "{}", self.output);
        assert_eq!(self.number("/latency_ns/count"), answered);
        let established = self.number("/connections/established");
        let open = self.number("/connections/open") + self.number("/connections/ended");
        assert_eq!(established, open + self.sum("/connections/lost"), "{}", self.output);
        let failed = self.number("/connections/connecting") + self.sum("/connections/failed");
        assert_eq!(self.number("/connections/attempted"), established + failed, "{}", self.output);
        answered
    }

    /// [`Run::check`] of a run without failures.
    fn succeeded(&self) -> u64 {
        assert_eq!(self.code, Some(0), "{}", self.output);
        let answered = self.check();
        assert!(answered > 0 && self.sum("/requests/failed") == 0, "{}", self.output);
        assert_eq!(self.number("/requests/error_replies"), 0, "{}", self.output);
        answered
    }
}

/// `ADDRESS:PORT` of a server.
fn at(address: &str, port: u16) -> String {
    SocketAddr::new(address.parse().expect("an address"), port).to_string()
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn echo_of_the_kernel_is_loaded_in_closed_and_open_loop() {
    let link = Link::new();
    tcp::listen(&link.netns, 7, tcp::echo);
    for &address in scope::last(&SERVER) {
        let to = at(address, 7);
        let run = link
            .load(&format!("echo --to {to} -c 10 --depth 4 --size 3000 --duration 500ms --warm-up 100ms"));
        run.succeeded();
        assert_eq!((run.number("/connections/established"), run.number("/connections/open")), (10, 10));
        let run = link.load(&format!(
            "echo --to {to} -c 8 --rate 1000 --spacing constant --duration 500ms --rounds 2 --warm-up 100ms"
        ));
        assert_eq!((run.succeeded(), run.number("/requests/due")), (1_000, 1_000), "{}", run.output);
        assert!(
            run.number("/delay_ns/count") == 1_000 && run.result["rounds"].as_array().unwrap().len() == 2
        );
        let run = link
            .load(&format!("echo --to {to} -c 4 --requests-per-connection 5 --duration 500ms --warm-up 0s"));
        let answered = run.succeeded();
        assert!(run.number("/connections/ended").abs_diff(answered / 5) <= 4, "{}", run.output);
        assert_eq!(run.number("/connect_ns/count"), run.number("/connections/established"));
    }
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn workers_in_every_thread_model_load_the_kernel() {
    let link = Link::new();
    tcp::listen(&link.netns, 7, tcp::echo);
    let models = ["--workers 2", "--threads merge --cpus 0", "--workers 2 --threads split"];
    for more in scope::last(&models) {
        for &address in scope::first(&SERVER) {
            let to = at(address, 7);
            let run = link.load(&format!(
                "echo --to {to} -c 11 --depth 2 --size 3000 --duration 300ms --rounds 2 --warm-up 50ms {more}"
            ));
            run.succeeded();
            assert_eq!((run.number("/connections/established"), run.number("/connections/open")), (11, 11));
            assert_eq!(run.result["rounds"].as_array().map(Vec::len), Some(2), "{}", run.output);
            assert_eq!(run.number("/workers"), if more.contains("workers") { 2 } else { 1 });
        }
        let to = at(SERVER[0], 7);
        let run = link.load(&format!("echo --to {to} -c 6 --rate 600 --duration 500ms --warm-up 0s {more}"));
        // Two Poisson processes of half the rate deviate by 17.
        let due = run.number("/requests/due");
        assert!(run.succeeded() == due && due.abs_diff(300) < 120, "{}", run.output);
    }
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn nginx_and_its_errors_are_read() {
    let (link, folder) = (Link::new(), folder());
    let path = folder.path().display();
    let configuration = format!(
        "daemon off; master_process off; pid {path}/pid; error_log {path}/error.log; events {{}}
         http {{ access_log off; keepalive_requests 50; client_body_temp_path {path}/b; proxy_temp_path {path}/p;
           fastcgi_temp_path {path}/f; uwsgi_temp_path {path}/u; scgi_temp_path {path}/s;
           server {{ listen 80; listen [::]:80; root {path}/www; location /status {{ return 200 ok; }}
             location /gzip {{ gzip on; gzip_types *; gzip_min_length 1; gzip_http_version 1.0; gzip_proxied any;
               alias {path}/www/; }} }} }}"
    );
    let file = folder.path().join("nginx.conf");
    std::fs::write(&file, configuration).expect("a writable folder");
    std::fs::create_dir(folder.path().join("www")).expect("a writable folder");
    std::fs::write(folder.path().join("www/large"), vec![b'x'; 300_000]).expect("a writable folder");
    let words = ["-c", file.to_str().expect("UTF-8"), "-p", folder.path().to_str().expect("UTF-8")];
    let _nginx = link.netns.spawn(folder.path(), "nginx", "nginx", &words);
    let is_up = || link.netns.attempt("sh", &["-c", "ss -ltn | grep -q ':80 '"]).ok();
    assert!(wait::until(LIMIT, is_up).is_some(), "nginx does not listen");
    for &address in scope::last(&SERVER) {
        let to = at(address, 80);
        let run = link.load(&format!(
            "http --to {to} -c 4 --path /status --path /large --duration 500ms --warm-up 50ms"
        ));
        // After fifty requests the server closes each of the four connections, which is not a failure.
        let answered = run.succeeded();
        assert!(answered < 4 * 50 || run.number("/connections/ended") > 0, "{}", run.output);
        let run = link.load(&format!("http --to {to} --path /missing --duration 100ms --warm-up 0s"));
        assert_eq!(
            (run.code, run.number("/requests/error_replies")),
            (Some(1), run.check()),
            "{}",
            run.output
        );
    }
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn memcached_is_filled_and_loaded() {
    let (link, folder) = (Link::new(), folder());
    let words = ["-u", "root", "-l", "0.0.0.0,::", "-p", "11211", "-U", "0", "-m", "64"];
    let _memcached = link.netns.spawn(folder.path(), "memcached", "memcached", &words);
    let is_up = || link.netns.attempt("sh", &["-c", "ss -ltn | grep -q ':11211 '"]).ok();
    assert!(wait::until(LIMIT, is_up).is_some(), "memcached does not listen");
    for &address in scope::first(&SERVER) {
        let to = at(address, 11_211);
        let kv = format!("kv --to {to} -c 5 --depth 3 --keys 2000 --duration 500ms --warm-up 50ms");
        let run = link.load(&format!("{kv} --size 2000 --distribution zipf:0.99 --gets 80"));
        run.succeeded();
        assert_eq!(run.number("/requests/misses"), 0, "{}", run.output);
        // Values of another length were set before.
        let run = link.load(&format!("{kv} --size 100 --gets 100 --no-fill"));
        assert_eq!(run.code, Some(1));
        assert!(run.check() == 0 && run.sum("/requests/failed") > 0, "{}", run.output);
        assert!(run.output.contains("value of another length"), "{}", run.output);
    }
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn failures_of_a_run_are_named() {
    let link = Link::new();
    let run = link.load(&format!("echo --to {} --duration 1s", at(SERVER[0], 9)));
    assert_eq!(run.code, Some(1));
    assert!(run.output.contains("cannot connect to the server: connection refused"), "{}", run.output);
    let run = link.load("echo --to 10.9.0.99:7 --duration 1s --timeout 500ms");
    assert!(run.code == Some(1) && run.output.contains("cannot connect to the server"), "{}", run.output);
    let run = link.load("echo --to 192.0.2.1:7 --duration 1s");
    assert!(run.code == Some(1) && run.output.contains("no route to the server"), "{}", run.output);
    let run = link.load("echo --to 10.9.0.1:7 --connections 100000");
    assert!(run.code == Some(2) && run.output.contains("write --sources 2"), "{}", run.output);
    // The server accepts a request and closes.
    tcp::listen(&link.netns, 8, |mut stream| drop(stream.read(&mut [0; 1])));
    let run = link.load(&format!("echo --to {} -c 2 --duration 300ms --warm-up 0s", at(SERVER[0], 8)));
    assert_eq!(run.code, Some(1));
    assert!(run.check() == 0 && run.output.contains("requests failed"), "{}", run.output);
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn signals_and_lost_ports_end_a_run_with_a_partial_result() {
    let link = Link::new();
    tcp::listen(&link.netns, 7, tcp::echo);
    let words = format!("echo --to {} -c 3 --duration 30s --warm-up 0s", at(SERVER[1], 7));
    let folder = folder();
    let mut process = link.start(folder.path(), &words);
    process.wait_for("replies/s", 0, LIMIT);
    process.terminate(LIMIT);
    let run = finish(process);
    assert!(run.code == Some(1) && run.output.contains("ended by a signal"), "{}", run.output);
    assert!(run.check() > 0 && run.result["is_complete"] == false, "{}", run.output);
    let folder = linerate_tests::folder();
    let mut process = link.start(folder.path(), &words);
    process.wait_for("replies/s", 0, LIMIT);
    link.netns.ip("link delete web0");
    let run = finish(process);
    assert!(run.code == Some(1) && run.output.contains("stopped carrying packets"), "{}", run.output);
}

/// Open connections, of which only a few have requests: the server's memory grows by at most 1 KiB for each.
#[test]
#[ignore = "run by `cargo xtask test`"]
fn a_million_connections_are_open_at_once() {
    let connections: u64 = scope::pick(1_000_000, 10_000);
    let folder = folder();
    let socket = folder.path().join("peer").display().to_string();
    let port = format!("kind=vhost-user,mode=server,socket={socket}");
    let most = (connections + 4096).to_string();
    let words = ["serve", "echo", "--address", "10.9.0.2/16", "--max-connections", &most, "--port", &port];
    let server = Process::spawn(folder.path(), "server", binary::linerate(), &words);
    assert!(
        wait::until(LIMIT, || Path::new(&socket).exists().then_some(())).is_some(),
        "{}",
        server.output()
    );
    let before = peak_memory(&server);
    // A source address has 64,512 ports.
    let sources = connections.div_ceil(64_512);
    let words = format!(
        "load echo -o json --port kind=virtio-user,mode=client,socket={socket} --address 10.9.1.1/16 \
         --sources {sources} --to 10.9.0.2:7 -c {connections} --rate 1000 --warm-up 0s --duration 1s --timeout 60s"
    );
    let words: Vec<&str> = words.split_whitespace().collect();
    let run = finish(Process::spawn(folder.path(), "load", binary::linerate(), &words));
    run.succeeded();
    assert_eq!(run.number("/connections/open"), connections, "{}", run.output);
    assert_eq!(run.number("/connections/attempted"), connections, "{}", run.output);
    let grown = peak_memory(&server) - before;
    let limit = connections * 1024 + BUFFERS;
    assert!(grown <= limit, "{grown} bytes more for {connections} connections, {limit} at most");
}

/// Largest memory of a process in bytes.
fn peak_memory(process: &Process) -> u64 {
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", process.pid())).expect("a running process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line of its memory");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib * 1024
}
