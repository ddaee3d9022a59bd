//! `linerate serve` with the kernel of a namespace as its peer. The packets of its port are captured, and those of the
//! stack are checked at the end, also if the test does not end the server.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::capture::{self, MAC};
use crate::netns::Netns;
use crate::process::Process;
use crate::{binary, folder};

/// Time limit of starts, ends and exchanges.
pub const LIMIT: Duration = Duration::from_mins(2);
/// Addresses of the kernel.
pub const KERNEL: [&str; 2] = ["10.9.0.1/24", "fd09::1/64"];
/// Addresses of the stack.
pub const STACK: [&str; 2] = ["10.9.0.2", "fd09::2"];
/// Options with the addresses of the stack.
pub const ADDRESSES: [&str; 4] = ["--address", "10.9.0.2/24", "--address", "fd09::2/64"];

/// A server and the namespace of its peer.
pub struct StackServer {
    /// `linerate serve`.
    pub process: Process,
    /// The namespace of the peer.
    pub netns: Netns,
    folder: TempDir,
    is_ended: bool,
}

impl StackServer {
    /// Starts `linerate serve` with these words at the other end of interface `web0` of a new namespace.
    pub fn start(words: &[&str]) -> StackServer {
        StackServer::start_with("", words)
    }

    /// [`StackServer::start`] with further keys of the port, each after a comma.
    pub fn start_with(keys: &str, words: &[&str]) -> StackServer {
        let netns = Netns::new();
        let port = format!("kind=tap,interface=web0,netns={}{keys}", netns.name());
        let server = StackServer::start_on(netns, &port, &[words, &ADDRESSES].concat());
        server.netns.configure("web0", &KERNEL);
        server
    }

    /// Starts a server on any port. The words name its addresses, and the caller configures those of the kernel.
    pub fn start_on(netns: Netns, port: &str, words: &[&str]) -> StackServer {
        let folder = folder();
        let port = format!("{port},capture={}", folder.path().join("capture").display());
        let words = [&["serve"], words, &["-o", "json", "--mac", MAC, "--port", &port]].concat();
        let mut process = Process::spawn(folder.path(), "server", binary::linerate(), &words);
        process.wait_for(" serves ", 0, LIMIT);
        StackServer { process, netns, folder, is_ended: false }
    }

    /// The kernel computes each checksum, so that it is checked, and sends no segment longer than the MTU.
    #[must_use]
    pub fn without_offloads(self) -> StackServer {
        self.netns.run("ethtool", &["-K", "web0", "tx", "off", "tso", "off", "gso", "off", "gro", "off"]);
        self
    }

    /// Output of curl in the namespace. Panics if it fails.
    pub fn curl(&self, words: &[&str]) -> String {
        self.netns.run("curl", &[&["-sS", "-g", "--max-time", "60"], words].concat())
    }

    /// The captured packets.
    pub fn capture(&self) -> PathBuf {
        self.folder.path().join("capture")
    }

    /// Ends the server, checks the packets that it has sent, and returns its summary.
    pub fn stop(mut self) -> Value {
        self.finish()
    }

    /// [`StackServer::stop`] that keeps namespace and capture.
    pub fn finish(&mut self) -> Value {
        let summary = self.end();
        capture::assert_valid(&self.capture());
        summary
    }

    /// [`StackServer::finish`] without the check of packets.
    pub fn end(&mut self) -> Value {
        self.is_ended = true;
        assert!(self.process.terminate(LIMIT).success());
        let output = self.process.output();
        let json = output.find("{\n").and_then(|at| output.get(at..)).unwrap_or_default();
        serde_json::from_str(json).unwrap_or_else(|error| panic!("no summary in {output}: {error}"))
    }
}

impl Drop for StackServer {
    fn drop(&mut self) {
        if !self.is_ended && !std::thread::panicking() {
            self.finish();
        }
    }
}
