//! The HTTP server and scripted clients, two hosts at the ends of one wire in shared memory.

use crate::{MODELS, drive};
use engine::{LocalPort, Polling};
use files::Mode;
use host::{App, Buffer, Host, Options, Threads};
use port::memif;
use port::patch::{Exchange, Patch};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use serve::Server;
use serve::http::{FileLimits, Http, HttpCounts, HttpLimits, HttpOptions, HttpTimes, RECEIVE_BUFFER};
use stack::ip::InterfaceConfig;
use stack::tcp::ConnectionId;
use stack::{Address, Endpoint, Event, Slice, Stack, Time};
use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use wire::MacAddress;

const SERVER: &str = "10.9.0.2/24";
const CLIENT: &str = "10.9.0.1/24";
const PORT: u16 = 80;
/// Length of the large file: odd, and several times the memory of blocks in some tests.
const LARGE: usize = 3_000_001;

fn host(name: &str, peer: &str, exchange: &Exchange, address: &str) -> Host {
    let mut options = Options { polling: Polling::Adaptive, ..Options::new().unwrap() };
    options.stack.limits.receive_buffer = RECEIVE_BUFFER;
    let mut host = Host::new(options).unwrap();
    let patch = Patch::new(name, peer, memif::Options::default(), exchange).unwrap();
    let mac = MacAddress::new([2, 0, 0, 0, 0, name.as_bytes()[0]]);
    let config = InterfaceConfig { mac, mtu: 1500, vlan: None };
    let interface = host.add_port(LocalPort::new(name, Box::new(patch)), config);
    let now = host.now();
    host.stack().add_address(interface, address.parse().unwrap(), now);
    host
}

/// A connection of the client: what it sends, one piece in each round, and what it received.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "two say what it does, two how far it is")]
struct Script {
    pieces: VecDeque<Vec<u8>>,
    /// Whether it reads. Otherwise its receive window closes.
    reads: bool,
    /// Whether it never closes.
    lingers: bool,
    received: Vec<u8>,
    is_open: bool,
    has_ended: bool,
}

impl Script {
    fn new(pieces: &[&[u8]]) -> Self {
        let pieces = pieces.iter().map(|piece| piece.to_vec()).collect();
        Self { pieces, reads: true, ..Self::default() }
    }
}

struct Client {
    scripts: HashMap<ConnectionId, Script>,
    stop: Arc<AtomicBool>,
}

impl Client {
    fn end(&mut self, id: ConnectionId) {
        self.scripts.get_mut(&id).unwrap().has_ended = true;
        let is_done = self.scripts.values().all(|script| script.has_ended);
        self.stop.store(is_done, Ordering::Relaxed);
    }
}

impl App for Client {
    fn event(&mut self, stack: &mut Stack<Buffer>, event: Event<Buffer>, _now: Time) {
        match event {
            Event::Connected { connection } => self.scripts.get_mut(&connection).unwrap().is_open = true,
            Event::Data { connection, data } => {
                let script = self.scripts.get_mut(&connection).unwrap();
                script.received.extend(data.to_vec());
                if script.reads {
                    stack.consumed(connection, data.len());
                }
            }
            Event::Finished { connection } if !self.scripts.get_mut(&connection).unwrap().lingers => {
                stack.close(connection);
                self.end(connection);
            }
            Event::Closed { connection, .. } => self.end(connection),
            _ => {}
        }
    }

    fn poll(&mut self, stack: &mut Stack<Buffer>, _now: Time) -> bool {
        let mut has_sent = false;
        for (id, script) in self.scripts.iter_mut().filter(|(_, script)| script.is_open) {
            if let Some(piece) = script.pieces.pop_front() {
                has_sent = true;
                // The server may have closed meanwhile.
                let _ = stack.send(*id, Slice::new(piece.into()));
            }
        }
        has_sent
    }
}

/// Runs all scripts at once against a server. Returns what each received.
fn run(options: HttpOptions, scripts: Vec<Script>) -> (Vec<Vec<u8>>, HttpCounts) {
    run_in(Threads::Unified, options, scripts)
}

