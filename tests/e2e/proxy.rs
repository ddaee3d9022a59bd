//! `linerate serve proxy`: kernel clients and servers in a namespace, the proxy at the other end of a TAP interface.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};

use linerate_tests::stack_server::{LIMIT, STACK, StackServer};
use linerate_tests::{folder, tcp, wait};

const PORT: u16 = 8080;
/// Bytes of a direction: more than all buffers together.
const BYTES: usize = 8 << 20;

fn start(to: &str, more: &[&str]) -> StackServer {
    StackServer::start(&[&["proxy", "--to", to], more].concat())
}

fn connect(address: &str, port: u16) -> TcpStream {
    tcp::connect(address, port, LIMIT)
}

/// Bytes that differ at each position.
fn data(seed: usize) -> Vec<u8> {
    (0..BYTES).map(|at| (at % 251 + at / 65_521 + seed) as u8).collect()
}

/// Sends bytes, shuts down, and checks the bytes of the other side up to its end.
fn exchange(stream: TcpStream, sent: usize, expected: usize) {
    let (mut reader, mut writer) = (stream.try_clone().expect("a second handle"), stream);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            writer.write_all(&data(sent)).expect("the proxy reads");
            writer.shutdown(Shutdown::Write).expect("the connection is open");
        });
        let mut received = Vec::with_capacity(BYTES);
        reader.read_to_end(&mut received).expect("the proxy closes");
        assert!(received == data(expected), "{} of {BYTES} bytes, or others", received.len());
    });
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn kernel_client_and_server_exchange_megabytes_through_the_proxy() {
    for (to, forward) in [("10.9.0.1:9000", "reference"), ("[fd09::1]:9000", "copy")] {
        let proxy = start(to, &["--forward", forward]);
        let any = SocketAddr::new(to.parse::<SocketAddr>().expect("an address").ip(), 9000);
        proxy.netns.enter(move || {
            let listener = TcpListener::bind(any).expect("an address");
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for _ in 0..STACK.len() {
                        let stream = listener.accept().expect("a connection").0;
                        stream.set_read_timeout(Some(LIMIT)).expect("a time limit");
                        exchange(stream, 1, 2);
                    }
                });
                // A client of either IP version reaches the server.
                for address in STACK {
                    exchange(connect(address, PORT), 2, 1);
                }
            });
        });
        let summary = proxy.stop();
        assert_eq!((&summary["connections"], &summary["aborted"]), (&2.into(), &0.into()), "{summary}");
        assert_eq!(summary["bytes_sent"], (4 * BYTES) as u64, "{summary}");
    }
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn curl_downloads_through_the_proxy_in_every_thread_model() {
    let folder = folder();
    std::fs::write(folder.path().join("file"), data(3)).expect("a file");
    let path = folder.path().to_string_lossy().into_owned();
    let words = ["-m", "http.server", "8000", "--bind", "10.9.0.1", "--directory", &path];
    let copy = folder.path().join("copy").to_string_lossy().into_owned();
    for more in [&[][..], &["--threads", "split"], &["--threads", "merge", "--cpus", "0"]] {
        let proxy = start("10.9.0.1:8000", more);
        let _server = proxy.netns.spawn(folder.path(), "http", "python3", &words);
        proxy.netns.enter(|| {
            let there = wait::until(LIMIT, || TcpStream::connect("10.9.0.1:8000").ok());
            assert!(there.is_some(), "the server did not start");
        });
        for url in ["http://10.9.0.2:8080/file", "http://[fd09::2]:8080/file"] {
            proxy.curl(&["--fail", "-o", &copy, url]);
            assert!(std::fs::read(&copy).expect("a file") == data(3), "{more:?}: {url}");
        }
        assert_eq!(proxy.stop()["connections"], 2, "{more:?}");
    }
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn failed_reset_and_idle_connections_end_at_both_sides() {
    let proxy = start("10.9.0.1:9000", &["--idle", "1s", "--max-connections", "1"]);
    proxy.netns.enter(|| {
        // There is no server yet: the proxy is refused, and resets its client.
        assert!(tcp::is_reset(STACK[0], PORT, LIMIT), "no server");
        let listener = TcpListener::bind("10.9.0.1:9000").expect("an address");
        let mut client = connect(STACK[0], PORT);
        let mut server = listener.accept().expect("a connection").0;
        server.set_read_timeout(Some(LIMIT)).expect("a time limit");
        client.write_all(b"x").expect("the proxy reads");
        server.read_exact(&mut [0]).expect("the proxy forwards");
        // A second connection exceeds the limit.
        assert!(tcp::is_reset(STACK[0], PORT, LIMIT), "the second connection");
        // After a second without data both are reset.
        assert!(client.read(&mut [0]).is_err() && server.read(&mut [0]).is_err());
    });
    let summary = proxy.stop();
    assert_eq!((&summary["connections"], &summary["aborted"]), (&2.into(), &2.into()), "{summary}");
}
