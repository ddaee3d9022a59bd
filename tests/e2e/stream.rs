//! Ports over stream sockets: QEMU guests without shared memory, and `passt`, which connects a guest to the network as
//! an unprivileged user.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use linerate_tests::process::Process;
use linerate_tests::switch::Switch;
use linerate_tests::vm::{GuestNic, Image, Vm};
use linerate_tests::{folder, wait};

const PING: Duration = Duration::from_mins(1);
const REACTION: Duration = Duration::from_secs(30);
const NAMES: [&str; 2] = ["left", "right"];

/// Starts a switch with these ports on one bridge, and this number of workers.
fn switch_with(folder: &Path, workers: usize, ports: &[(&str, String)]) -> Switch {
    let section = |(name, lines): &(&str, String)| format!("[[port]]\nname = \"{name}\"\n{lines}\n");
    let text = "[[worker]]\n".repeat(workers) + &ports.iter().map(section).collect::<String>();
    let file = folder.join("switch.toml");
    fs::write(&file, text).unwrap_or_else(|error| panic!("cannot write {}: {error}", file.display()));
    Switch::restart(folder)
}

/// Starts a guest with private memory and the options printed for a stream port. `name` is that of its log, which is
/// read from the beginning.
fn streamed(folder: &Path, switch: &Switch, image: &Image, side: usize, name: &str) -> Vm {
    let options = format!("-m 192M {}", switch.snippet(NAMES[side], "qemu"));
    Vm::pasted(folder, name, image, side as u8 + 1, &options)
}

/// Sets the MTU for frames of 9216 bytes on both guests, including their Ethernet header and without their checksum,
/// and pings with them.
fn ping_jumbo(guests: [&mut Vm; 2], to: u8) {
    let [from, other] = guests;
    for guest in [other, &mut *from] {
        guest.succeed("ip link set eth0 mtu 9202", PING);
    }
    // 20 bytes of IPv4 and 8 of ICMP; a packet that fits the MTU is not fragmented.
    from.succeed(&format!("ping -c 3 -s 9174 -W 5 10.0.0.{to}"), PING);
}

#[test]
#[ignore = "needs QEMU and a kernel: run by `cargo xtask test`"]
fn stream_guest_reaches_vhost_guest_and_reconnects() {
    let (folder, image) = (folder(), Image::make());
    let (socket, stream) = (folder.path().join("left"), folder.path().join("right"));
    let ports = [
        ("left", format!("socket = \"{}\"", socket.display())),
        ("right", format!("kind = \"stream\"\nsocket = \"{}\"", stream.display())),
    ];
    let switch = switch_with(folder.path(), 1, &ports);
    let plug = GuestNic { socket: &socket, server: false, packed: false, number: 1 };
    let mut left = Vm::start(folder.path(), "guest-left", &image, &plug);
    let mut right = streamed(folder.path(), &switch, &image, 1, "guest-right");
    left.ready();
    right.ready();
    left.ping(2);
    left.send_file(&mut right);
    ping_jumbo([&mut left, &mut right], 2);
    right.kill();
    switch.wait_state("right", "waiting", REACTION);
    switch.wait_state("left", "connected", REACTION);
    let mut right = streamed(folder.path(), &switch, &image, 1, "guest-right-again");
    right.ready();
    right.ping(1);
    switch.assert_sums_agree(&NAMES);
    drop((left, right));
    switch.stop();
}

const ME: [u8; 6] = [2, 0, 0, 0, 0, 0x77];
const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 15);
const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);

fn passt(folder: &Path) -> Process {
    let socket = folder.join("passt").display().to_string();
    let (address, gateway) = (ADDRESS.to_string(), GATEWAY.to_string());
    // passt does not replace the socket of an earlier process.
    let _ = fs::remove_file(&socket);
    let words = ["--foreground", "--stderr", "-4", "--socket", &socket, "--address", &address];
    let mut words = [&words[..], &["--netmask", "24", "--gateway", &gateway]].concat();
    if rustix::process::geteuid().is_root() {
        // It would change to a user without write permission in this folder.
        words.extend(["--runas", "0"]);
    }
    Process::spawn(folder, "passt", "passt", &words)
}

/// Sends `frame` with its length prefix.
fn say(to: &mut UnixStream, frame: &[u8]) {
    let bytes = [&(frame.len() as u32).to_be_bytes(), frame].concat();
    to.write_all(&bytes).unwrap_or_else(|error| panic!("the switch does not take a frame: {error}"));
}

/// Sends `frame` repeatedly until `found` returns a value for an answer.
fn ask<T>(peer: &mut UnixStream, frame: &[u8], found: impl Fn(&[u8]) -> Option<T>) -> T {
    peer.set_read_timeout(Some(Duration::from_secs(1))).expect("a time that is not zero");
    let answer = wait::until(REACTION, || {
        say(peer, frame);
        let mut prefix = [0; 4];
        peer.read_exact(&mut prefix).ok()?;
        let mut frame = vec![0; u32::from_be_bytes(prefix) as usize];
        peer.read_exact(&mut frame).expect("a frame comes whole");
        found(&frame)
    });
    answer.expect("no answer")
}

