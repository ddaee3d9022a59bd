//! The TCP/IP stack with addresses that servers in a namespace assign: dnsmasq by DHCP and router advertisements, and
//! busybox's udhcpd by leases of seconds.

use std::io::{Read, Write};
use std::path::Path;

use linerate_tests::netns::Netns;
use linerate_tests::process::Process;
use linerate_tests::stack_server::{KERNEL, LIMIT, StackServer};
use linerate_tests::{folder, tcp, wait};
use serde_json::Value;

/// A lease is renewed after 4 s, by any server after 7 s, and ends after 8 s.
const UDHCPD: &str =
    "start 10.9.0.100\nend 10.9.0.100\ninterface web0\nmin_lease 1\nopt lease 8\nopt subnet 255.255.255.0\n";
/// Packets to a DHCP server: those to its own address, and all.
const REQUESTS: [&str; 2] = ["ip daddr 10.9.0.1 udp dport 67", "udp dport 67"];

/// Starts dnsmasq on `web0`, as a DHCP server and a router.
pub(crate) fn router(folder: &Path, netns: &Netns) -> Process {
    netns.configure("web0", &KERNEL);
    let leases = format!("--dhcp-leasefile={}", folder.join("leases").display());
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
    netns.spawn(folder, "dnsmasq", "dnsmasq", &words)
}

/// Waits until a program prints a line with the addresses of DHCP and SLAAC after `addresses`, and returns them.
pub(crate) fn assigned(program: &Process) -> [String; 2] {
    let known = wait::until(LIMIT, || {
        let output = program.output();
        let (_, last) = output.lines().rev().find_map(|line| line.split_once("addresses "))?;
        let find =
            |start| last.split(['/', ' ', ',']).find(|word| word.starts_with(start)).map(str::to_owned);
        Some([find("10.9.0.1")?, find("fd09::")?])
    });
    known.expect("addresses of both versions")
}

/// A namespace whose interface `web0` stays when the program has ended: servers ignore datagrams of an interface that
/// has gone.
fn persistent() -> (Netns, String) {
    let netns = Netns::new();
    let port = format!("kind=tap,interface=web0,netns={},persist=true", netns.name());
    (netns, port)
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn dhcp_and_router_advertisements_configure_the_stack() {
    let (folder, (netns, port)) = (folder(), persistent());
    let mut server = StackServer::start_on(netns, &port, &["echo", "--dhcp", "--slaac"]);
    let mut router = router(folder.path(), &server.netns);
    let addresses = assigned(&server.process);
    // It follows from the prefix and the Ethernet address.
    assert_eq!(addresses[1], "fd09::ff:fe00:2");
    for address in addresses {
        server.netns.ping(&address, 2, &[]);
        server.netns.enter(move || tcp::exchange(&address, 7, (1, 50_000), LIMIT));
    }
    server.finish();
    router.wait_for("DHCPRELEASE", 0, LIMIT);
}

/// Waits until udhcpd has acknowledged `count` requests.
fn acknowledged(udhcpd: &Process, count: usize) {
    let sent = wait::until(LIMIT, || (udhcpd.output().matches("sending ACK").count() >= count).then_some(()));
    assert!(sent.is_some(), "{}", udhcpd.output());
}

/// Sends a byte over a connection, and reads it.
fn echo(stream: &mut (impl Read + Write)) {
    stream.write_all(b"x").expect("the server reads");
    stream.read_exact(&mut [0]).expect("the server sends");
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn a_lease_is_renewed_and_rebound_under_a_connection_until_it_ends() {
    leased(&[]);
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn all_workers_have_a_lease_until_it_ends() {
    let summary = leased(&["--workers", "2"]);
    let workers = summary["workers"].as_array().expect("a list of workers");
    assert!(workers.iter().all(|worker| worker["connections"].as_u64() > Some(0)), "{summary}");
}

/// Runs a server with these further words, whose lease is renewed, rebound, and not renewed any more. Returns the
/// summary.
fn leased(more: &[&str]) -> Value {
    let (folder, (netns, port)) = (folder(), persistent());
    let mut server = StackServer::start_on(netns, &port, &[&["echo", "--dhcp"], more].concat());
    server.netns.configure("web0", &KERNEL[..1]);
    let [file, leases] = ["conf", "leases"].map(|name| folder.path().join(name));
    std::fs::write(&leases, "").expect("a file");
    std::fs::write(&file, format!("{UDHCPD}lease_file {}\n", leases.display())).expect("a file");
    let words = ["udhcpd", "-f", &file.display().to_string()];
    let udhcpd = server.netns.spawn(folder.path(), "udhcpd", "busybox", &words);
    let netns = &server.netns;
    let refuse = |packets: &str| {
        let chain = "chain c { type filter hook input priority 0; }";
        netns.run("nft", &[format!("table inet t {{ {chain}; }}; add rule inet t c {packets} drop")]);
    };
    server.process.wait_for("addresses 10.9.0.100/24", 0, LIMIT);
    // The hash of their ports selects any worker.
    let mut streams = netns.enter(|| [(); 24].map(|()| tcp::connect("10.9.0.100", 7, LIMIT)));
    acknowledged(&udhcpd, 3);
    streams.iter_mut().for_each(echo);
    // Renewals go to the server's address, so what arrives now are broadcasts.
    refuse(REQUESTS[0]);
    let renewed = udhcpd.output().matches("sending ACK").count();
    acknowledged(&udhcpd, renewed + 1);
    streams.iter_mut().for_each(echo);
    refuse(REQUESTS[1]);
    server.process.wait_for("addresses none", 0, LIMIT);
    assert!(server.process.output().matches("addresses ").count() == 2, "the address did not change");
    assert!(netns.attempt("ping", &["-c", "1", "-W", "1", "10.9.0.100"]).is_err());
    server.finish()
}
