//! Captures of the packets of a TCP/IP stack, as tshark reads them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use crate::need;
use crate::netns::Netns;
use crate::process::Process;

/// Ethernet address of the stack, by which a capture tells the directions apart.
pub const MAC: &str = "02:00:00:00:00:02";
/// Packets that no host should send. Those with a comment have a checksum that is left to offload.
const INVALID: &str = "_ws.malformed || (ip.checksum.status == Bad || tcp.checksum.status == Bad || \
                       udp.checksum.status == Bad || icmp.checksum.status == Bad || icmpv6.checksum.status == Bad) && \
                       !frame.comment";
/// Protocols that are read. The data of tests is no message of any other one, whatever the port.
const PROTOCOLS: &str = "frame,eth,ethertype,vlan,arp,ip,ipv6,icmp,icmpv6,tcp,udp,dhcp,gre,erspan";
/// Seconds for one pass over a capture.
const PASS: &str = "300";
/// Time limit of the start and the end of a capture.
const LIMIT: Duration = Duration::from_mins(1);

/// Packets of a capture that match a filter, a line each. `more` are options of tshark. Panics if tshark fails.
pub fn packets(file: &Path, filter: &str, more: &[&str]) -> String {
    need::program("tshark");
    let checks = ["ip", "tcp", "udp"].map(|name| format!("{name}.check_checksum:TRUE"));
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", PASS, "tshark", "-n", "-Y", filter, "-r"]).arg(file);
    command.args(["--disable-protocol", "ALL", "--enable-protocol", PROTOCOLS]);
    command.args(["-d", "tcp.port==1-65535,data"]);
    command.args(checks.iter().flat_map(|check| ["-o", check])).args(more);
    let Output { status, stdout, stderr } = command.output().expect("timeout runs");
    assert!(status.success(), "{command:?}: {status}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8_lossy(&stdout).into_owned()
}

/// Fields of the packets of a capture that match a filter.
pub fn fields(file: &Path, filter: &str, names: &[&str]) -> Vec<Vec<String>> {
    let names: Vec<_> = names.iter().flat_map(|name| ["-e", name]).collect();
    let lines = packets(file, filter, &[&["-T", "fields"], &names[..]].concat());
    lines.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

/// Panics if a capture has no packet of the stack with address [`MAC`], or an invalid one.
pub fn assert_valid(file: &Path) {
    let invalid = packets(file, &format!("eth.src == {MAC} && ({INVALID})"), &[]);
    assert_eq!(invalid, "", "invalid packets");
    assert!(has_any(file, &format!("ether src {MAC}")), "an empty capture");
}

/// Whether a packet of a capture matches a filter of libpcap, which tcpdump tells in a tenth of the time of tshark.
fn has_any(file: &Path, filter: &str) -> bool {
    need::program("tcpdump");
    let output = Command::new("tcpdump").args(["-n", "-c", "1", filter, "-r"]).arg(file).output();
    let Output { status, stdout, stderr } = output.expect("tcpdump runs");
    assert!(status.success(), "{}: {status}: {}", file.display(), String::from_utf8_lossy(&stderr));
    !stdout.is_empty()
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
        assert_eq!(packets(&self.file, "_ws.malformed", &[]), "", "malformed packets");
        assert!(has_any(&self.file, "tcp"), "an empty capture");
    }
}
