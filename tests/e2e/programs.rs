//! Programs on the interfaces of the TCP/IP stack: a web server of hyper for curl, and the echo server on tokens, over
//! a TAP interface in a namespace.

use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

use linerate_tests::capture::KernelCapture;
use linerate_tests::netns::Netns;
use linerate_tests::process::Process;
use linerate_tests::{binary, folder, tcp};

const LIMIT: Duration = Duration::from_secs(20);
const SERVER: &str = "10.9.0.2";
const BODY: usize = 10_000_000;

/// Starts an example that serves the interface `web0` of a namespace, and a capture there.
fn start(folder: &Path, netns: &Netns, example: &str, words: &[&str]) -> (Process, KernelCapture) {
    let program = binary::example(example);
    let mut process = Process::spawn(folder, example, program, words);
    process.wait_for("listening on", 0, LIMIT);
    netns.configure("web0", &["10.9.0.1/24"]);
    (process, KernelCapture::start(folder, netns, "web0"))
}

/// The hash of a file.
fn hash(path: &str) -> String {
    let output = std::process::Command::new("sha256sum").arg(path).output().expect("sha256sum runs");
    String::from_utf8_lossy(&output.stdout).split_whitespace().next().expect("a hash").to_owned()
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn curl_fetches_from_a_server_of_hyper() {
    let (folder, netns) = (folder(), Netns::new());
    let address = format!("{SERVER}/24");
    let (_server, capture) =
        start(folder.path(), &netns, "http", &[netns.name(), &address, &BODY.to_string()]);
    let file = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (sent, first, second) = (file("sent"), file("first"), file("second"));
    let body: Vec<u8> = (0..BODY).map(|i| (i % 251) as u8).collect();
    std::fs::write(&sent, &body).expect("a file");
    let url = format!("http://{SERVER}/");
    // Two requests of one process use one connection.
    let limits =
        ["--silent", "--show-error", "--fail", "--max-time", "60", "--write-out", "%{num_connects} "];
    let two = [&limits[..], &["-o", &first, &url, "-o", &second, &url]].concat();
    assert_eq!(netns.run("curl", &two).trim(), "1 0");
    for got in [&first, &second] {
        assert_eq!(hash(got), hash(&sent), "{got}");
    }
    // The server returns what it receives.
    let data = format!("@{sent}");
    let upload = [&limits[..], &["-H", "Expect:", "--data-binary", &data, "-o", &first, &url]].concat();
    netns.run("curl", &upload);
    assert_eq!(hash(&first), hash(&sent));
    let pipelined = netns.enter(|| {
        let mut stream = tcp::connect(SERVER, 80, LIMIT);
        let request = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";
        let last = "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 3\r\n\r\nend";
        let requests = [request.repeat(9), last.to_owned()].concat();
        stream.write_all(requests.as_bytes()).expect("the server reads");
        let mut replies = String::new();
        stream.read_to_string(&mut replies).expect("the server closes");
        replies
    });
    assert_eq!(pipelined.matches("HTTP/1.1 200 OK").count(), 10, "{pipelined}");
    assert!(pipelined.matches("\r\n\r\nhi").count() == 9 && pipelined.ends_with("end"), "{pipelined}");
    capture.finish();
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn kernel_exchanges_megabytes_with_echo_on_tokens() {
    exchange_with("tokens", |netns, address| vec!["tap".into(), netns, address, "7".into()]);
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn kernel_exchanges_megabytes_with_echo_on_a_completion_queue() {
    exchange_with("queue_echo", |netns, address| vec![netns, address]);
}

/// Several connections exchange data with an example, which has the arguments `words` of a namespace and an address.
fn exchange_with(example: &str, words: impl FnOnce(String, String) -> Vec<String>) {
    let (folder, netns) = (folder(), Netns::new());
    let words = words(netns.name().to_owned(), format!("{SERVER}/24"));
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let (_server, capture) = start(folder.path(), &netns, example, &words);
    netns.enter(|| {
        let exchange = |seed| tcp::exchange(SERVER, 7, (seed, BODY), LIMIT);
        std::thread::scope(|scope| (0..4).for_each(|seed| drop(scope.spawn(move || exchange(seed)))));
    });
    capture.finish();
}
