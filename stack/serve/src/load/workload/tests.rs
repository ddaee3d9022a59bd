//! Framing of replies: a reply that arrives in any pieces is the same reply.

use super::super::fuzz::read;
use super::super::input::{Framing, Reply, WrongReply};
use super::*;
use proptest::prelude::*;

fn http() -> HttpLoad {
    HttpLoad::new("a", &["/".to_owned()]).unwrap()
}

const OK: Reply = Reply { is_error: false, is_miss: false, is_last: false };

/// A reply of HTTP, and what it must be read as.
fn http_reply() -> impl Strategy<Value = (Vec<u8>, Reply)> {
    let body = prop::collection::vec(any::<u8>(), 0..3_000);
    let chunks = prop::collection::vec(prop::collection::vec(any::<u8>(), 1..600), 0..5);
    let close = any::<bool>();
    let connection = |close| if close { "Connection: Close\r\n" } else { "Server: x\r\n" };
    let framed = (body, 200..600_u16, close).prop_map(move |(body, code, close)| {
        let head =
            format!("HTTP/1.1 {code} Text\r\n{}CONTENT-length: {}\r\n\r\n", connection(close), body.len());
        let body = if matches!(code, 204 | 304) { Vec::new() } else { body };
        let reply = Reply { is_error: code >= 400, is_last: close, ..OK };
        ([head.into_bytes(), body].concat(), reply)
    });
    let chunked = (chunks, close, any::<bool>()).prop_map(move |(chunks, close, trailer)| {
        let head = format!(
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n{}Transfer-Encoding: chunked\r\n\r\n",
            connection(close)
        );
        let mut bytes = head.into_bytes();
        for chunk in chunks {
            bytes.extend(format!("{:x};name=value\r\n", chunk.len()).bytes());
            bytes.extend(chunk.iter().chain(b"\r\n"));
        }
        bytes.extend(b"0\r\n");
        bytes.extend(if trailer { &b"Field: value\r\n\r\n"[..] } else { b"\r\n" });
        (bytes, Reply { is_last: close, ..OK })
    });
    prop_oneof![framed, chunked]
}

fn kv() -> KvLoad {
    let distribution = Keys::Zipf(0.99);
    KvLoad::new(KvOptions { keys: 1_000, distribution, value_size: 300, gets: 0.7, fill: true, seed: 1 })
}

