//! `linerate serve kv`: the kernel in a namespace runs clients of memcached, and memcached itself for comparison.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use linerate_tests::binary;
use linerate_tests::folder;
use linerate_tests::need;
use linerate_tests::netns::Netns;
use linerate_tests::process::Process;
use linerate_tests::wait;
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(20);
const CLIENT: &str = "10.9.0.1";
const SERVER: &str = "10.9.0.2";
const PORT: u16 = 11_211;
/// Debian's Python, which has the client library.
const PYTHON: &str = "/usr/bin/python3";

/// A store at the other end of interface `kv0` of a namespace.
struct Server {
    process: Process,
    netns: Netns,
}

impl Server {
    fn start(folder: &Path, more: &[&str]) -> Server {
        let netns = Netns::new();
        let port = format!("kind=tap,interface=kv0,netns={}", netns.name());
        let address = format!("{SERVER}/24");
        let words = ["serve", "kv", "-o", "json", "--port", &port, "--address", &address];
        let mut process = Process::spawn(folder, "kv", binary::linerate(), &[&words[..], more].concat());
        process.wait_for("serves port", 0, LIMIT);
        netns.configure("kv0", &[&format!("{CLIENT}/24")]);
        Server { process, netns }
    }

    /// Ends the server and returns its summary.
    fn stop(mut self) -> Value {
        assert!(self.process.terminate(LIMIT).success());
        let output = self.process.output();
        let json = output.find("{\n").and_then(|at| output.get(at..)).unwrap_or_default();
        serde_json::from_str(json).unwrap_or_else(|error| panic!("no summary in {output}: {error}"))
    }
}

