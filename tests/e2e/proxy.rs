//! `linerate serve proxy`: kernel clients and servers in a namespace, the proxy at the other end of a TAP interface.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use linerate_tests::binary;
use linerate_tests::folder;
use linerate_tests::netns::Netns;
use linerate_tests::process::Process;
use linerate_tests::tcp;
use linerate_tests::wait;
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(20);
/// Addresses of the kernel, and of the proxy.
const KERNEL: [&str; 2] = ["10.9.0.1/24", "fd09::1/64"];
const PROXY: [&str; 2] = ["10.9.0.2", "fd09::2"];
const PORT: u16 = 8080;
/// Bytes of a direction: more than all buffers together.
const BYTES: usize = 8 << 20;

/// A proxy with both of its sides at interface `web0` of a namespace.
struct Proxy {
    process: Process,
    netns: Netns,
}

impl Proxy {
    fn start(folder: &Path, to: &str, more: &[&str]) -> Proxy {
        let netns = Netns::new();
        let port = format!("kind=tap,interface=web0,netns={}", netns.name());
        let addresses = [format!("{}/24", PROXY[0]), format!("{}/64", PROXY[1])];
        let words = ["serve", "proxy", "-o", "json", "--to", to, "--port", &port];
        let words = [&words[..], &["--address", &addresses[0], "--address", &addresses[1]], more].concat();
        let mut process = Process::spawn(folder, "proxy", binary::linerate(), &words);
        process.wait_for("serves port", 0, LIMIT);
        netns.configure("web0", &KERNEL);
        Proxy { process, netns }
    }

    /// Ends the proxy and returns its summary.
    fn stop(mut self) -> Value {
        assert!(self.process.terminate(LIMIT).success());
        let output = self.process.output();
        let json = output.find("{\n").and_then(|at| output.get(at..)).unwrap_or_default();
        serde_json::from_str(json).unwrap_or_else(|error| panic!("no summary in {output}: {error}"))
    }
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
        let folder = folder();
        let proxy = Proxy::start(folder.path(), to, &["--forward", forward]);
        let any = SocketAddr::new(to.parse::<SocketAddr>().expect("an address").ip(), 9000);
        proxy.netns.enter(move || {
            let listener = TcpListener::bind(any).expect("an address");
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for _ in 0..PROXY.len() {
                        let stream = listener.accept().expect("a connection").0;
                        stream.set_read_timeout(Some(LIMIT)).expect("a time limit");
                        exchange(stream, 1, 2);
                    }
                });
                // A client of either IP version reaches the server.
                for address in PROXY {
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
fn curl_downloads_through_the_proxy() {
    let folder = folder();
    let proxy = Proxy::start(folder.path(), "10.9.0.1:8000", &[]);
    std::fs::write(folder.path().join("file"), data(3)).expect("a file");
    let path = folder.path().to_string_lossy().into_owned();
    let words = ["-m", "http.server", "8000", "--bind", "10.9.0.1", "--directory", &path];
    let _server = proxy.netns.spawn(folder.path(), "http", "python3", &words);
    proxy.netns.enter(|| {
        let there = wait::until(LIMIT, || TcpStream::connect("10.9.0.1:8000").ok());
        assert!(there.is_some(), "the server did not start");
    });
    let copy = folder.path().join("copy").to_string_lossy().into_owned();
    for url in ["http://10.9.0.2:8080/file", "http://[fd09::2]:8080/file"] {
        proxy
            .netns
            .run("curl", &["--fail", "--silent", "--show-error", "--max-time", "20", "-o", &copy, url]);
        assert!(std::fs::read(&copy).expect("a file") == data(3), "{url}");
    }
    assert_eq!(proxy.stop()["connections"], 2);
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn failed_reset_and_idle_connections_end_at_both_sides() {
    let folder = folder();
    let proxy = Proxy::start(folder.path(), "10.9.0.1:9000", &["--idle", "1s", "--max-connections", "1"]);
    proxy.netns.enter(|| {
        // There is no server yet: the proxy is refused, and resets its client.
        assert!(tcp::is_reset(PROXY[0], PORT, LIMIT), "no server");
        let listener = TcpListener::bind("10.9.0.1:9000").expect("an address");
        let mut client = connect(PROXY[0], PORT);
        let mut server = listener.accept().expect("a connection").0;
        server.set_read_timeout(Some(LIMIT)).expect("a time limit");
        client.write_all(b"x").expect("the proxy reads");
        server.read_exact(&mut [0]).expect("the proxy forwards");
        // A second connection exceeds the limit.
        assert!(tcp::is_reset(PROXY[0], PORT, LIMIT), "the second connection");
        // After a second without data both are reset.
        assert!(client.read(&mut [0]).is_err() && server.read(&mut [0]).is_err());
    });
    let summary = proxy.stop();
    assert_eq!((&summary["connections"], &summary["aborted"]), (&2.into(), &2.into()), "{summary}");
}
