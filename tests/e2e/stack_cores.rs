//! The TCP/IP stack on several workers: the kernel in a namespace is the client at the other end of a TAP interface
//! with two queue pairs, or with one.

use std::net::{IpAddr, UdpSocket};

use linerate_tests::stack_server::{LIMIT, STACK, StackServer};
use linerate_tests::tcp;
use serde_json::Value;

/// Bytes of a connection.
const BYTES: usize = 1 << 18;
/// Connections of each IP version.
const CONNECTIONS: usize = 32;
/// Connections at a time.
const AT_ONCE: usize = 8;

/// Sends datagrams from different ports, some of them in fragments.
fn datagrams(server: &str) -> usize {
    let address: IpAddr = server.parse().expect("an address");
    let any = if server.contains(':') { "[::]:0" } else { "0.0.0.0:0" };
    for n in 0..16 {
        let socket = UdpSocket::bind(any).expect("a socket");
        socket.set_read_timeout(Some(LIMIT)).expect("a time limit");
        socket.connect((address, 7)).expect("a route");
        let (sent, mut received) = (vec![n as u8; 1 + n * 300], vec![0; 65_536]);
        assert_eq!(socket.send(&sent).expect("a datagram"), sent.len());
        let len = socket.recv(&mut received).expect("a reply");
        assert_eq!(received[..len], sent, "{server}");
    }
    16
}

/// Runs `serve echo` with these arguments against the kernel. Returns the summary.
fn serve(queue_pairs: u16, more: &[&str]) -> Value {
    let echo = StackServer::start_with(&format!(",queue_pairs={queue_pairs}"), &[&["echo"], more].concat());
    for server in STACK {
        echo.netns.ping(server, 3, &[]);
        echo.netns.enter(move || {
            datagrams(server);
            for first in (0..CONNECTIONS).step_by(AT_ONCE) {
                std::thread::scope(|scope| {
                    (first..first + AT_ONCE).for_each(|seed| {
                        scope.spawn(move || tcp::exchange(server, 7, (seed as u64, BYTES), LIMIT));
                    });
                });
            }
        });
    }
    echo.stop()
}

/// A counter; 0 if it is missing.
fn counter(summary: &Value, name: &str) -> u64 {
    summary["counters"][name].as_u64().unwrap_or(0)
}

/// Every connection is counted once, and the workers' counters have the total as their sum.
fn check(summary: &Value, workers: usize) {
    let list = summary["workers"].as_array().expect("a list of workers");
    assert_eq!(list.len(), workers, "{summary}");
    let sum = |key: &str| list.iter().map(|worker| worker[key].as_u64().unwrap_or(0)).sum::<u64>();
    for key in ["connections", "aborted", "datagrams", "bytes_received", "bytes_sent"] {
        assert_eq!(summary[key], sum(key), "{key}: {summary}");
    }
    assert_eq!(summary["connections"], 2 * CONNECTIONS, "{summary}");
    assert_eq!((&summary["aborted"], &summary["datagrams"]), (&0.into(), &32.into()), "{summary}");
    assert!(list.iter().all(|worker| worker["connections"].as_u64() > Some(0)), "{summary}");
    let of = |name: &str| list.iter().map(|worker| counter(worker, name)).sum::<u64>();
    for name in ["frames_in", "TcpInSegs", "rss_received", "handed_over", "taken_over"] {
        assert_eq!(counter(summary, name), of(name), "{name}: {summary}");
    }
    let [received, copied, kept, handed, full] =
        ["rss_received", "rss_copied", "rss_kept", "handed_over", "handoff_full"]
            .map(|name| counter(summary, name));
    assert_eq!(received + copied, kept + handed + full, "{summary}");
    assert_eq!(counter(summary, "frames_in"), kept + counter(summary, "taken_over"), "{summary}");
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn kernel_reaches_every_worker_over_two_queue_pairs() {
    check(&serve(2, &["--workers", "2"]), 2);
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn kernel_reaches_every_worker_over_one_queue_pair() {
    let summary = serve(1, &["--workers", "2"]);
    check(&summary, 2);
    assert!(counter(&summary, "handed_over_flows") > 0, "{summary}");
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn kernel_exchanges_bytes_in_every_thread_model() {
    for more in [&["--threads", "split"][..], &["--threads", "merge", "--cpus", "0"]] {
        check(&serve(1, more), 1);
    }
}