/// Conversations, each after `flush_all`. The replies are those of memcached 1.6.18, which is what Debian 12 has. Left
/// out is what the guide names as different: `version`, `stats`, `me`, and flags of later versions.
const CONVERSATIONS: &[&str] = &[
    "get a\nset a 5 0 3\nabc\nget a\ngets a b a\nadd a 0 0 1\nx\nreplace a 1 0 2\nxy\nreplace b 1 0 2\nxy\nget a b\n",
    "set a 7 0 1\n1\nappend a 0 0 2\n23\nprepend a 9 0 1\n0\nget a\nappend b 0 0 1\nx\nprepend b 0 0 1\nx\n",
    "set n 0 0 2\n10\nincr n 5\ndecr n 6\nget n\nincr n 18446744073709551615\nincr n 18446744073709551616\ndecr n 99\nget n\nincr n -1\nincr n x\nincr none 1\n",
    "set n 0 0 1\nx\nincr n 1\nset n 0 0 0\n\nincr n 1\nset n 0 0 3\n 12\nincr n 1\nset n 0 0 3\n12 \nincr n 1\nget n\nset n 0 0 3\n1.5\nincr n 1\n",
    "cas a 0 0 1 1\nx\nset a 0 0 1\n1\ncas a 0 0 1 99999999\n2\ncas a 0 0 1 0\n2\ncas a 0 0 1 x\ncas a 0 0 1\n",
    "set a 0 -1 1\nx\nget a\nset a 0 100 1\nx\nget a\ntouch a -1\nget a\ntouch a 0\nset a 0 0 1\ny\ntouch a 50\ngat 0 a b\ngats -1 a\nget a\n",
    "set a 0 1 1\nx\nset a 0 2592001 1\nx\nget a\nset a 0 4000000000 1\nx\nget a\nset a 4294967295 0 1\nx\nget a\nset a 4294967296 0 1\nx\nget a\nset a -1 0 1\nx\n",
    "delete a\nset a 0 0 1\nx\ndelete a 0\nset a 0 0 1\nx\ndelete a 5\ndelete a 0 noreply\nget a\ndelete\ndelete a b c d\n",
    "set a 0 0 1 noreply\nx\nadd a 0 0 1 noreply\nx\nappend a 0 0 1 noreply\ny\nincr a 1 noreply\ntouch a 0 noreply\nget a\ndelete a noreply\nget a\nflush_all noreply\nverbosity 0 noreply\n",
    "set a 0 0 1\nx\nflush_all 100\nget a\nflush_all -5\nget a\nset a 0 0 1\nx\nget a\nflush_all x\nflush_all 0 noreply\nflush_all 0 1 2\nget a\n",
    "\nfoo\n get  a \nset\nset a\nset a 0 0\nset a b 0 1\nset a 0 b 1\nset a 0 0 b\nset a 0 0 -1\nset a 0 0 1 2 3\nget\ngets\ngat\ngat x a\ntouch a\ntouch a x\nincr a\nverbosity\nverbosity x\nverbosity 1\nm\nmx\nx\n",
    "set a 0 0 3\nabcdef\nget a\nset a 0 0 3\nab\n\nget a\nset a 0 0 1\nxget a\n\nget a\n",
    "set b 0 0 6\na\n\nb\n\nget b\n",
    "mn\nmg a\nmg a v k O1\nmg a q\nmg a q k\nms a 2\nhi\nmg a\nmg a v\nmg a s v f t k Oq h l\nmg a h\nmg a u h\nmg a b\nmg a v v\nmg a !\nmg\nmg a O123456789012345678901234567890123\n",
    "ms a 1 T0 F7\nx\nmg a v f t\nms a 1 ME\ny\nms a 1 ME k O7\ny\nms a 1 MA\ny\nms a 1 MP\nz\nmg a v\nms b 1 MR\nx\nms b 1 MA\nx\nms b 1 MR k\nx\nms b 1 MS q\nx\nms b 1 MR q\ny\nms b 1 MX\ny\nms b 1 MXX\ny\nmg b v\n",
    "ms a 1 C9\nx\nms a 1\nx\nms a 1 C99999999\ny\nms a 1 C99999999 MA k\ny\nms a 1 C5x\ny\nms a\nms a x\nms a -1\nms a 1 T !\ny\nms a 1 Fx\ny\nmg a v\n",
    "ms YWJj 2 b\nhi\nmg YWJj b k v\nget abc\nmg abc k v\nms !!! 2 b\nhi\nmd YWJj b k\nmg YWJj b k\n",
    "mg a N30 v t\nmg a N30 v\nmg a v\nms a 1 T30\nx\nmg a v\nmd a I T20\nmg a v t\nmg a v t\nms a 1\ny\nmg a v t\nmd a k O5\nmd a k O5\nmd a q\nms a 1\nx\nmd a q\nmg a\n",
    "ms a 1 T30\nx\nmg a R10 t\nmg a R100 t\nmg a R100 t\nmg a T50 t\nmg a T-1\nmg a t\n",
    "ms a 1 T30\nx\nmd a C99999999\nmd a C99999999 q\nmg a v\nms a 1 C1 I T50\ny\nmg a v t\nmg a v t\nmd a C1 I\nmd a Cx\nmd a !\nmd\n",
    "ma n\nma n q\nma n N0 J13 v\nma n v\nma n D7 v\nma n MD D100 v\nma n MI\nma n M+ v k O1\nma n M- v t\nma n T60 v\nmg n t v\nma n q\nma n MX\nma n Dx\nma n C99999999 k\nms n 1\nx\nma n\nma\n",
    "mg a N30\nma a\nms a 0\n\nma a\nmg a s v\nget a\n",
    "me nothing\nme\nmn x\n",
    "set k\x01\x7f 0 0 1\nx\nget k\x01\x7f\nset a\tb 0 0 1\nx\nget a\tb\n",
];

/// Conversations that end the connection.
const LAST_WORDS: &[&str] = &["get a\nquit\nget a\n", "quit now\n"];

fn connect(address: &str, port: u16) -> TcpStream {
    let address = SocketAddr::new(address.parse().expect("an address"), port);
    let stream = TcpStream::connect_timeout(&address, LIMIT).unwrap_or_else(|e| panic!("{address}: {e}"));
    stream.set_read_timeout(Some(LIMIT)).expect("a time limit");
    stream.set_nodelay(true).expect("no delay");
    stream
}

/// Sends requests in parts of `part` bytes, and reads until the reply to a last `mn`.
fn converse(stream: &mut TcpStream, requests: &[u8], part: usize) -> String {
    let (end, mut received) = (b"VA 0 k_end\r\n\r\nMN\r\n", Vec::new());
    let all = [b"flush_all\r\n", requests, b"ms _end 0\r\n\r\nmg _end v k\r\nmn\r\n"].concat();
    for part in all.chunks(part) {
        stream.write_all(part).expect("the server reads");
    }
    let mut buffer = [0; 65_536];
    while !received.ends_with(end) {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => received.extend_from_slice(&buffer[..n]),
            Err(error) => panic!("{error} after {}", String::from_utf8_lossy(&received)),
        }
    }
    String::from_utf8_lossy(&received).into_owned()
}

