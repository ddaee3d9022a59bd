//! DPDK's `dpdk-testpmd` as a process: a guest with `net_virtio_user` ports, a switch with `net_vhost` ports.
//!
//! It runs without huge pages: DPDK then backs its memory with one memfd, which vhost-user can share.

use std::path::Path;
use std::time::Duration;

use crate::netns::Netns;
use crate::process::Process;
use crate::{need, wait};

const START_TIMEOUT: Duration = Duration::from_secs(40);
const REPLY: Duration = Duration::from_secs(20);
const SETTLE_TIME: Duration = Duration::from_millis(250);

/// Ring format requested by a guest's driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ring {
    /// The format of most virtual machines.
    Split,
    /// Split, used in order.
    SplitInOrder,
    /// Packed ring, VIRTIO 1.1.
    Packed,
    /// Packed and in order; DPDK uses its vectorised driver if the CPU has AVX-512.
    PackedVec,
}

impl Ring {
    /// All ring formats.
    pub const ALL: [Ring; 4] = [Ring::Split, Ring::SplitInOrder, Ring::Packed, Ring::PackedVec];

    /// The driver uses rings in order by default.
    fn options(self) -> &'static str {
        match self {
            Ring::Split => ",in_order=0",
            Ring::SplitInOrder => ",in_order=1",
            Ring::Packed => ",packed_vq=1,in_order=0",
            Ring::PackedVec => ",packed_vq=1,in_order=1,vectorized=1",
        }
    }
}

/// One virtio-user port.
#[derive(Clone, Debug)]
pub struct VirtioUser<'a> {
    /// The vhost-user socket.
    pub socket: &'a Path,
    /// Whether the guest listens and the switch connects.
    pub server: bool,
    /// Last byte of the port's MAC address, 02:00:00:00:00:xx.
    pub mac: u8,
    /// Requested ring format.
    pub ring: Ring,
    /// Whether received packets may span buffers.
    pub mergeable: bool,
    /// Number of queue pairs.
    pub pairs: u16,
    /// Descriptors per queue.
    pub size: u16,
}

impl VirtioUser<'_> {
    fn device(&self, index: usize) -> String {
        let Self { mac, pairs, size, .. } = self;
        let server = if self.server { ",server=1" } else { "" };
        let mergeable = u8::from(self.mergeable);
        let (socket, ring) = (self.socket.display(), self.ring.options());
        format!(
            "net_virtio_user{index},path={socket},queues={pairs},queue_size={size},\
             mac=02:00:00:00:00:{mac:02x},mrg_rxbuf={mergeable}{ring}{server}"
        )
    }
}

/// One `net_vhost` port: the peer of a [`VirtioUser`], or of linerate's own guest.
#[derive(Clone, Debug)]
pub struct Vhost<'a> {
    /// The vhost-user socket.
    pub socket: &'a Path,
    /// Whether it connects instead of listening.
    pub client: bool,
    /// Number of queue pairs.
    pub pairs: u16,
}

impl Vhost<'_> {
    fn device(&self, index: usize) -> String {
        let client = u8::from(self.client);
        format!("net_vhost{index},iface={},queues={},client={client}", self.socket.display(), self.pairs)
    }
}

/// One `net_memif` port.
#[derive(Clone, Debug)]
pub struct Memif<'a> {
    /// The memif socket: a path, or the name of an abstract socket after `@`.
    pub socket: &'a Path,
    /// Whether it listens and the peer connects.
    pub server: bool,
    /// Last byte of the port's MAC address, 02:00:00:00:00:xx.
    pub mac: u8,
    /// Options common to both ends, with a leading comma: `,id=7,secret=abc,bsize=1024`.
    pub more: &'a str,
}

impl Memif<'_> {
    fn device(&self, index: usize) -> String {
        let Self { socket, server, mac, more } = self;
        let role = if *server { "server" } else { "client" };
        let socket = socket.display().to_string();
        let (socket, is_abstract) = socket.strip_prefix('@').map_or((&*socket, "no"), |name| (name, "yes"));
        format!(
            "net_memif{index},role={role},socket={socket},socket-abstract={is_abstract},mac=02:00:00:00:00:{mac:02x}{more}"
        )
    }
}

const SEGMENT: usize = 2048;

/// Counters of one port since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
}

/// Arguments of `stdbuf`, which starts testpmd.
fn arguments(cpu: usize, devices: &[String], pairs: u16, size: u16, more: &[String]) -> Vec<String> {
    // Line buffering, so that output can be read while testpmd runs.
    let mut arguments: Vec<String> =
        ["-oL", "dpdk-testpmd", "--no-pci", "--no-huge", "-m", "192"].map(str::to_owned).to_vec();
    // Nothing is shared with other DPDK processes, not even with a terminating one of the same name.
    arguments.extend(["--no-telemetry", "--no-shconf"].map(str::to_owned));
    arguments.extend(["--lcores".into(), format!("(0)@{cpu},(1)@{cpu}")]);
    arguments.extend(devices.iter().flat_map(|device| ["--vdev".into(), device.clone()]));
    arguments.extend(["--", "-i", "--nb-cores=1", "--total-num-mbufs=8192"].map(str::to_owned));
    arguments.extend([format!("--rxq={pairs}"), format!("--txq={pairs}")]);
    arguments.extend([format!("--rxd={size}"), format!("--txd={size}")]);
    arguments.extend(more.iter().cloned());
    arguments
}

