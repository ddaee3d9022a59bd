//! The TCP/IP stack over links that lose, reorder, duplicate, delay and corrupt packets, with the kernel as its peer; and
//! configured by DHCP and router advertisements.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use linerate_tests::netns::Netns;
use linerate_tests::process::Process;
use linerate_tests::switch::Switch;
use linerate_tests::tcp;
use linerate_tests::{binary, data, folder, scope, wait};
use rustix::net::sockopt::set_socket_linger;
use serde_json::Value;

const LIMIT: Duration = Duration::from_mins(2);
const CLIENT: [&str; 2] = ["10.9.0.1/24", "fd09::1/64"];
const SERVER: [&str; 2] = ["10.9.0.2", "fd09::2"];
/// Ethernet address of the server, by which a capture tells the directions apart.
const MAC: &str = "02:00:00:00:00:02";
/// Packets that no host should send. Those with a comment have a checksum that is left to offload.
const INVALID: &str = "_ws.malformed || (ip.checksum.status == Bad || tcp.checksum.status == Bad || \
                       udp.checksum.status == Bad || icmp.checksum.status == Bad || icmpv6.checksum.status == Bad) && \
                       !frame.comment";
/// Start of the summary.
const SUMMARY: &str = "{\n";

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

/// A server at the other end of interface `web0` of a namespace.
struct Server {
    process: Process,
    netns: Netns,
    capture: PathBuf,
}

impl Server {
    /// Starts a server with the keys `more` of its port. Its packets are captured.
    fn start(folder: &Path, program: &str, more: &str) -> Server {
        let addresses = [format!("{}/24", SERVER[0]), format!("{}/64", SERVER[1])];
        let words = ["--address", &addresses[0], "--address", &addresses[1]];
        let server = Server::start_with(folder, program, more, &words);
        // The kernel computes each checksum, so that the faults of the link are found.
        server.netns.run("ethtool", &["-K", "web0", "tx", "off", "tso", "off", "gso", "off", "gro", "off"]);
        server.netns.configure("web0", &CLIENT);
        server
    }

    fn start_with(folder: &Path, program: &str, more: &str, words: &[&str]) -> Server {
        let (netns, capture) = (Netns::new(), folder.join(format!("{program}.pcapng")));
        let name = netns.name();
        let port = format!("kind=tap,interface=web0,netns={name},capture={}{more}", capture.display());
        let words = [&["serve", program, "-o", "json", "--mac", MAC, "--port", &port], words].concat();
        let mut process = Process::spawn(folder, program, binary::linerate(), &words);
        process.wait_for("serves port", 0, LIMIT);
        Server { process, netns, capture }
    }

    /// Ends the server, checks what it has sent, and returns its summary.
    fn stop(mut self) -> Value {
        assert!(self.process.terminate(LIMIT).success());
        let output = self.process.output();
        let json = output.find(SUMMARY).and_then(|at| output.get(at..)).unwrap_or_default();
        let filter = format!("eth.src == {MAC} && ({INVALID})");
        assert_eq!(self.captured(&filter, &[]), "", "invalid packets");
        let first = self.captured(&format!("eth.src == {MAC}"), &["-c", "200"]);
        assert_ne!(first, "", "an empty capture");
        serde_json::from_str(json).unwrap_or_else(|error| panic!("no summary in {output}: {error}"))
    }