fn ethernet(to: [u8; 6], kind: u16, payload: &[u8]) -> Vec<u8> {
    [&to, &ME[..], &kind.to_be_bytes(), payload].concat()
}

/// Returns an ARP request for `address` (RFC 826).
fn arp(address: Ipv4Addr) -> Vec<u8> {
    let request = [0, 1, 8, 0, 6, 4, 0, 1];
    let payload = [&request[..], &ME, &ADDRESS.octets(), &[0; 6], &address.octets()].concat();
    ethernet([0xff; 6], 0x0806, &payload)
}

/// Returns the station in an ARP reply for `address`.
fn arp_answer(frame: &[u8], address: Ipv4Addr) -> Option<[u8; 6]> {
    let is_answer = frame.get(12..22)? == [8, 6, 0, 1, 8, 0, 6, 4, 0, 2];
    let is_his = frame.get(28..32)? == address.octets();
    frame.get(22..28)?.try_into().ok().filter(|_| is_answer && is_his)
}

/// Returns a DHCPDISCOVER (RFC 2131).
fn discover() -> Vec<u8> {
    let mut message = vec![1, 1, 6, 0, 0x12, 0x34, 0x56, 0x78];
    message.resize(28, 0);
    message.extend(ME);
    message.resize(236, 0);
    message.extend([99, 130, 83, 99, 53, 1, 1, 255]);
    message.resize(300, 0);
    let udp = [&[0, 68, 0, 67], &(message.len() as u16 + 8).to_be_bytes()[..], &[0, 0], &message].concat();
    let mut ip = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255];
    ip[2..4].copy_from_slice(&(udp.len() as u16 + 20).to_be_bytes());
    let sum: u32 = ip.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    ip[10..12].copy_from_slice(&(!(folded as u16)).to_be_bytes());
    ethernet([0xff; 6], 0x0800, &[ip, udp].concat())
}

/// Returns the address in a DHCPOFFER.
fn offer(frame: &[u8]) -> Option<Ipv4Addr> {
    let message = frame.get(14 + 20 + 8..)?;
    let is_offer = message[..1] == [2] && message[4..8] == [0x12, 0x34, 0x56, 0x78];
    let octets: [u8; 4] = message.get(16..20)?.try_into().ok()?;
    is_offer.then_some(octets.into())
}

#[test]
#[ignore = "needs passt: run by `cargo xtask test`"]
fn passt_serves_dhcp_and_port_reconnects() {
    let folder = folder();
    let (net, peer) = (folder.path().join("passt"), folder.path().join("peer"));
    let ports = [
        ("net", format!("kind = \"stream\"\nsocket = \"{}\"\nmode = \"client\"", net.display())),
        ("peer", format!("kind = \"stream\"\nsocket = \"{}\"", peer.display())),
    ];
    let switch = switch_with(folder.path(), 1, &ports);
    let mut peer = UnixStream::connect(&peer).expect("the switch listens");
    for _ in 0..2 {
        let mut passt = passt(folder.path());
        switch.wait_state("net", "connected", REACTION);
        let station = ask(&mut peer, &arp(GATEWAY), |frame| arp_answer(frame, GATEWAY));
        assert_eq!(station[0] & 1, 0, "a group is no station");
        assert_eq!(ask(&mut peer, &discover(), offer), ADDRESS);
        passt.kill();
        switch.wait_state("net", "waiting", REACTION);
    }
    switch.assert_sums_agree(&["net", "peer"]);
    switch.stop();
}

/// The other mode and address of a stream port.
mod every {
    use super::*;

    /// One guest connects over a Unix socket; the other one listens on TCP, and the switch connects. Two workers share
    /// both ports.
    #[test]
    #[ignore = "needs QEMU and a kernel: run by `cargo xtask test --all`"]
    fn stream_guests_exchange_a_file() {
        let (folder, image) = (folder(), Image::make());
        let stream = folder.path().join("left");
        let address = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
        let address = address.unwrap_or_else(|error| panic!("no address is free: {error}"));
        let ports = [
            ("left", format!("kind = \"stream\"\nsocket = \"{}\"", stream.display())),
            ("right", format!("kind = \"stream\"\naddress = \"{address}\"\nmode = \"client\"")),
        ];
        let switch = switch_with(folder.path(), 2, &ports);
        let guest = |side: usize| streamed(folder.path(), &switch, &image, side, NAMES[side]);
        let (mut left, mut right) = (guest(0), guest(1));
        left.ready();
        right.ready();
        left.ping(2);
        left.send_file(&mut right);
        switch.assert_sums_agree(&NAMES);
        drop((left, right));
        switch.stop();
    }
}