/// Replies of memcached to requests, as bytes.
fn replies_of_memcached(requests: &[Vec<u8>], missing: &[bool]) -> Vec<u8> {
    let mut values = std::collections::HashMap::new();
    let mut load = kv();
    // The values, as the client sets them before the warm-up.
    let mut parts = Vec::new();
    while load.fill(&mut |part| parts.push(part.to_vec())).is_some() {
        let key = String::from_utf8(parts[0].clone()).unwrap().split(' ').nth(1).unwrap().to_owned();
        values.insert(key, parts[1].clone());
        parts.clear();
    }
    let mut bytes = Vec::new();
    for (request, missing) in requests.iter().zip(missing) {
        let line = String::from_utf8_lossy(request.split(|byte| *byte == b'\r').next().unwrap()).into_owned();
        let words: Vec<&str> = line.split(' ').collect();
        match words[0] {
            "set" => {
                assert_eq!(request[line.len() + 2..].strip_suffix(b"\r\n").unwrap(), values[words[1]]);
                bytes.extend(b"STORED\r\n");
            }
            _ if *missing => bytes.extend(b"END\r\n"),
            _ => {
                let value = &values[words[1]];
                bytes.extend(format!("VALUE {} 0 {}\r\n", words[1], value.len()).bytes());
                bytes.extend(value.iter().chain(b"\r\nEND\r\n"));
            }
        }
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn http_replies_may_arrive_in_any_pieces(
        sent in prop::collection::vec(http_reply(), 1..4),
        pieces in prop::collection::vec(1..400_usize, 0..200),
    ) {
        let bytes: Vec<u8> = sent.iter().flat_map(|(bytes, _)| bytes.clone()).collect();
        let expected: Vec<Reply> = sent.into_iter().map(|(_, reply)| reply).collect();
        let (replies, left, _) = read(&http(), &vec![0; expected.len()], &bytes, pieces.into_iter()).unwrap();
        prop_assert_eq!((replies, left), (expected, 0));
    }

    #[test]
    fn memcached_replies_may_arrive_in_any_pieces(
        missing in prop::collection::vec(any::<bool>(), 1..20),
        pieces in prop::collection::vec(1..200_usize, 0..200),
    ) {
        let mut load = kv();
        let (mut requests, mut tags) = (Vec::new(), Vec::new());
        for _ in &missing {
            let mut request = Vec::new();
            tags.push(load.request(&mut |part| request.extend(part.to_vec())));
            requests.push(request);
        }
        let bytes = replies_of_memcached(&requests, &missing);
        let (replies, left, _) = read(&load, &tags, &bytes, pieces.into_iter()).unwrap();
        let misses = requests.iter().zip(&missing).map(|(request, missing)| request.starts_with(b"get") && *missing);
        prop_assert_eq!(replies.iter().map(|reply| reply.is_miss).collect::<Vec<_>>(), misses.collect::<Vec<_>>());
        prop_assert_eq!((replies.iter().any(|reply| reply.is_error), left), (false, 0));
    }

    #[test]
    fn echo_finds_the_offset_of_a_wrong_byte(
        size in 1..5_000_u32,
        wrong: prop::sample::Index,
        pieces in prop::collection::vec(1..2_000_usize, 0..20),
    ) {
        let mut load = EchoLoad::new(size, true);
        let mut bytes = Vec::new();
        let tag = load.request(&mut |part| bytes.extend(part.to_vec()));
        let read = |bytes: &[u8]| read(&load, &[tag], bytes, pieces.iter().copied());
        prop_assert_eq!(read(&bytes).unwrap().0, [OK]);
        let at = wrong.index(bytes.len());
        bytes[at] ^= 0x80;
        prop_assert_eq!(read(&bytes), Err(WrongReply::new("byte differs", at as u64)));
    }

    #[test]
    fn any_bytes_are_read_or_refused(
        bytes in prop::collection::vec(any::<u8>(), 0..500),
        start in prop::sample::select(vec!["", "HTTP/1.1 200 OK\r\n", "VALUE ", "1\r\n"]),
        pieces in prop::collection::vec(1..100_usize, 0..50),
    ) {
        let bytes = [start.as_bytes(), &bytes].concat();
        // A panic or an endless loop fails the test.
        read(&http(), &[0; 4], &bytes, pieces.iter().copied()).ok();
        read(&kv(), &[0, 1 << 31, 2], &bytes, pieces.iter().copied()).ok();
    }
}

#[test]
fn bodies_without_a_length_end_with_the_connection() {
    let bytes = b"HTTP/1.0 404 Not Found\r\n\r\nbody";
    let (replies, left, framing) = read(&http(), &[0], bytes, std::iter::empty()).unwrap();
    assert_eq!((replies, left), (Vec::new(), 0));
    assert_eq!(http().end(framing), Some(Reply { is_error: true, is_last: true, is_miss: false }));
    assert_eq!(http().end(Framing::default()), None);
    let (replies, ..) =
        read(&http(), &[0], b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nb", std::iter::empty()).unwrap();
    assert!(replies[0].is_last);
}

#[test]
fn hostile_heads_are_refused() {
    let refused = |bytes: &[u8]| read(&http(), &[0; 3], bytes, std::iter::empty()).unwrap_err().what;
    assert_eq!(refused(b"220 smtp.example\r\n"), "invalid head");
    let long = [&b"HTTP/1.1 200 OK\r\nA: "[..], &b"a".repeat(20_000)].concat();
    assert_eq!(refused(&long), "head too long");
    assert_eq!(refused(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"), "invalid Content-Length");
    assert_eq!(
        refused(b"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\n"),
        "length out of range"
    );
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(refused(format!("{chunked}x\r\n").as_bytes()), "invalid size of a chunk");
    assert_eq!(refused(format!("{chunked}1\r\nab\r\n").as_bytes()), "line too long");
    assert_eq!(refused(format!("{chunked}{}\r\n", "0".repeat(2_000)).as_bytes()), "line too long");
}

#[test]
fn wrong_values_are_refused() {
    let load = kv();
    let refused = |tag: u32, bytes: &[u8]| read(&load, &[tag], bytes, std::iter::empty()).unwrap_err().what;
    assert_eq!(refused(5, b"VALUE linerate00000006 0 300\r\n"), "value of another key");
    assert_eq!(refused(5, b"VALUE linerate00000005 0 301\r\n"), "value of another length");
    assert_eq!(refused(5, b"STORED\r\n"), "unexpected line");
    assert_eq!(refused(5 | 1 << 31, b"END\r\n"), "unexpected line");
    let value = [b"VALUE linerate00000005 0 300\r\n", &[255; 300][..]].concat();
    assert_eq!(refused(5, &value), "value differs");
    let (replies, ..) = read(&load, &[5], b"SERVER_ERROR out of memory\r\n", std::iter::empty()).unwrap();
    assert!(replies[0].is_error);
}

#[test]
fn keys_have_their_distribution() {
    let count = |distribution| {
        let mut load = KvLoad::new(KvOptions {
            keys: 100,
            distribution,
            value_size: 1,
            gets: 1.0,
            fill: false,
            seed: 3,
        });
        let mut counts = [0_u32; 100];
        (0..20_000).for_each(|_| counts[load.request(&mut |_| ()) as usize] += 1);
        assert_eq!(load.fill(&mut |_| ()), None);
        counts
    };
    let uniform = count(Keys::Uniform);
    assert!(uniform.iter().all(|n| (120..290).contains(n)), "{uniform:?}");
    // The harmonic number of 100 is 5.187: the first key has 19.3 %, the tenth a tenth of it.
    let zipf = count(Keys::Zipf(1.0));
    assert!((3_600..4_100).contains(&zipf[0]) && (300..480).contains(&zipf[9]), "{zipf:?}");
}

#[test]
fn paths_and_hosts_are_validated() {
    let new = |host: &str, paths: &[&str]| {
        HttpLoad::new(host, &paths.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    assert_eq!(new("a", &[]).unwrap_err(), HttpLoadError::NoPath);
    assert_eq!(new("a", &["/", "b"]).unwrap_err(), HttpLoadError::Path("b".to_owned()));
    assert!(matches!(new("a", &["/ x"]), Err(HttpLoadError::Path(_))));
    assert!(matches!(new("a\r\nB: c", &["/"]), Err(HttpLoadError::Host(_))));
    let mut load = new("a", &["/x", "/y"]).unwrap();
    let mut next = || {
        let mut text = Vec::new();
        load.request(&mut |part| text.extend(part.to_vec()));
        String::from_utf8(text).unwrap()
    };
    assert!(
        next().starts_with("GET /x HTTP/1.1\r\nHost: a\r\n")
            && next().starts_with("GET /y ")
            && next().starts_with("GET /x ")
    );
}
