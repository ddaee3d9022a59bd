//! The C interface: programs in C, compiled against the installed library, as peers of the kernel and of each other.

use std::net::{IpAddr, UdpSocket};
use std::path::Path;
use std::time::Duration;

use linerate_tests::c::Library;
use linerate_tests::capture::KernelCapture;
use linerate_tests::folder;
use linerate_tests::netns::Netns;
use linerate_tests::process::Process;

use crate::stack::{datagrams, exchange};
use crate::stack_addresses::{assigned, router};

const LIMIT: Duration = Duration::from_secs(30);
const SERVER: &str = "10.9.0.2";
/// Group, address of the stack and address of the kernel.
const GROUPS: [[&str; 3]; 2] =
    [["239.1.2.3", "10.9.0.2", "10.9.0.1/24"], ["ff05::7", "fd09::2", "fd09::1/64"]];
/// Port of the group.
const PORT: u16 = 5000;

/// Starts the echo server in C and waits until it serves.
fn serve(folder: &Path, library: &Library, words: &[&str]) -> Process {
    let program = library.compile("echo").display().to_string();
    let at = words.iter().take_while(|word| word.contains('=')).count();
    let words = [&words[..at], &[&program], &words[at..]].concat();
    let mut process = Process::spawn(folder, "echo", "env", &words);
    process.wait_for("serves ", 0, LIMIT);
    process
}

