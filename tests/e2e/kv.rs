//! `linerate serve kv`: the kernel in a namespace runs clients of memcached, and memcached itself for comparison.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use linerate_tests::stack_server::{LIMIT, STACK, StackServer};
use linerate_tests::{folder, need, scope, tcp, wait};
use serde_json::Value;

const CLIENT: &str = "10.9.0.1";
const PORT: u16 = 11_211;
/// The store, for the tools of libmemcached.
const SERVERS: &str = "--servers=10.9.0.2:11211";
/// Options of a load in which every value read is verified.
const LOAD: [&str; 6] = [SERVERS, "-T1", "-c8", "-x40000", "-v1", "-X1000"];
/// Debian's Python, which has the client library.
const PYTHON: &str = "/usr/bin/python3";

/// Conversations, each after `flush_all`, separated by lines of dashes. The replies are those of memcached 1.6.18,
/// which Debian 12 has. Left out is what the guide names as different: `version`, `stats`, `me`, and flags of later
/// versions.
const CONVERSATIONS: &str = include_str!("kv-conversations.txt");

/// Conversations that end the connection.
const LAST_WORDS: &[&str] = &["get a\nquit\nget a\n", "quit now\n"];

fn connect(address: &str, port: u16) -> TcpStream {
    let stream = tcp::connect(address, port, LIMIT);
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
    let mut buffer = vec![0; 65_536];
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
    let server = StackServer::start(&["kv"]);
    let words = ["-u", "root", "-l", CLIENT, "-p", "11212", "-U", "0", "-m", "64"];
    let _memcached = server.netns.spawn(folder.path(), "memcached", "memcached", &words);
    server.netns.enter(|| {
        let there = wait::until(LIMIT, || TcpStream::connect((CLIENT, 11_212)).ok());
        assert!(there.is_some(), "memcached did not start");
        for (address, part) in STACK.into_iter().zip([65_536, 1]) {
            let (mut ours, mut theirs) = (connect(address, PORT), connect(CLIENT, 11_212));
            for conversation in CONVERSATIONS.split("----\n") {
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
                [(STACK[0], PORT), (CLIENT, 11_212)].map(|(at, port)| last_words(at, port, &requests));
            assert_eq!(our, their, "to {:?}", String::from_utf8_lossy(&requests));
        }
        assert_eq!(last_words(STACK[0], PORT, &binary), "", "the binary protocol is refused");
    });
    server.stop();
}

/// Calls of a client library.
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

fn store_and_read(server: &StackServer, address: &str) {
    match server.netns.attempt(PYTHON, &["-c", CLIENT_LIBRARY, address, "11211"]) {
        Ok(said) => assert_eq!(said.trim(), "fine"),
        Err(said) if said.contains("exit status: 77") => need::skip("python3-pymemcache is not installed"),
        Err(said) => panic!("{said}"),
    }
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn a_client_library_stores_and_reads_values_of_all_sizes() {
    let server = StackServer::start(&["kv"]);
    for address in STACK {
        store_and_read(&server, address);
    }
    let summary = server.stop();
    assert_eq!(summary["aborted"], 0, "{summary}");
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn libmemcached_finds_its_protocol_and_a_load_loses_no_value() {
    need::program("memccapable");
    let folder = folder();
    let server = StackServer::start(&["kv", "--memory", "2MiB"]);
    let said = server.netns.run("memccapable", &["-h", STACK[0], "-p", "11211", "-a"]);
    assert!(said.contains("All tests passed") && !said.contains("FAIL"), "{said}");
    let file = folder.path().join("value");
    let value: Vec<u8> = (0..300_000_u32).map(|at| (at % 251) as u8).collect();
    std::fs::write(&file, &value).expect("a file");
    server.netns.run("memccp", &[SERVERS, &file.to_string_lossy()]);
    let back = folder.path().join("back");
    server.netns.run("memccat", &[SERVERS, &format!("--file={}", back.display()), "value"]);
    assert!(std::fs::read(&back).expect("a file").starts_with(&value), "the value came back");
    // 2 MiB are too little for all values, so some are evicted.
    let said = server.netns.run("memcaslap", &LOAD);
    assert!(said.contains("verify_failed: 0") && said.contains("cmd_set: 4000"), "{said}");
    let summary = server.stop();
    assert!(summary["bytes_received"].as_u64() > Some(1 << 20), "{summary}");
}

/// Clients reach keys of every worker through either of them.
#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn two_workers_answer_as_one_store() {
    need::program("memcaslap");
    for queue_pairs in scope::first(&["1", "2"]) {
        let keys = format!(",queue_pairs={queue_pairs}");
        let server = StackServer::start_with(&keys, &["kv", "--workers", "2"]);
        for address in [STACK, STACK].concat() {
            store_and_read(&server, address);
        }
        let said = server.netns.run("memcaslap", &LOAD);
        assert!(said.contains("verify_failed: 0") && said.contains("cmd_set: 4000"), "{said}");
        let summary = server.stop();
        let workers = summary["workers"].as_array().expect("a list of workers");
        let has = |worker: &Value| {
            worker["connections"].as_u64() > Some(0) && worker["counters"]["kv_forwarded"].as_u64() > Some(0)
        };
        assert!(workers.len() == 2 && workers.iter().all(has), "{summary}");
    }
}

/// A client that requests many large values and reads none: the server holds a bounded number of bytes for it, and
/// serves others.
#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn a_client_that_does_not_read_stops_only_itself() {
    let server = StackServer::start(&["kv", "--max-connections", "2"]);
    server.netns.enter(|| {
        let mut slow = connect(STACK[0], PORT);
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
        let mut other = connect(STACK[0], PORT);
        assert!(
            converse(&mut other, b"set b 0 0 1\r\nx\r\nget b\r\n", 99)
                .contains("VALUE b 0 1\r\nx\r\nEND\r\n")
        );
        // Two connections are the limit.
        assert!(tcp::is_reset(STACK[0], PORT, LIMIT), "the third connection");
    });
    let summary = server.stop();
    assert!(summary["bytes_sent"].as_u64() < Some(64 << 20), "{summary}");
}
