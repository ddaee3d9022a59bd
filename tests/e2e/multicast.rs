//! Multicast groups of unmodified programs over the TCP/IP stack: the kernel at the other end of a TAP interface sends
//! to the group, and `tshark` examines the reports.

use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

use linerate_tests::folder;
use linerate_tests::need;

use crate::preload::{PYTHON, Running, Service};

const LIMIT: Duration = Duration::from_secs(30);
const PORT: u16 = 5000;
const GROUPS: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(239, 1, 2, 3)), IpAddr::V6(Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 0, 7))];

/// Joins a group, prints datagrams, and leaves the group on request. With `early`, the options precede bind(2).
const MEMBER: &str = r#"
import socket, struct, sys
group, own, port, early = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "early"
v4 = ":" not in group
member = socket.socket(socket.AF_INET if v4 else socket.AF_INET6, socket.SOCK_DGRAM)
if v4:
    level, join, leave = socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.IP_DROP_MEMBERSHIP
    request = socket.inet_aton(group) + socket.inet_aton(own if early else "0.0.0.0")
    member.setsockopt(level, socket.IP_MULTICAST_TTL, 7)
    member.setsockopt(level, socket.IP_MULTICAST_IF, socket.inet_aton(own))
else:
    level, join, leave = socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, socket.IPV6_LEAVE_GROUP
    request = socket.inet_pton(socket.AF_INET6, group) + struct.pack("@I", 0)
    member.setsockopt(level, socket.IPV6_MULTICAST_HOPS, 7)

def fails(change, error):
    try:
        change()
    except OSError as failed:
        assert failed.errno == error, failed
    else:
        sys.exit("no error")

if early:
    member.setsockopt(level, join, request)
member.bind(("0.0.0.0" if v4 else "::", port))
if not early:
    member.setsockopt(level, join, request)
fails(lambda: member.setsockopt(level, join, request), 98)
print("joined", flush=True)
for line in sys.stdin:
    if line == "leave\n":
        member.setsockopt(level, leave, request)
        fails(lambda: member.setsockopt(level, leave, request), 99)
        print("left", flush=True)
    elif line == "send\n":
        member.sendto(b"to all", (group, port + 1))
        print("sent", flush=True)
    elif line == "receive\n":
        member.settimeout(30)
        print(member.recv(100).decode(), flush=True)
"#;

/// The program, which answers each command with a line.
struct Member {
    _program: Running,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Member {
    fn start(service: &Service, group: IpAddr, time: &str) -> Member {
        let own = if group.is_ipv4() { "10.9.0.2" } else { "fd09::2" };
        let mut command = service.command(PYTHON, &["-c", MEMBER, &group.to_string(), own, "5000", time]);
        let mut program =
            command.stdin(Stdio::piped()).stderr(Stdio::inherit()).spawn().expect("Python starts");
        let commands = program.stdin.take().expect("a pipe");
        let answers = BufReader::new(program.stdout.take().expect("a pipe"));
        let mut member = Member { _program: Running(program), commands, answers };
        assert_eq!(member.answer(), "joined");
        member
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("the program answers");
        line.trim_end().to_owned()
    }

    fn ask(&mut self, command: &str) -> String {
        writeln!(self.commands, "{command}").expect("the program reads");
        self.answer()
    }
}

/// Sends a datagram from the kernel. The interface of a group is that of its route.
fn send(service: &Service, to: IpAddr, text: &'static [u8]) {
    service.netns().enter(move || {
        let any: IpAddr =
            if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind((any, 0)).expect("a socket");
        socket.send_to(text, (to, PORT)).expect("a route");
    });
}

/// A socket of the kernel that is a member.
fn kernel_member(service: &Service, group: IpAddr) -> UdpSocket {
    let index = service.netns().link("web0").expect("the interface exists")["ifindex"].as_u64();
    let index = index.and_then(|index| u32::try_from(index).ok()).expect("a number");
    service.netns().enter(move || {
        let socket = match group {
            IpAddr::V4(group) => {
                let socket = UdpSocket::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT + 1)));
                let socket = socket.expect("a socket");
                socket.join_multicast_v4(&group, &Ipv4Addr::new(10, 9, 0, 1)).expect("a group");
                socket
            }
            IpAddr::V6(group) => {
                let any = SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, PORT + 1, 0, 0);
                let socket = UdpSocket::bind(any).expect("a socket");
                socket.join_multicast_v6(&group, index).expect("a group");
                socket
            }
        };
        socket.set_read_timeout(Some(LIMIT)).expect("a time limit");
        socket
    })
}