/// Ends the server and asserts its counts.
fn stop(mut process: Process, counts: &str) {
    assert!(process.terminate(LIMIT).success());
    assert!(process.output().contains(counts), "{}", process.output());
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn kernel_exchanges_megabytes_with_echo_in_c() {
    let (folder, netns) = (folder(), Netns::new());
    let library = Library::install(folder.path());
    let inside = format!("NETNS={}", netns.name());
    let server = serve(folder.path(), &library, &[&inside, "tap", "web0", &format!("{SERVER}/24"), "7"]);
    netns.configure("web0", &["10.9.0.1/24"]);
    let capture = KernelCapture::start(folder.path(), &netns, "web0");
    netns.ping(SERVER, 2, &[]);
    netns.enter(|| datagrams(SERVER));
    netns.enter(|| {
        std::thread::scope(|scope| (0..2).for_each(|seed| drop(scope.spawn(move || exchange(SERVER, seed)))));
    });
    capture.finish();
    stop(server, "2 connections, 33554432 bytes, 9 datagrams");
}

/// Connections that each thread of the server has accepted.
fn of_threads(output: &str) -> Vec<usize> {
    let counts = output.lines().filter_map(|line| line.strip_prefix("thread ")?.split(' ').nth(1));
    counts.map(|count| count.parse().expect("a number")).collect()
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn kernel_exchanges_megabytes_with_two_threads_of_echo_in_c() {
    let (folder, netns) = (folder(), Netns::new());
    let library = Library::install(folder.path());
    let inside = format!("NETNS={}", netns.name());
    let mut server =
        serve(folder.path(), &library, &[&inside, "tap", "web0", &format!("{SERVER}/24"), "7", "2"]);
    netns.configure("web0", &["10.9.0.1/24"]);
    let capture = KernelCapture::start(folder.path(), &netns, "web0");
    netns.ping(SERVER, 2, &[]);
    netns.enter(|| datagrams(SERVER));
    netns.enter(|| {
        for first in (0..16).step_by(4) {
            std::thread::scope(|scope| {
                (first..first + 4).for_each(|seed| {
                    scope.spawn(move || linerate_tests::tcp::exchange(SERVER, 7, (seed, 1 << 20), LIMIT));
                });
            });
        }
    });
    capture.finish();
    assert!(server.terminate(LIMIT).success());
    let output = server.output();
    assert!(output.contains("16 connections, 16777216 bytes, 9 datagrams"), "{output}");
    let counts = of_threads(&output);
    assert!(counts.len() == 2 && !counts.contains(&0), "{output}");
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn client_in_c_exchanges_megabytes_with_echo_in_c() {
    for [back, front] in [["memif", "memif"], ["vhost-user", "virtio-user"]] {
        let folder = folder();
        let library = Library::install(folder.path());
        let socket = folder.path().join("s").display().to_string();
        let server = serve(folder.path(), &library, &[back, &socket, &format!("{SERVER}/24"), "7"]);
        let words = [front, &socket, "10.9.0.1/24", "10.9.0.2:7", "8", "3000000"];
        let mut client = Process::spawn(folder.path(), "client", library.compile("client"), &words);
        assert!(client.finish(LIMIT).success(), "{back}: {}", client.output());
        assert!(client.output().contains("8 connections, 3000000 bytes each, released 1"));
        stop(server, "8 connections, 24000000 bytes, 0 datagrams");
    }
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn dhcp_and_router_advertisements_configure_echo_in_c() {
    configured(&[]);
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn dhcp_and_router_advertisements_configure_two_threads_of_echo_in_c() {
    configured(&["2"]);
}

/// Obtains addresses for the echo server with these further words, and exchanges data with it.
fn configured(more: &[&str]) {
    let (folder, netns) = (folder(), Netns::new());
    let library = Library::install(folder.path());
    // The interface stays until dnsmasq has read the release.
    let queues = if more.is_empty() { "" } else { " multi_queue" };
    netns.ip(&format!("tuntap add web0 mode tap{queues}"));
    let mut router = router(folder.path(), &netns);
    let inside = format!("NETNS={}", netns.name());
    let words = [&[&inside, "tap", "web0", "auto", "7"], more].concat();
    let server = serve(folder.path(), &library, &words);
    let [v4, v6] = assigned(&server);
    netns.ping(&v6, 2, &["-s", "4000"]);
    netns.enter(move || {
        datagrams(&v4);
        exchange(&v4, 1);
    });
    stop(server, "1 connections, 16777216 bytes, 9 datagrams");
    router.wait_for("DHCPRELEASE", 0, LIMIT);
}

/// A socket of the kernel for the version of an address.
fn socket(version: IpAddr, port: u16) -> UdpSocket {
    let any = if version.is_ipv4() { "0.0.0.0" } else { "::" };
    let socket = UdpSocket::bind((any, port)).expect("a free port");
    socket.set_read_timeout(Some(LIMIT)).expect("a time limit");
    socket
}

/// A socket of the kernel that is a member of a group on an interface.
fn kernel_member(group: IpAddr, interface: u32) -> UdpSocket {
    let socket = socket(group, PORT);
    match group {
        IpAddr::V4(group) => socket.join_multicast_v4(&group, &[10, 9, 0, 1].into()).expect("a group"),
        IpAddr::V6(group) => socket.join_multicast_v6(&group, interface).expect("a group"),
    }
    socket
}

/// Sends a datagram, and returns whether the next one received is the same.
fn returned(socket: &UdpSocket, to: IpAddr, text: &str) -> bool {
    socket.send_to(text.as_bytes(), (to, PORT)).expect("a route");
    let (mut bytes, own) = ([0; 100], text.as_bytes());
    socket.recv(&mut bytes).is_ok_and(|length| &bytes[..length] == own)
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn member_in_c_receives_a_group_until_it_leaves() {
    let folder = folder();
    let library = Library::install(folder.path());
    let program = library.compile("member").display().to_string();
    for [group, own, kernel] in GROUPS {
        let netns = Netns::new();
        netns.ip("tuntap add web0 mode tap");
        netns.configure("web0", &[kernel]);
        netns.ip("route add 239.0.0.0/8 dev web0");
        let index = netns.link("web0").expect("the interface exists")["ifindex"].as_u64().expect("a number");
        let [to, stack]: [IpAddr; 2] = [group, own].map(|text| text.parse().expect("an address"));
        let member = netns.enter(move || kernel_member(to, u32::try_from(index).expect("a number")));
        let (inside, prefix) =
            (format!("NETNS={}", netns.name()), kernel.split_once('/').expect("a prefix").1);
        let address = format!("{own}/{prefix}");
        let words = [&inside, &program, "tap", "web0", &address, group, "5000"];
        let mut process = Process::spawn(folder.path(), "member", "env", &words);
        let mut bytes = [0; 100];
        let (length, from) = member.recv_from(&mut bytes).expect("the greeting");
        assert_eq!((&bytes[..length], from.ip(), from.port()), (&b"hello"[..], stack, PORT));
        let client = netns.enter(move || socket(to, 0));
        assert!(returned(&client, to, "to the group") && returned(&client, stack, "leave"));
        // The following data is returned in order, if at all.
        client.send_to(b"left", (to, PORT)).expect("a route");
        assert!(returned(&client, stack, "to the member"), "{group} was not left");
        assert!(process.terminate(LIMIT).success());
    }
}
