//! Transfer of a large file between two stations. The file is noise, so that a wrong transfer cannot match by chance.
//! Its checksum is computed when it is written and when it arrives; the received data is not stored.
//!
//! The sender listens. The receiver reads its socket directly, because a pipe between two busybox tools costs more
//! than the network in an emulated machine.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::netns::Netns;
use crate::process::Process;
use crate::{need, scope};

/// Size of a large file in bytes: 1 GB with `--all`.
pub fn large() -> u64 {
    scope::pick(1_000_000_000, 64_000_000)
}
/// Programs that [`fetch`] needs in a guest.
pub const PROGRAMS: [&str; 2] = ["bash", "openssl"];
const PORT: u16 = 5000;
const END: Duration = Duration::from_secs(20);
const TRANSFER: Duration = Duration::from_mins(4);

/// A file and its checksum.
#[derive(Debug)]
pub struct Noise {
    path: PathBuf,
    sum: String,
}

impl Noise {
    /// Writes `bytes` bytes of noise to a file in `folder`: zeros encrypted with AES, which is faster than the
    /// kernel's random numbers.
    pub fn make(folder: &Path, bytes: u64) -> Noise {
        need::program("openssl");
        let path = folder.join("noise");
        let key = "-K 000102030405060708090a0b0c0d0e0f -iv 00000000000000000000000000000000";
        let line = format!(
            "openssl enc -aes-128-ctr {key} -in /dev/zero 2>/dev/null | head -c {bytes} | tee {} | openssl sha256",
            path.display()
        );
        let output = Command::new("sh").args(["-c", &line]).output();
        let output = output.unwrap_or_else(|error| panic!("cannot run sh: {error}"));
        let len = std::fs::metadata(&path).map_or(0, |file| file.len());
        assert_eq!(len, bytes, "{line} made no such file");
        Noise { sum: sum(&String::from_utf8_lossy(&output.stdout)), path }
    }

    /// Serves the file to the first client, on all addresses of `netns`.
    pub fn offer(&self, folder: &Path, netns: &Netns) -> Process {
        need::program("busybox");
        let line = format!("exec busybox nc -l -p {PORT} <{}", self.path.display());
        let process = netns.spawn(folder, "noise", "sh", &["-c", &line]);
        netns.await_listener(PORT, &process);
        process
    }

    /// Checks that the output of [`fetch`] is the checksum of this file.
    #[track_caller]
    pub fn assert_arrived(&self, said: &str) {
        assert_eq!(sum(said), self.sum, "the file changed on its way");
    }

    /// Transfers the file between namespaces; `to` connects to `address`.
    #[track_caller]
    pub fn send(&self, folder: &Path, from: &Netns, to: &Netns, address: &str) {
        let mut server = self.offer(folder, from);
        let mut client = to.spawn(folder, "fetch", "sh", &["-c", &fetch(address)]);
        let status = client.finish(TRANSFER);
        assert!(status.success(), "{status}: {}", client.output());
        self.assert_arrived(&client.output());
        server.finish(END);
    }
}

/// Shell command that downloads the file from `address` and prints its checksum.
pub fn fetch(address: &str) -> String {
    format!("bash -c 'openssl sha256 </dev/tcp/{address}/{PORT}'")
}

/// The last word of openssl's output.
fn sum(said: &str) -> String {
    let word = said.split_whitespace().last().unwrap_or_default();
    assert_eq!(word.len(), 64, "no checksum in {said:?}");
    word.to_owned()
}
