//! The TCP/IP stack over links that lose, reorder, duplicate, delay and corrupt packets, with the kernel as its peer.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use linerate_tests::stack_server::{LIMIT, STACK, StackServer};
use linerate_tests::{data, scope, tcp};
use rustix::net::sockopt::set_socket_linger;

/// A link: faults of the server's port, and the bytes of each connection with and without `--all`.
type Link = (&'static str, usize, usize);

/// The first ones are those of a short run. Bits are flipped on the way to the server only, because the packets that it
/// sends are checked.
const LINKS: &[Link] = &[
    ("drop=0.02,duplicate=0.02,reorder=0.02,delay=[\"200us\",\"1ms\"]", 4 << 20, 256 << 10),
    ("corrupt=0.05,direction=\"in\"", 1 << 20, 64 << 10),
    ("drop=0.2", 64 << 10, 16 << 10),
    ("drop=0.01", 8 << 20, 0),
    ("drop=0.05", 2 << 20, 0),
    ("duplicate=0.2", 8 << 20, 0),
    ("reorder=0.2,delay=[\"100us\",\"2ms\"]", 4 << 20, 0),
];

/// Starts a server whose port has these faults, and a kernel that computes each checksum, so that they are found.
/// With the three solicitations that the kernel sends by default, one in ten starts would find no neighbour at a link
/// that loses a fifth in each direction.
fn start(program: &str, faults: &str) -> StackServer {
    let server = StackServer::start_with(&format!(",fault={{seed=7,{faults}}}"), &[program]);
    for family in ["ipv4", "ipv6"] {
        server.netns.set(&format!("net/{family}/neigh/web0/mcast_solicit"), 20);
    }
    server.without_offloads()
}

fn connect(address: &str, port: u16) -> TcpStream {
    tcp::connect(address, port, LIMIT)
}

/// Exchanges bytes with `echo`.
fn exchange(address: &str, seed: u64, len: usize) {
    tcp::exchange(address, 7, (seed, len), LIMIT);
}

/// Connects to a port without a listener.
fn refused(address: &str) {
    let end = SocketAddr::new(address.parse().expect("an address"), 8);
    let refused = TcpStream::connect_timeout(&end, LIMIT);
    assert_eq!(refused.expect_err("nothing listens").kind(), ErrorKind::ConnectionRefused);
}

/// Receives bytes of `source`, and compares them.
pub(crate) fn receive(stream: &mut TcpStream, len: usize) {
    let mut received = vec![0; len];
    stream.read_exact(&mut received).expect("the server sends");
    assert!(received.iter().enumerate().all(|(i, byte)| usize::from(*byte) == i % 251));
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn streams_survive_impaired_links() {
    for &(faults, long, short) in scope::pick(LINKS, &LINKS[..3]) {
        let len = scope::pick(long, short);
        let server = start("echo", faults);
        server.netns.enter(move || {
            std::thread::scope(|scope| {
                for (address, seed) in STACK.into_iter().zip(0..) {
                    (0..2).for_each(|n| drop(scope.spawn(move || exchange(address, 2 * seed + n, len))));
                }
            });
        });
        let summary = server.stop();
        assert_eq!(
            (&summary["connections"], &summary["bytes_sent"]),
            (&4.into(), &(4 * len).into()),
            "{faults}"
        );
    }
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn streams_survive_flipped_bits_in_both_directions() {
    let mut server = start("echo", "corrupt=0.05");
    server
        .netns
        .enter(|| STACK.into_iter().zip(0..).for_each(|(address, seed)| exchange(address, seed, 256 << 10)));
    server.end();
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn one_way_streams_survive_an_impaired_link() {
    let (faults, len) = ("drop=0.02,reorder=0.02", scope::pick(16 << 20, 512 << 10));
    let server = start("source", faults);
    server.netns.enter(move || STACK.iter().for_each(|address| receive(&mut connect(address, 19), len)));
    assert_eq!(server.stop()["connections"], 2);
    let server = start("discard", faults);
    server.netns.enter(move || {
        for address in STACK {
            let mut stream = connect(address, 9);
            stream.write_all(&data::bytes(1, len)).expect("the server reads");
            stream.shutdown(Shutdown::Write).expect("the connection is open");
            assert_eq!(stream.read(&mut [0]).expect("the server closes"), 0);
        }
    });
    let summary = server.stop();
    assert_eq!(summary["bytes_received"], 2 * len);
    assert!(summary["counters"]["TcpExtTCPOFODrop"].is_null(), "ranges out of order were dropped: {summary}");
}

/// The reader stops: the window closes, opens again, and nothing is lost. Then resets and half closes.
#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn closed_windows_resets_and_half_closes_are_survived() {
    let (pause, len) = (Duration::from_secs(scope::pick(60, 3)), 8 << 20);
    let server = StackServer::start(&["source"]).without_offloads();
    server.netns.enter(move || {
        let mut streams = STACK.map(|address| connect(address, 19));
        std::thread::sleep(pause);
        for stream in &mut streams {
            receive(stream, len);
        }
        set_socket_linger(&streams[0], Some(Duration::ZERO)).expect("an option of sockets");
        drop(streams);
        // The answer follows the resets, which the server could otherwise miss at its end.
        for address in STACK {
            refused(address);
        }
    });
    let summary = server.stop();
    // A kernel without memory drops data of an open window, which is sent again in place of a probe.
    // A counter that is zero is left out.
    let count = |name: &str| summary["counters"][name].as_u64().unwrap_or_default();
    let asked = count("TcpExtTCPWinProbe") + count("TcpRetransSegs");
    assert!(asked > 0, "neither probes nor retransmissions while the reader pauses: {summary}");
    assert_ne!(summary["aborted"], 0, "resets that did not arrive: {summary}");

    let server = StackServer::start(&["echo"]).without_offloads();
    server.netns.enter(move || {
        for address in STACK {
            // The server echoes what it received before the end of the client's stream, after that end.
            let mut stream = connect(address, 7);
            stream.write_all(b"half").expect("the server reads");
            stream.shutdown(Shutdown::Write).expect("the connection is open");
            let mut rest = Vec::new();
            stream.read_to_end(&mut rest).expect("the server closes");
            assert_eq!(rest, b"half");
            // A reset with unread data on both sides.
            let mut stream = connect(address, 7);
            stream.write_all(&data::bytes(3, 100_000)).expect("the server reads");
            set_socket_linger(&stream, Some(Duration::ZERO)).expect("an option of sockets");
            drop(stream);
            // A port without a listener.
            refused(address);
        }
    });
    let summary = server.stop();
    assert_eq!((&summary["connections"], &summary["aborted"]), (&4.into(), &2.into()), "{summary}");
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn ping_and_traceroute_reach_the_stack() {
    let server = StackServer::start(&["echo"]).without_offloads();
    for address in STACK {
        server.netns.ping(address, 3, &["-s", "3000"]);
        for method in [&["-q", "1"][..], &["-I", "-q", "1"], &["-T", "-p", "7", "-q", "1"]] {
            let words = [&["-n", "-w", "5", "-m", "3"], method, &[address]].concat();
            let route = server.netns.run("traceroute", &words);
            let hops: Vec<&str> = route.lines().skip(1).collect();
            assert!(hops.len() == 1 && hops[0].contains(address), "{method:?}: {route}");
        }
    }
    server.stop();
}