    /// Captured packets that match a filter, a line each. `more` are options of tshark.
    fn captured(&self, filter: &str, more: &[&str]) -> String {
        let file = self.capture.to_string_lossy();
        let checks = ["ip", "tcp", "udp"].map(|name| format!("{name}.check_checksum:TRUE"));
        let mut words = vec!["-n", "-r", &file, "-Y", filter];
        words.extend(checks.iter().flat_map(|check| ["-o", check]));
        self.netns.run("tshark", &[&words[..], more].concat())
    }
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
fn receive(stream: &mut TcpStream, len: usize) {
    let mut received = vec![0; len];
    stream.read_exact(&mut received).expect("the server sends");
    assert!(received.iter().enumerate().all(|(i, byte)| usize::from(*byte) == i % 251));
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn streams_survive_impaired_links() {
    for &(faults, long, short) in scope::pick(LINKS, &LINKS[..3]) {
        let (folder, len) = (folder(), scope::pick(long, short));
        let server = Server::start(folder.path(), "echo", &format!(",fault={{seed=7,{faults}}}"));
        server.netns.enter(move || {
            std::thread::scope(|scope| {
                for (address, seed) in SERVER.into_iter().zip(0..) {
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
    let folder = folder();
    let mut server = Server::start(folder.path(), "echo", ",fault={seed=7,corrupt=0.05}");
    server
        .netns
        .enter(|| SERVER.into_iter().zip(0..).for_each(|(address, seed)| exchange(address, seed, 256 << 10)));
    assert!(server.process.terminate(LIMIT).success());
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn one_way_streams_survive_an_impaired_link() {
    let (faults, len) = (",fault={seed=9,drop=0.02,reorder=0.02}", scope::pick(16 << 20, 512 << 10));
    let folder = folder();
    let server = Server::start(folder.path(), "source", faults);
    server.netns.enter(move || SERVER.iter().for_each(|address| receive(&mut connect(address, 19), len)));
    assert_eq!(server.stop()["connections"], 2);
    let server = Server::start(folder.path(), "discard", faults);
    server.netns.enter(move || {
        for address in SERVER {
            let mut stream = connect(address, 9);
            stream.write_all(&data::bytes(1, len)).expect("the server reads");
            stream.shutdown(Shutdown::Write).expect("the connection is open");
            assert_eq!(stream.read(&mut [0]).expect("the server closes"), 0);
        }
    });
    assert_eq!(server.stop()["bytes_received"], 2 * len);
}

/// The reader stops: the window closes, opens again, and nothing is lost. Then resets and half closes.
#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn closed_windows_resets_and_half_closes_are_survived() {
    let (pause, len) = (Duration::from_secs(scope::pick(60, 3)), 8 << 20);
    let folder = folder();
    let server = Server::start(folder.path(), "source", "");
    server.netns.enter(move || {
        let mut streams = SERVER.map(|address| connect(address, 19));
        std::thread::sleep(pause);
        for stream in &mut streams {
            receive(stream, len);
        }
        set_socket_linger(&streams[0], Some(Duration::ZERO)).expect("an option of sockets");
        drop(streams);
        // The answer follows the resets, which the server could otherwise miss at its end.
        for address in SERVER {
            refused(address);
        }
    });
    let summary = server.stop();
    // A kernel without memory drops data of an open window, which is sent again in place of a probe.
    let count = |name: &str| summary["counters"][name].as_u64().expect("a counter");
    let asked = count("TcpExtTCPWinProbe") + count("TcpRetransSegs");
    assert!(asked > 0, "neither probes nor retransmissions while nobody reads: {summary}");
    assert_ne!(summary["aborted"], 0, "resets that did not arrive: {summary}");

    let server = Server::start(folder.path(), "echo", "");
    server.netns.enter(move || {
        for address in SERVER {
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
    let folder = folder();
    let server = Server::start(folder.path(), "echo", "");
    for address in SERVER {
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

/// The server is a guest at a trunk port of a switch, and the kernel is at an access port.
#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn tagged_packets_reach_a_stack_in_a_vlan() {
    let (folder, netns) = (folder(), Netns::new());
    let socket = folder.path().join("server.sock");
    let text = format!(
        "[[worker]]\n[[bridge]]\nname = \"lan\"\n\
         [[port]]\nname = \"kernel\"\nkind = \"tap\"\ninterface = \"web0\"\nnetns = \"{}\"\nvlan = 5\n\
         [[port]]\nname = \"server\"\nsocket = \"{}\"\nvlan = {{ trunk = [5] }}\n",
        netns.name(),
        socket.display()
    );
    let switch = Switch::start_from(folder.path(), &text);
    let port = format!("kind=virtio-user,socket={}", socket.display());
    let words = ["serve", "echo", "--port", &port, "--address", "10.9.0.2/24", "--vlan", "5"];
    let mut server = Process::spawn(folder.path(), "server", binary::linerate(), &words);
    server.wait_for("serves port", 0, LIMIT);
    netns.configure("web0", &CLIENT[..1]);
    netns.ping(SERVER[0], 2, &[]);
    netns.enter(|| exchange(SERVER[0], 1, 100_000));
    assert!(server.terminate(LIMIT).success());
    switch.stop();
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn dhcp_and_router_advertisements_configure_the_stack() {
    let folder = folder();
    // dnsmasq ignores datagrams of an interface that has gone, so the interface stays until the release was read.
    let mut server = Server::start_with(folder.path(), "echo", ",persist=true", &["--dhcp", "--slaac"]);
    server.netns.configure("web0", &CLIENT);
    let leases = format!("--dhcp-leasefile={}", folder.path().join("leases").display());
    let words = [
        "--no-daemon",
        "--conf-file=/dev/null",
        "--port=0",
        "--user=root",
        "--interface=web0",
        "--bind-interfaces",
        "--no-ping",
        "--dhcp-authoritative",
        "--log-dhcp",
        "--dhcp-range=10.9.0.100,10.9.0.110,1h",
        "--dhcp-range=::,constructor:web0,ra-only",
        "--enable-ra",
        &leases,
    ];
    let mut router = server.netns.spawn(folder.path(), "dnsmasq", "dnsmasq", &words);
    // The address of SLAAC follows from the prefix and the Ethernet address.
    let addresses = ["10.9.0.1", "fd09::ff:fe00:2"];
    let known = wait::until(LIMIT, || {
        let output = server.process.output();
        let last = output.lines().filter_map(|line| line.split_once("addresses ")).next_back()?.1.to_owned();
        addresses.iter().all(|address| last.contains(address)).then_some(last)
    });
    let known = known.expect("addresses of both versions");
    let v4 =
        known.split(['/', ' ', ',']).find(|word| word.starts_with("10.9.0.")).expect("an address").to_owned();
    server.netns.ping(&v4, 2, &[]);
    server.netns.ping(addresses[1], 2, &[]);
    server.netns.enter(move || {
        for address in [v4.as_str(), addresses[1]] {
            exchange(address, 1, 50_000);
        }
    });
    assert!(server.process.terminate(LIMIT).success());
    router.wait_for("DHCPRELEASE", 0, LIMIT);
}