/// Sends requests and reads until the server closes.
fn last_words(address: &str, port: u16, requests: &[u8]) -> String {
    let (mut stream, mut received) = (connect(address, port), Vec::new());
    stream.write_all(requests).expect("the server reads");
    let mut buffer = [0; 4096];
    // A server that closes with unread bytes resets the connection.
    while let Ok(n @ 1..) = stream.read(&mut buffer) {
        received.extend_from_slice(&buffer[..n]);
    }
    String::from_utf8_lossy(&received).into_owned()
}

/// The lines of replies. Seconds are rounded, because the clocks of two servers tick at different times.
fn lines(text: &str) -> Vec<String> {
    let round = |word: &str| match word.split_at_checked(1) {
        Some(("t", digits)) if digits.parse::<u32>().is_ok() => {
            format!("t{}", digits.parse::<u32>().unwrap_or_default().div_ceil(10) * 10)
        }
        Some(("l", digits)) if digits.parse::<u32>().is_ok() => "l".to_owned(),
        _ => word.to_owned(),
    };
    text.split("\r\n").map(|line| line.split(' ').map(round).collect::<Vec<_>>().join(" ")).collect()
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn answers_are_those_of_memcached() {
    need::program("memcached");
    let folder = folder();
    let server = Server::start(folder.path(), &[]);
    let words = ["-u", "root", "-l", CLIENT, "-p", "11212", "-U", "0", "-m", "64"];
    let _memcached = server.netns.spawn(folder.path(), "memcached", "memcached", &words);
    server.netns.enter(|| {
        let there = wait::until(LIMIT, || TcpStream::connect((CLIENT, 11_212)).ok());
        assert!(there.is_some(), "memcached did not start");
        for part in [65_536, 1] {
            let (mut ours, mut theirs) = (connect(SERVER, PORT), connect(CLIENT, 11_212));
            for conversation in CONVERSATIONS {
                let requests = conversation.replace('\n', "\r\n");
                let [our, their] = [&mut ours, &mut theirs]
                    .map(|stream| lines(&converse(stream, requests.as_bytes(), part)));
                assert_eq!(our, their, "left: linerate, right: memcached; to {conversation:?}");
            }
        }
        let long = [b"get ".to_vec(), b"x".repeat(300), b"\r\nquit\r\n".to_vec()].concat();
        let garbage = b"x".repeat(4000);
        let binary = [&[0x80, 0x20][..], &[0; 30]].concat();
        let texts = LAST_WORDS.iter().map(|text| text.replace('\n', "\r\n").into_bytes());
        for requests in texts.chain([long, garbage]) {
            let [our, their] =
                [(SERVER, PORT), (CLIENT, 11_212)].map(|(at, port)| last_words(at, port, &requests));
            assert_eq!(our, their, "to {:?}", String::from_utf8_lossy(&requests));
        }
        assert_eq!(last_words(SERVER, PORT, &binary), "", "the binary protocol is refused");
    });
    server.stop();
}

/// What a client library does with a server.
const CLIENT_LIBRARY: &str = r#"
import os, sys
try:
    from pymemcache.client.base import Client, PooledClient
except ImportError:
    sys.exit(77)
host = (sys.argv[1], int(sys.argv[2]))
c = Client(host, timeout=20, connect_timeout=20)
assert c.set(b"a", b"1") and c.get(b"a") == b"1" and c.get(b"none") is None
value, cas = c.gets(b"a")
assert c.cas(b"a", b"2", cas) is True and c.cas(b"a", b"3", cas) is False and c.cas(b"x", b"1", cas) is None
assert c.add(b"a", b"9", noreply=False) is False and c.replace(b"a", b"5", noreply=False)
assert c.incr(b"a", 7) == 12 and c.decr(b"a", 2) == 10 and c.incr(b"none", 1) is None
assert c.append(b"a", b"z", noreply=False) and c.prepend(b"a", b"y", noreply=False) and c.get(b"a") == b"y10z"
assert c.touch(b"a", 100, noreply=False) and c.delete(b"a", noreply=False) and c.get(b"a") is None
sizes = [0, 1, 100, 1023, 1024, 1025, 1460, 8192, 65536, 1000003, 1048576]
values = {b"k%d" % n: os.urandom(n) for n in sizes}
for _ in range(3):
    assert c.set_many(values, noreply=False) == []
    assert c.get_many(list(values)) == values
many = {b"m%d" % n: b"%d" % n for n in range(2000)}
assert c.set_many(many, noreply=True) == [] and c.get_many(list(many)) == many
try:
    c.set(b"big", b"x" * (1048577), noreply=False)
    assert False, "too large"
except Exception as error:
    assert "too large" in str(error), error
assert c.get(b"big") is None and c.get(b"k1") == values[b"k1"]
stats = c.stats()
assert stats[b"curr_items"] == len(values) + len(many), stats
assert c.flush_all(noreply=False) and c.get_many(list(many)) == {}
c.quit()
print("fine")
"#;

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn a_client_library_stores_and_reads_values_of_all_sizes() {
    let folder = folder();
    let server = Server::start(folder.path(), &[]);
    let words = ["-c", CLIENT_LIBRARY, SERVER, "11211"];
    match server.netns.attempt("env", &[&[PYTHON][..], &words].concat()) {
        Ok(said) => assert_eq!(said.trim(), "fine"),
        Err(said) if said.contains("exit status: 77") => need::skip("python3-pymemcache is not installed"),
        Err(said) => panic!("{said}"),
    }
    let summary = server.stop();
    assert_eq!(summary["aborted"], 0, "{summary}");
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn libmemcached_finds_its_protocol_and_a_load_loses_no_value() {
    need::program("memccapable");
    let folder = folder();
    let server = Server::start(folder.path(), &["--memory", "16MiB"]);
    let said = server.netns.run("memccapable", &["-h", SERVER, "-p", "11211", "-a"]);
    assert!(said.contains("All tests passed") && !said.contains("FAIL"), "{said}");
    let file = folder.path().join("value");
    let value: Vec<u8> = (0..300_000_u32).map(|at| (at % 251) as u8).collect();
    std::fs::write(&file, &value).expect("a file");
    let servers = format!("--servers={SERVER}:11211");
    server.netns.run("memccp", &[&servers, &file.to_string_lossy().into_owned()]);
    let back = folder.path().join("back");
    let words = [servers.clone(), format!("--file={}", back.display()), "value".to_owned()];
    server.netns.run("memccat", &words);
    assert!(std::fs::read(&back).expect("a file").starts_with(&value), "the value came back");
    // Every value read is verified; 16 MiB are too little for all, so some are evicted.
    let load = [
        format!("--servers={SERVER}:11211"),
        "-T1".into(),
        "-c8".into(),
        "-x40000".into(),
        "-v1".into(),
        "-X1000".into(),
    ];
    let said = server.netns.run("memcaslap", &load);
    assert!(said.contains("verify_failed: 0") && said.contains("packet_disorder: 0"), "{said}");
    let summary = server.stop();
    assert!(summary["bytes_received"].as_u64() > Some(1 << 20), "{summary}");
}

/// A client that requests many large values and reads none: the server holds a bounded number of bytes for it, and
/// serves others.
#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn a_client_that_does_not_read_stops_only_itself() {
    let folder = folder();
    let server = Server::start(folder.path(), &["--connections", "2"]);
    server.netns.enter(|| {
        let mut slow = connect(SERVER, PORT);
        let value = vec![b'v'; 1 << 20];
        slow.write_all(&[b"set a 0 0 1048576\r\n", &value[..], b"\r\n"].concat()).expect("the server reads");
        slow.set_write_timeout(Some(Duration::from_secs(1))).expect("a time limit");
        // The server stops reading when its buffers are full.
        let request = b"get a a a a\r\n".repeat(1000);
        let mut written = 0;
        while written < 64 << 20 {
            match slow.write(&request) {
                Ok(n) => written += n,
                Err(_) => break,
            }
        }
        assert!(written < 64 << 20, "the server did not stop reading");
        let mut other = connect(SERVER, PORT);
        assert!(
            converse(&mut other, b"set b 0 0 1\r\nx\r\nget b\r\n", 99)
                .contains("VALUE b 0 1\r\nx\r\nEND\r\n")
        );
        // Two connections are the limit.
        let mut third = connect(SERVER, PORT);
        assert!(matches!(third.read(&mut [0]), Ok(0) | Err(_)), "the third connection is reset");
    });
    let summary = server.stop();
    assert!(summary["bytes_sent"].as_u64() < Some(64 << 20), "{summary}");
}
