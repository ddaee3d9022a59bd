//! The TCP/IP stack: the kernel in a namespace is the client of `linerate serve` at the other end of a TAP interface.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, UdpSocket};

use linerate_tests::stack_server::{LIMIT, STACK, StackServer};
use linerate_tests::{data, scope, tcp};
use serde_json::Value;

/// Bytes of a connection: more than both send buffers, so that the server's backpressure is used.
const BYTES: usize = 16 << 20;
/// Payload lengths of datagrams: odd, even, and longer than the MTU.
const LENGTHS: [usize; 9] = [0, 1, 17, 100, 101, 1000, 1452, 4001, 20_000];

fn connect(address: &str, port: u16) -> TcpStream {
    tcp::connect(address, port, LIMIT)
}

/// Exchanges bytes with `echo`.
pub(crate) fn exchange(address: &str, seed: u64) {
    tcp::exchange(address, 7, (seed, BYTES), LIMIT);
}

/// Sends datagrams, some of them in fragments, and compares the replies.
pub(crate) fn datagrams(address: &str) {
    let any = if address.contains(':') { "[::]:0" } else { "0.0.0.0:0" };
    let socket = UdpSocket::bind(any).expect("a socket");
    socket.set_read_timeout(Some(LIMIT)).expect("a time limit");
    socket.connect(SocketAddr::new(address.parse().expect("an address"), 7)).expect("a route");
    for len in LENGTHS {
        let (sent, mut received) = (vec![len as u8; len], vec![0; 65_536]);
        assert_eq!(socket.send(&sent).expect("a datagram"), len);
        let n = socket.recv(&mut received).expect("a reply");
        assert_eq!(received[..n], sent, "{address}");
    }
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn kernel_exchanges_megabytes_with_echo() {
    for more in scope::first(&[&[][..], &["--polling", "busy"]]) {
        let server = StackServer::start(&[&["echo"], *more].concat());
        for address in STACK {
            server.netns.enter(move || datagrams(address));
            server.netns.ping(address, 3, &[]);
            server.netns.ping(address, 2, &["-s", "4000"]);
            let connections = move || {
                std::thread::scope(|threads| {
                    (0..4).for_each(|seed| drop(threads.spawn(move || exchange(address, seed))));
                });
            };
            server.netns.enter(connections);
        }
        let summary = server.stop();
        let bytes = (8 * BYTES + 2 * LENGTHS.iter().sum::<usize>()) as u64;
        assert_eq!(summary["datagrams"], 2 * LENGTHS.len(), "{summary}");
        assert_eq!((&summary["connections"], &summary["aborted"]), (&8.into(), &0.into()), "{summary}");
        assert_eq!((&summary["bytes_received"], &summary["bytes_sent"]), (&bytes.into(), &bytes.into()));
        assert_eq!(summary["counters"]["TcpInCsumErrors"], Value::Null, "{summary}");
    }
}

/// Sends 2,500 bytes in one call as datagrams of 1,000 (`UDP_SEGMENT`), which the kernel leaves to the port, and prints
/// the lengths of the replies.
const MERGED: &str = "import socket, sys
address = sys.argv[1]
family = socket.AF_INET6 if ':' in address else socket.AF_INET
with socket.socket(family, socket.SOCK_DGRAM) as s:
    s.settimeout(20)
    s.connect((address, 7))
    s.setsockopt(socket.IPPROTO_UDP, 103, 1000)
    s.send(bytes(2500))
    print([len(s.recv(9000)) for _ in range(3)])";

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn datagrams_that_the_kernel_merges_stay_apart() {
    let server = StackServer::start(&["echo"]);
    for address in STACK {
        assert_eq!(server.netns.run("python3", &["-c", MERGED, address]).trim(), "[1000, 1000, 500]");
    }
    assert_eq!(server.stop()["datagrams"], 6);
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn kernel_without_offloads_exchanges_megabytes_with_echo() {
    let server = StackServer::start(&["echo"]).without_offloads();
    server.netns.enter(|| STACK.iter().for_each(|address| exchange(address, 5)));
    let summary = server.stop();
    assert_eq!(summary["bytes_sent"], 2 * BYTES as u64, "{summary}");
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn kernel_receives_the_bytes_of_source_and_discard_takes_them() {
    let server = StackServer::start(&["source"]);
    server.netns.enter(|| {
        let mut received = vec![0; BYTES];
        connect(STACK[0], 19).read_exact(&mut received).expect("the server sends");
        assert!(received.iter().enumerate().all(|(i, byte)| usize::from(*byte) == i % 251));
    });
    assert_eq!(server.stop()["connections"], 1);
    let server = StackServer::start(&["discard", "--tcp-port", "1009"]);
    server.netns.enter(|| {
        let mut stream = connect(STACK[1], 1009);
        stream.write_all(&data::bytes(1, BYTES)).expect("the server reads");
        stream.shutdown(Shutdown::Write).expect("the connection is open");
        assert_eq!(stream.read(&mut [0]).expect("the server closes"), 0);
    });
    assert_eq!(server.stop()["bytes_received"], BYTES as u64);
}