/// A running testpmd with a prompt.
pub struct Testpmd {
    process: Process,
    ports: usize,
}

impl Testpmd {
    /// Starts a guest with one port per item, on CPU `cpu`. Its prompt appears once every back end has connected, so
    /// [`Testpmd::ready`] must be called after the switch was started.
    pub fn guest(folder: &Path, name: &str, cpu: usize, ports: &[VirtioUser]) -> Testpmd {
        let devices: Vec<String> = ports.iter().enumerate().map(|(i, p)| p.device(i)).collect();
        let pairs = ports.iter().map(|p| p.pairs).max().unwrap_or(1);
        let size = ports.iter().map(|p| p.size).min().unwrap_or(256);
        let macs: Vec<u8> = ports.iter().map(|port| port.mac).collect();
        Testpmd::spawn(folder, name, cpu, &devices, pairs, size, &peers(&macs))
    }

    /// Starts a switch on CPU `cpu` that forwards between the ports of each pair (0 and 1, 2 and 3) without look-up.
    pub fn switch(folder: &Path, name: &str, cpu: usize, ports: &[Vhost]) -> Testpmd {
        let devices: Vec<String> = ports.iter().enumerate().map(|(i, p)| p.device(i)).collect();
        let pairs = ports.iter().map(|p| p.pairs).max().unwrap_or(1);
        Testpmd::spawn(folder, name, cpu, &devices, pairs, 256, &[])
    }

    /// Starts testpmd on CPU `cpu` in the namespace `netns`, with one port for each of `devices`.
    pub fn inside(
        folder: &Path,
        name: &str,
        netns: &Netns,
        cpu: usize,
        devices: &[String],
        more: &[String],
    ) -> Testpmd {
        let arguments = arguments(cpu, devices, 1, 1024, more);
        let process = netns.spawn(folder, name, "stdbuf", &arguments);
        Testpmd { process, ports: devices.len() }
    }

    /// Starts a guest with two memif ports that send to each other.
    pub fn memif(folder: &Path, name: &str, cpu: usize, ports: &[Memif], pairs: u16) -> Testpmd {
        let devices: Vec<String> = ports.iter().enumerate().map(|(i, p)| p.device(i)).collect();
        let macs: Vec<u8> = ports.iter().map(|port| port.mac).collect();
        Testpmd::spawn(folder, name, cpu, &devices, pairs, 256, &peers(&macs))
    }

    /// Starts a guest with one memif port and one virtio-user port, which send to each other.
    pub fn mixed(folder: &Path, name: &str, cpu: usize, memif: &Memif, virtio: &VirtioUser) -> Testpmd {
        let devices = [memif.device(0), virtio.device(1)];
        Testpmd::spawn(folder, name, cpu, &devices, 1, virtio.size, &peers(&[memif.mac, virtio.mac]))
    }

    fn spawn(
        folder: &Path,
        name: &str,
        cpu: usize,
        devices: &[String],
        pairs: u16,
        size: u16,
        more: &[String],
    ) -> Testpmd {
        need::program("dpdk-testpmd");
        let arguments = arguments(cpu, devices, pairs, size, more);
        Testpmd { process: Process::spawn(folder, name, "stdbuf", &arguments), ports: devices.len() }
    }
    /// Starts a guest with one port by a shell command.
    pub fn pasted(folder: &Path, name: &str, line: &str) -> Testpmd {
        need::program("dpdk-testpmd");
        let line = format!("exec {line}");
        Testpmd { process: Process::spawn(folder, name, "stdbuf", &["-oL", "sh", "-c", &line]), ports: 1 }
    }

    /// Waits for the first prompt.
    pub fn ready(&mut self) {
        self.process.wait_for("testpmd>", 0, START_TIMEOUT);
    }

    /// Sends one command.
    pub fn say(&mut self, command: &str) {
        self.process.say(command);
    }

    /// Sends `bursts` bursts of 32 frames of `length` bytes from every port and circulates them: each received frame
    /// is sent on the next port, addressed to that port's peer.
    pub fn circulate(&mut self, length: usize, bursts: usize) {
        self.say("set fwd mac");
        self.say(&format!("set txpkts {}", segments(length)));
        self.say(&format!("start tx_first {bursts}"));
    }

    /// Stops forwarding; frames in transit stay in the rings.
    pub fn stop(&mut self) {
        self.stop_and_list();
    }

    /// [`Testpmd::stop`]; returns the packets received by each queue of ports with several queues.
    pub fn stop_and_list(&mut self) -> Vec<(usize, u64)> {
        let from = self.process.output().len();
        self.say("stop");
        streams(&self.process.wait_for("Accumulated forward statistics", from, REPLY))
    }