/// As [`run`], with the server in a thread model.
fn run_in(threads: Threads, options: HttpOptions, scripts: Vec<Script>) -> (Vec<Vec<u8>>, HttpCounts) {
    let (exchange, stop) = (Exchange::default(), Arc::new(AtomicBool::new(false)));
    let mut server = host("a", "b", &exchange, SERVER);
    let mut client = host("b", "a", &exchange, CLIENT);
    let served = std::thread::spawn({
        let stop = stop.clone();
        move || {
            let mut http = Http::new(options).unwrap();
            http.listen(server.stack(), Endpoint::new(Address::v4([0; 4]), PORT)).unwrap();
            drive(&mut server, &mut http, threads, &stop);
            http.counts()
        }
    });
    assert!(client.connect(&AtomicBool::new(false)));
    let to = Endpoint::new(SERVER.parse::<stack::Cidr>().unwrap().address, PORT);
    let (now, mut ids) = (client.now(), Vec::new());
    for _ in &scripts {
        let from = Endpoint::new(Address::v4([0; 4]), 0);
        ids.push(client.stack().connect(from, to, stack::tcp::Options::default(), now).unwrap());
    }
    let scripts = ids.iter().copied().zip(scripts).collect();
    let mut app = Client { scripts, stop: stop.clone() };
    let watchdog = stop.clone();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_mins(1));
        watchdog.store(true, Ordering::Relaxed);
    });
    client.run(&mut app, &stop);
    let unfinished = app.scripts.values().filter(|script| !script.has_ended).count();
    assert_eq!(unfinished, 0, "connections without an end");
    let received = ids.iter().map(|id| app.scripts.remove(id).unwrap().received).collect();
    (received, served.join().unwrap())
}

fn large() -> Vec<u8> {
    (0..LARGE).map(|i| (i % 251) as u8).collect()
}

/// A directory with files of each kind. On a file system with direct reads, where the crate is.
fn folder() -> TempDir {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path();
    std::fs::create_dir_all(path.join("sub/deep")).unwrap();
    std::fs::write(path.join("index.html"), "<p>index</p>").unwrap();
    std::fs::write(path.join("sub/index.html"), "<p>sub</p>").unwrap();
    std::fs::write(path.join("a b.txt"), "0123456789").unwrap();
    std::fs::write(path.join("empty"), "").unwrap();
    std::fs::write(path.join("large.bin"), large()).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", path.join("out")).unwrap();
    folder
}

fn options(path: &Path) -> HttpOptions {
    let mut options = HttpOptions::new(path);
    options.memory = FileLimits { block: 64 << 10, ..options.memory };
    options
}

/// Status, head and body of a response to a request that closes the connection.
fn split(response: &[u8]) -> (u16, String, &[u8]) {
    let end = response.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    let head = String::from_utf8(response[..end].to_vec()).unwrap();
    let code = head.split(' ').nth(1).unwrap().parse().unwrap();
    (code, head, &response[end..])
}

fn get(target: &str, fields: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n").into_bytes()
}

