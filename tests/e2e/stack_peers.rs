//! The kernel with other settings of its TCP as the peer of the stack. A proxy is a server and a client of it.

use linerate_tests::capture::{MAC, packets};
use linerate_tests::stack_server::{LIMIT, STACK, StackServer};
use linerate_tests::tcp;
use serde_json::Value;

/// Port of the proxy.
const PROXY: u16 = 8080;
/// Bytes of a direction.
const BYTES: usize = 100_000;
/// The chance of flipped bits is too small for any, but switches the offloads off, so that there are packets to lose.
const LOSSES: &str = ",fault={seed=3,drop=0.03,reorder=0.03,corrupt=0.0000001}";

/// A variable that removes an option of TCP if it is 0, and packets with that option which the peer must not send.
const WITHOUT: [(&str, &str); 3] = [
    ("tcp_sack", "(tcp.options.sack_le || tcp.options.sack_perm) && tcp.flags.ack == 1"),
    ("tcp_timestamps", "tcp.options.timestamp.tsval && tcp.flags.ack == 1"),
    ("tcp_window_scaling", "tcp.options.wscale && tcp.flags.ack == 1"),
];

/// Starts a proxy between clients and an echo server of the kernel, whose TCP has this variable set.
fn start(setting: (&str, u32), keys: &str, more: &[&str]) -> StackServer {
    let proxy = StackServer::start_with(keys, &[&["proxy", "--to", "10.9.0.1:9000"], more].concat());
    let proxy = proxy.without_offloads();
    proxy.netns.set(&format!("net/ipv4/{}", setting.0), setting.1);
    tcp::listen(&proxy.netns, 9000, tcp::echo);
    proxy
}

fn exchange(proxy: &StackServer) {
    proxy.netns.enter(|| {
        STACK.into_iter().zip(0..).for_each(|(address, seed)| {
            tcp::exchange(address, PROXY, (seed, BYTES), LIMIT);
        });
    });
}