/// Packets of a capture that match a filter, as the values of these fields.
fn captured(file: &Path, filter: &str, fields: &[&str]) -> Vec<Vec<String>> {
    need::program("tshark");
    let file = file.display().to_string();
    let mut words = vec!["-n", "-r", &file, "-o", "ip.check_checksum:TRUE", "-Y", filter, "-T", "fields"];
    words.extend(fields.iter().flat_map(|field| ["-e", field]));
    let Output { status, stdout, stderr } = Command::new("tshark").args(words).output().expect("tshark runs");
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    let text = String::from_utf8_lossy(&stdout);
    text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

/// Changes of a group in valid reports, without repetitions: hop limit 1, the router alert option, and valid checksums
/// (RFC 3376, RFC 3810). 4 is a change to the exclude mode, to all sources; 3 one to the include mode, of none.
fn reported(capture: &Path, group: IpAddr) -> Vec<String> {
    let (filter, fields) = if group.is_ipv4() {
        let filter = "igmp.type == 0x22 && igmp.checksum.status == 1 && ip.checksum.status == 1 && ip.ttl == 1 && \
                      ip.opt.ra == 0 && ip.dst == 224.0.0.22 && ip.src == 10.9.0.2 && !_ws.malformed";
        (filter, ["igmp.maddr", "igmp.record_type"])
    } else {
        let filter = "icmpv6.type == 143 && icmpv6.checksum.status == 1 && ipv6.hlim == 1 && \
                      ipv6.opt.router_alert == 0 && ipv6.dst == ff02::16 && ipv6.src == :: && !_ws.malformed";
        (filter, ["icmpv6.mldr.mar.multicast_address", "icmpv6.mldr.mar.record_type"])
    };
    let (group, mut changes) = (group.to_string(), Vec::new());
    for packet in captured(capture, filter, &fields) {
        let [addresses, records] = [0, 1].map(|at| packet[at].split(',').map(str::to_owned));
        changes.extend(
            addresses.zip(records).filter(|(address, _)| *address == group).map(|(_, record)| record),
        );
    }
    changes.dedup();
    changes
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn python_receives_groups_until_it_leaves_them() {
    let folder = folder();
    let mut service = Service::start(folder.path());
    service.netns().ip("route add 239.0.0.0/8 dev web0");
    for group in GROUPS {
        for time in ["late", "early"] {
            let own = if group.is_ipv4() { "10.9.0.2" } else { "fd09::2" }.parse().expect("an address");
            let mut member = Member::start(&service, group, time);
            send(&service, group, b"first");
            assert_eq!(member.ask("receive"), "first");
            let kernel = kernel_member(&service, group);
            assert_eq!(member.ask("send"), "sent");
            let (mut buffer, length) = ([0; 100], b"to all".len());
            assert_eq!(kernel.recv_from(&mut buffer).expect("a datagram").0, length);
            assert_eq!(member.ask("leave"), "left");
            send(&service, group, b"not received");
            send(&service, own, b"last");
            assert_eq!(member.ask("receive"), "last");
        }
    }
    assert_eq!(service.server.finish()["clients"], 4);
    let capture = service.server.capture();
    for group in GROUPS {
        assert_eq!(reported(&capture, group), ["4", "3", "4", "3"], "{group}");
    }
    let hops = captured(&capture, "udp.dstport == 5001", &["ip.ttl", "ipv6.hlim"]);
    assert!(hops.len() == 4 && hops.iter().all(|hops| hops.concat() == "7"), "{hops:?}");
}