#[test]
fn each_request_gets_its_response() {
    let folder = folder();
    let text = |code: &str| code.as_bytes().to_vec();
    let cases: Vec<(Vec<u8>, u16, &str, Vec<u8>)> = vec![
        (get("/", ""), 200, "Content-Type: text/html; charset=utf-8\r\n", text("<p>index</p>")),
        (get("/sub/", ""), 200, "Content-Length: 10\r\n", text("<p>sub</p>")),
        (get("/sub?a=/b", ""), 301, "Location: /sub/?a=/b\r\n", text("301 Moved Permanently\n")),
        (get("/sub/deep/", ""), 404, "Content-Type: text/plain\r\n", text("404 Not Found\n")),
        (get("/a%20b.txt", ""), 200, "Accept-Ranges: bytes\r\n", text("0123456789")),
        (get("/a%20b.txt", "Range: bytes=-3\r\n"), 206, "Content-Range: bytes 7-9/10\r\n", text("789")),
        (get("/a%20b.txt", "Range: bytes=0-1,4-5\r\n"), 200, "", text("0123456789")),
        (get("/a%20b.txt", "If-Match: \"x\"\r\n"), 412, "", text("412 Precondition Failed\n")),
        (get("/a%20b.txt", "If-None-Match: *\r\n"), 304, "ETag: \"", Vec::new()),
        (
            get("/a%20b.txt", "Range: bytes=10-\r\n"),
            416,
            "Content-Range: bytes */10\r\n",
            text("416 Range Not Satisfiable\n"),
        ),
        (get("/empty", ""), 200, "Content-Length: 0\r\n", Vec::new()),
        (get("/large.bin", "Range: bytes=70000-2500000\r\n"), 206, "", large()[70_000..2_500_001].to_vec()),
        (get("/out", ""), 404, "", text("404 Not Found\n")),
        (get("/../a", ""), 400, "", text("400 Bad Request\n")),
        (text("HEAD / HTTP/1.0\r\n\r\n"), 200, "Connection: close\r\n", Vec::new()),
        (text("HEAD /none HTTP/1.0\r\n\r\n"), 404, "Content-Length: 14\r\n", Vec::new()),
        (
            text("DELETE / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
            405,
            "Allow: GET, HEAD, OPTIONS\r\n",
            text("405 Method Not Allowed\n"),
        ),
        (
            text("OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
            204,
            "Allow: GET, HEAD, OPTIONS\r\n",
            Vec::new(),
        ),
        (text("BREW / HTTP/1.0\r\n\r\n"), 501, "", text("501 Not Implemented\n")),
        (text("GET / HTTP/1.1\r\n\r\n"), 400, "Connection: close\r\n", text("400 Bad Request\n")),
        (text("GET / HTTP/2.0\r\n\r\n"), 505, "", text("505 HTTP Version Not Supported\n")),
        (text("GET / HTTP/1.0\r\nContent-Length: 70000\r\n\r\n"), 413, "", text("413 Content Too Large\n")),
        (get(&format!("/{}", "a".repeat(9000)), ""), 414, "", text("414 URI Too Long\n")),
        (
            get("/", &format!("A: {}\r\n", "a".repeat(17_000))),
            431,
            "",
            text("431 Request Header Fields Too Large\n"),
        ),
    ];
    let scripts = cases.iter().map(|(request, ..)| Script::new(&[request])).collect();
    let (received, counts) = run(options(folder.path()), scripts);
    for ((request, code, field, body), received) in cases.iter().zip(&received) {
        let (status, head, rest) = split(received);
        let request = String::from_utf8_lossy(&request[..request.len().min(80)]);
        assert!(status == *code && rest == *body && head.contains(field), "{request}: {head}");
    }
    assert_eq!((counts.requests, counts.not_modified, counts.ranges), (cases.len() as u64, 1, 2));
    assert_eq!((counts.read_errors, counts.no_memory), (0, 0));
}

/// All bytes of responses without dates.
fn without_dates(received: &[u8]) -> Vec<u8> {
    let lines = received.split_inclusive(|byte| *byte == b'\n');
    lines.filter(|line| !line.starts_with(b"Date: ")).flatten().copied().collect()
}

#[test]
fn responses_do_not_depend_on_where_requests_are_split() {
    let folder = folder();
    let requests: &[u8] = b"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\nHEAD /a%20b.txt HTTP/1.1\nHost: a\n\n\
        POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n\
        GET /large.bin HTTP/1.1\r\nHost: a\r\nRange: bytes=4095-300000\r\n\r\n\
        GET /none HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\nHost: a\r\n\r\n\
        GET /a%20b.txt HTTP/1.0\r\n\r\n";
    let cuts = proptest::collection::btree_set(1..requests.len(), 0..40);
    let mut runner = TestRunner::deterministic();
    let mut scripts = vec![Script::new(&[requests])];
    let bytes: Vec<&[u8]> = requests.chunks(1).collect();
    scripts.push(Script::new(&bytes));
    scripts.extend((0..40).map(|_| {
        let cuts = cuts.new_tree(&mut runner).unwrap().current();
        let ends = cuts.iter().copied().chain([requests.len()]);
        let pieces: Vec<_> =
            [0].iter().chain(&cuts).copied().zip(ends).map(|(a, b)| &requests[a..b]).collect();
        Script::new(&pieces)
    }));
    let n = scripts.len() as u64;
    let (received, counts) = run(options(folder.path()), scripts);
    let expected = without_dates(&received[0]);
    assert!(expected.ends_with(b"0123456789") && expected.len() > 295_906);
    for (i, received) in received.iter().enumerate() {
        assert!(without_dates(received) == expected, "split {i} differs");
    }
    assert_eq!((counts.requests, counts.errors), (7 * n, 2 * n));
}

#[test]
fn large_files_arrive_whole_in_every_mode_with_few_blocks() {
    let folder = folder();
    for files in [Mode::Direct, Mode::Cached, Mode::Copy] {
        let mut options = options(folder.path());
        options.files = files;
        // Three blocks for eight connections: each must get its turn.
        options.memory.blocks = 3;
        let scripts = (0..8).map(|_| Script::new(&[&get("/large.bin", "")])).collect();
        let (received, counts) = run(options, scripts);
        let expected = large();
        for received in &received {
            assert!(split(received).2 == expected, "{files:?}");
        }
        assert_eq!((counts.blocks, counts.read_errors), (8 * LARGE.div_ceil(64 << 10) as u64, 0));
    }
}

#[test]
fn thread_models_send_the_same_bytes() {
    let folder = folder();
    let (path, expected) = (folder.path(), large());
    for threads in MODELS {
        let mut options = options(path);
        options.memory.blocks = 3;
        // Small files behind each other, and a large one by few blocks.
        let requests =
            [&b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(100)[..], &get("/large.bin", "")].concat();
        let scripts = (0..8).map(|_| Script::new(&[&requests])).collect();
        let (received, counts) = run_in(threads, options, scripts);
        for received in &received {
            let bodies = received.len() - expected.len();
            assert!(received[bodies..] == expected, "{threads:?}");
            assert_eq!(received[..bodies].windows(12).filter(|part| part == b"<p>index</p>").count(), 100);
        }
        assert_eq!((counts.requests, counts.errors, counts.read_errors), (808, 0, 0), "{threads:?}");
    }
}

#[test]
fn slow_clients_are_ended_and_counted() {
    [Threads::Unified, Threads::Split].into_iter().for_each(slow_clients);
}

fn slow_clients(threads: Threads) {
    let folder = folder();
    let mut options = options(folder.path());
    let second = Duration::from_secs(1);
    options.times = HttpTimes { request: second, idle: 2 * second, send: second, linger: second };
    options.limits = HttpLimits { connections: 5, ..HttpLimits::default() };
    let request = get("/large.bin", "");
    let stalled = Script { reads: false, ..Script::new(&[&request]) };
    let lingering = Script { lingers: true, ..Script::new(&[&get("/", "")]) };
    let content: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabc";
    let scripts = vec![
        Script::new(&[b"GET / HTT"]),
        Script::new(&[]),
        stalled,
        Script::new(&[content]),
        lingering,
        Script::new(&[]),
    ];
    let (received, counts) = run_in(threads, options, scripts);
    assert_eq!(split(&received[0]).0, 408);
    assert!(received[1].is_empty() && received[2].len() < LARGE && received[5].is_empty());
    assert!(split(&received[3]).0 == 200 && split(&received[4]).0 == 200);
    assert_eq!((counts.over_limit, counts.request_time), (1, 2), "{counts:?}");
    assert_eq!((counts.idle_time, counts.send_time, counts.linger_time), (1, 1, 1), "{counts:?}");
}

#[test]
fn changed_files_are_sent_anew() {
    let folder = folder();
    let tags: Vec<String> = ["first", "second, longer"]
        .into_iter()
        .map(|text| {
            std::fs::write(folder.path().join("changes"), text).unwrap();
            let (received, _) = run(options(folder.path()), vec![Script::new(&[&get("/changes", "")])]);
            let (_, head, body) = split(&received[0]);
            assert_eq!(body, text.as_bytes());
            head.lines().find(|line| line.starts_with("ETag")).unwrap().to_owned()
        })
        .collect();
    assert_ne!(tags[0], tags[1]);
}
