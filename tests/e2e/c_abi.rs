//! The C interface: programs in C, compiled against the installed library, as peers of the kernel and of each other.

use std::path::Path;
use std::time::Duration;

use linerate_tests::c::Library;
use linerate_tests::capture::KernelCapture;
use linerate_tests::folder;
use linerate_tests::netns::Netns;
use linerate_tests::process::Process;

use crate::stack::{datagrams, exchange};

const LIMIT: Duration = Duration::from_secs(30);
const SERVER: &str = "10.9.0.2";

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