    /// Receives everything in the rings, until no more packets arrive.
    pub fn drain(&mut self) {
        self.say("set fwd rxonly");
        self.say("start");
        self.settled();
        self.stop();
    }

    /// Counters of every port, in order.
    pub fn counters(&mut self) -> Vec<Counters> {
        let from = self.process.output().len();
        self.say("show port stats all");
        let last = format!("NIC statistics for port {} ", self.ports - 1);
        let seen = self.process.wait_for(&last, from, REPLY);
        let start = from + seen.find(&last).unwrap_or_default();
        self.process.wait_for("Tx-bps:", start, REPLY);
        parse(&self.process.output()[from..])
    }

    /// Counters of every port, once they are stable.
    pub fn settled(&mut self) -> Vec<Counters> {
        wait::settled(SETTLE_TIME, REPLY, || self.counters())
    }

    /// All output so far.
    pub fn output(&self) -> String {
        self.process.output()
    }

    /// Ends it regularly: its ports are stopped and closed.
    pub fn quit(mut self) {
        self.say("quit");
        let status = self.process.finish(REPLY);
        assert!(status.success(), "testpmd ended with {status}");
    }

    /// Kills it, as in a crash.
    pub fn kill(mut self) {
        self.process.kill();
    }
}

/// Segment lengths of a frame: a packet buffer of DPDK holds 2048 bytes.
fn segments(length: usize) -> String {
    let starts = (0..length).step_by(SEGMENT);
    starts.map(|start| SEGMENT.min(length - start).to_string()).collect::<Vec<_>>().join(",")
}

/// Each port sends to the other one, so that a learning switch has a unique output for a frame.
fn peers(macs: &[u8]) -> Vec<String> {
    let peer = |i: usize| macs.get(i ^ 1).copied().unwrap_or(0xfe);
    (0..macs.len()).map(|i| format!("--eth-peer={i},02:00:00:00:00:{:02x}", peer(i))).collect()
}

fn parse(text: &str) -> Vec<Counters> {
    let blocks = text.split("NIC statistics for port").skip(1);
    blocks
        .map(|block| Counters {
            rx_packets: number(block, "RX-packets:"),
            rx_bytes: number(block, "RX-bytes:"),
            tx_packets: number(block, "TX-packets:"),
            tx_bytes: number(block, "TX-bytes:"),
        })
        .collect()
}

/// Port and received packets of each queue.
fn streams(text: &str) -> Vec<(usize, u64)> {
    const TITLE: &str = "Forward Stats for RX Port=";
    let blocks = text.split(TITLE).skip(1);
    blocks
        .map(|block| {
            let port = block.trim_start().split('/').next().and_then(|port| port.parse().ok());
            let port = port.unwrap_or_else(|| panic!("testpmd printed no port behind {TITLE}"));
            (port, number(block, "RX-packets:"))
        })
        .collect()
}

fn number(text: &str, label: &str) -> u64 {
    let rest = text.split_once(label).map_or("", |(_, rest)| rest);
    let word = rest.split_whitespace().next().unwrap_or_default();
    word.parse().unwrap_or_else(|_| panic!("testpmd printed no number behind {label}, but {word:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counters_of_both_ports_are_read_from_a_listing() {
        let listing = "
  ######################## NIC statistics for port 0  ########################
  RX-packets: 32         RX-missed: 0          RX-bytes:  2048
  TX-packets: 160        TX-errors: 0          TX-bytes:  10240
  ######################## NIC statistics for port 1  ########################
  RX-packets: 1          RX-missed: 0          RX-bytes:  64
  TX-packets: 2          TX-errors: 0          TX-bytes:  128
";
        let counters = parse(listing);
        assert_eq!(
            counters[0],
            Counters { rx_packets: 32, rx_bytes: 2048, tx_packets: 160, tx_bytes: 10240 }
        );
        assert_eq!(counters[1], Counters { rx_packets: 1, rx_bytes: 64, tx_packets: 2, tx_bytes: 128 });
    }

    #[test]
    fn a_long_frame_is_sent_in_segments() {
        assert_eq!(segments(64), "64");
        assert_eq!(segments(2048), "2048");
        assert_eq!(segments(9216), "2048,2048,2048,2048,1024");
    }

    #[test]
    fn packets_of_each_queue_are_parsed_from_testpmd_output() {
        let text = "
  ------- Forward Stats for RX Port= 0/Queue= 0 -> TX Port= 1/Queue= 0 -------
  RX-packets: 1710112        TX-packets: 0              TX-dropped: 1710112
  ------- Forward Stats for RX Port= 1/Queue= 1 -> TX Port= 0/Queue= 1 -------
  RX-packets: 17             TX-packets: 0              TX-dropped: 17
  ---------------------- Forward statistics for port 0  ----------------------
  RX-packets: 3420416        RX-dropped: 0             RX-total: 3420416
";
        assert_eq!(streams(text), [(0, 1_710_112), (1, 17)]);
    }
}