/// Number of captured packets that match a filter.
fn count(proxy: &StackServer, filter: &str) -> usize {
    packets(&proxy.capture(), filter).lines().count()
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn options_that_the_kernel_lacks_are_not_used() {
    for (setting, filter) in WITHOUT {
        let mut proxy = start((setting, 0), LOSSES, &[]);
        exchange(&proxy);
        let summary = proxy.finish();
        assert_eq!(summary["bytes_sent"], 4 * BYTES, "{setting}: {summary}");
        assert_ne!(summary["counters"]["TcpRetransSegs"], Value::Null, "{setting}: {summary}");
        assert_eq!(packets(&proxy.capture(), filter), "", "{setting}");
        // The option is offered to the kernel, which does not take it.
        let (option, _) = filter.rsplit_once(" &&").expect("two conditions");
        assert!(count(&proxy, &format!("{option} && eth.src == {MAC}")) >= 2, "{setting}");
    }
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn congestion_notification_is_agreed_in_both_roles() {
    let mut proxy = start(("tcp_ecn", 1), "", &["--ecn"]);
    exchange(&proxy);
    let summary = proxy.finish();
    assert_eq!(summary["bytes_sent"], 4 * BYTES, "{summary}");
    let ours = |filter: &str| count(&proxy, &format!("eth.src == {MAC} && {filter}"));
    assert!(ours("tcp.flags == 0x0c2") >= 2, "SYNs that offer it");
    assert!(ours("tcp.flags == 0x052") >= 2, "SYN-ACKs that accept it");
    for ecn in ["ip.dsfield.ecn", "ipv6.tclass.ecn"] {
        assert!(ours(&format!("tcp.len > 0 && {ecn} == 2")) > 0, "{ecn}");
        assert_eq!(ours(&format!("tcp.flags.syn == 1 && {ecn} != 0")), 0, "{ecn}");
    }
}

/// Marks each eighth ECN-capable packet of a direction and version as having met congestion. Long packets count once.
const MARKS: &str = r#"
table netdev marks {
  chain from_stack {
    type filter hook ingress device "web0" priority 0
    ip ecn ect0 numgen inc mod 8 0 ip ecn set ce
    ip6 ecn ect0 numgen inc mod 8 0 ip6 ecn set ce
  }
  chain to_stack {
    type filter hook egress device "web0" priority 0
    ip ecn ect0 numgen inc mod 8 0 ip ecn set ce
    ip6 ecn ect0 numgen inc mod 8 0 ip6 ecn set ce
  }
}
"#;

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn congestion_marks_reduce_the_windows_of_both_senders() {
    let mut echo = StackServer::start(&["echo", "--ecn"]).without_offloads();
    echo.netns.set("net/ipv4/tcp_ecn", 1);
    echo.netns.run("nft", &[MARKS]);
    for address in STACK {
        echo.netns.enter(move || tcp::exchange(address, 7, (1, 4 << 20), LIMIT));
    }
    let kernel: Value = serde_json::from_str(&echo.netns.run("nstat", &["-asj"])).expect("counters");
    let summary = echo.finish();
    // The kernel counts marks as they arrive, and segments of its own that the stack reported as marked.
    for name in ["IpExtInCEPkts", "TcpExtTCPDeliveredCE"] {
        assert!(kernel["kernel"][name].as_u64() > Some(0), "{name}: {kernel}");
    }
    assert!(summary["counters"]["IpExtInCEPkts"].as_u64() > Some(0), "{summary}");
    for side in ["src", "dst"] {
        for (flag, of) in [("ece", "echo of a mark"), ("cwr == 1 && tcp.len", "reduced window")] {
            let filter = format!("eth.{side} == {MAC} && tcp.flags.syn == 0 && tcp.flags.{flag} > 0");
            assert!(count(&echo, &filter) > 0, "{side}: no {of}");
        }
    }
}

/// A client of TCP Fast Open, which connects three times. The first SYN obtains a cookie.
const FAST_CLIENT: &str = r"
import os, socket, sys, threading
TCP_FASTOPEN_CONNECT = 30
for address in sys.argv[2:]:
    family, kind, protocol, _, end = socket.getaddrinfo(address, 8080, type=socket.SOCK_STREAM)[0]
    for _ in range(3):
        data = os.urandom(int(sys.argv[1]))
        stream = socket.socket(family, kind, protocol)
        stream.settimeout(30)
        stream.setsockopt(socket.IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1)
        stream.connect(end)
        stream.sendall(data[:1000])
        def send():
            stream.sendall(data[1000:])
            stream.shutdown(socket.SHUT_WR)
        sender = threading.Thread(target=send)
        sender.start()
        received = bytearray()
        while piece := stream.recv(65536):
            received += piece
        sender.join()
        assert received == data, len(received)
";

/// The kernel's client and listener use it with the proxy, which uses it in both roles.
#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn data_in_syns_is_accepted_in_both_roles() {
    // Client, server, and all listeners without an option of theirs.
    let mut proxy = start(("tcp_fastopen", 0x403), "", &["--fast-open"]);
    let bytes = BYTES.to_string();
    proxy.netns.run("python3", &["-c", FAST_CLIENT, &bytes, STACK[0], STACK[1]]);
    let summary = proxy.finish();
    assert_eq!((&summary["connections"], &summary["bytes_sent"]), (&6.into(), &(12 * BYTES).into()));
    assert_eq!(summary["counters"]["TcpExtTCPFastOpenPassive"], 4, "{summary}");
    for side in ["src", "dst"] {
        let syns = format!("eth.{side} == {MAC} && tcp.flags.syn == 1 && tcp.flags.ack == 0 && tcp.len > 0");
        assert!(count(&proxy, &syns) > 0, "{side}");
    }
    // The kernel's answer acknowledges the data as well.
    assert!(count(&proxy, &format!("eth.dst == {MAC} && tcp.flags.syn == 1 && tcp.ack > 1")) > 0);
}
