//! Captures of the packets of a TCP/IP stack, as Wireshark reads them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use crate::netns::Netns;
use crate::process::Process;
use crate::{need, sharkd};

/// Ethernet address of the stack, by which a capture tells the directions apart.
pub const MAC: &str = "02:00:00:00:00:02";
/// Packets that no host should send. Those with a comment have a checksum that is left to offload.
const INVALID: &str = "_ws.malformed || (ip.checksum.status == Bad || tcp.checksum.status == Bad || \
                       udp.checksum.status == Bad || icmp.checksum.status == Bad || icmpv6.checksum.status == Bad) && \
                       !frame.comment";
/// Seconds for one pass over a capture.
const PASS: &str = "300";
/// Time limit of the start and the end of a capture.
const LIMIT: Duration = Duration::from_mins(1);

/// Summaries of the packets of a capture that match a filter, a line each.
pub fn packets(file: &Path, filter: &str) -> String {
    let found = sharkd::read(file, &[(filter, sharkd::ALL)], &[]);
    found.concat().iter().map(|columns| columns.join(" ") + "\n").collect()
}

/// Fields of the packets of a capture that match a filter.
pub fn fields(file: &Path, filter: &str, names: &[&str]) -> Vec<Vec<String>> {
    sharkd::read(file, &[(filter, sharkd::ALL)], names).concat()
}

/// Output of tshark with some options for the packets of a capture that match a filter. Panics if it fails.
pub fn printed(file: &Path, filter: &str, options: &[&str]) -> String {
    need::program("tshark");
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", PASS, "tshark", "-n", "-Y", filter, "-r"]).arg(file);
    command.args(["--disable-protocol", "ALL", "--enable-protocol", sharkd::PROTOCOLS]);
    // Ports of tests are those of some protocols.
    command.args(["-d", "tcp.port==1-65535,data"]).args(options);
    let Output { status, stdout, stderr } = command.output().expect("timeout runs");
    assert!(status.success(), "{command:?}: {status}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8_lossy(&stdout).into_owned()
}

/// Panics if a capture has no packet of the stack with address [`MAC`], or an invalid one.
pub fn assert_valid(file: &Path) {
    let own = format!("eth.src == {MAC}");
    assert_none(file, &format!("{own} && ({INVALID})"), &own);
}

/// Panics if a packet of a capture matches the filter `invalid`, or if none matches `any`.
pub fn assert_none(file: &Path, invalid: &str, any: &str) {
    let found = sharkd::read(file, &[(invalid, sharkd::ALL), (any, 1)], &[]);
    assert!(found[0].is_empty(), "invalid packets: {:#?}", found[0]);
    assert!(!found[1].is_empty(), "no packet matches {any}");
}

/// A capture in the kernel of the packets of an interface, for programs that cannot capture those of their port.
pub struct KernelCapture {
    process: Process,
    file: PathBuf,
}

impl KernelCapture {
    /// Captures packets of an interface, which must be up.
    pub fn start(folder: &Path, netns: &Netns, interface: &str) -> KernelCapture {
        let file = folder.join("kernel.pcapng");
        let path = file.to_str().expect("a path in UTF-8");
        let mut process = netns.spawn(folder, "dumpcap", "dumpcap", &["-q", "-i", interface, "-w", path]);
        process.wait_for("File: ", 0, LIMIT);
        KernelCapture { process, file }
    }

    /// Ends the capture while the interface still exists. Panics if a packet is malformed. Checksums are not checked,
    /// because the file does not tell which ones are left to offload.
    pub fn finish(mut self) {
        assert!(self.process.terminate(LIMIT).success());
        assert_none(&self.file, "_ws.malformed", "tcp");
    }
}
