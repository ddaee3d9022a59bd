//! Open vSwitch with its user-space datapath as a process, over DPDK or over interfaces of a namespace: a switch from
//! another project.
//!
//! It needs no huge pages and does not affect another Open vSwitch on this machine: database, sockets and DPDK's
//! files are in the test's folder, and the device of its bridge is in a network namespace.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use crate::netns::Netns;
use crate::process::Process;
use crate::{need, wait};

const DAEMON: &str = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk";
/// Without DPDK.
const PLAIN_DAEMON: &str = "ovs-vswitchd";
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
/// The bridge name in printed snippets.
const BRIDGE: &str = "br0";
/// Datapath of the bridge.
const DATA_PATH: &str = "netdev@ovs-netdev";
const SETTLE_TIME: Duration = Duration::from_millis(500);
const START_TIMEOUT: Duration = Duration::from_secs(40);
const CONTROL: &str = "daemon.ctl";
/// Priorities of flows; the highest matches. A new bridge has a flow of priority 0.
const FORWARD: u32 = 1;
const DROP: u32 = 2;

/// Side that creates a port's socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side<'a> {
    /// Open vSwitch, in its own folder (`dpdkvhostuser`).
    Listens,
    /// The guest, at this path, and Open vSwitch connects (`dpdkvhostuserclient`).
    Connects(&'a Path),
}

/// Packets and bytes received from a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Packets, forwarded or dropped.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// A running switch with one bridge.
pub struct Ovs {
    // Dropped in this order.
    daemon: Process,
    _database: Process,
    folder: PathBuf,
    /// Starts the daemon in its namespace.
    launch: Vec<String>,
    /// Offset of this daemon's output in the log.
    began: usize,
}

impl Ovs {
    /// Starts it in a folder below `folder`, with its PMD thread on CPU `cpu`.
    pub fn start(folder: &Path, cpu: usize) -> Ovs {
        // Per-port memory allocates as many buffers as needed; the default pool is sized for large machines.
        let memory = "other_config:per-port-memory=true";
        // Without legacy memory, Open vSwitch adds an option that is invalid without huge pages.
        let dpdk =
            "other_config:dpdk-extra=--no-huge --legacy-mem -m 512 --no-pci --no-telemetry --no-shconf";
        Ovs::start_with(folder, cpu, &[memory, dpdk])
    }

    /// [`Ovs::start`] with other settings for DPDK's memory.
    pub fn start_with(folder: &Path, cpu: usize, more: &[&str]) -> Ovs {
        let folder = folder.join("ovs");
        fs::create_dir(&folder).unwrap_or_else(|error| panic!("cannot make {}: {error}", folder.display()));
        let database = database(&folder);
        let masks =
            ["pmd-cpu-mask", "dpdk-lcore-mask"].map(|key| format!("other_config:{key}={:#x}", 1_u64 << cpu));
        let settings = [&["other_config:dpdk-init=true", &masks[0], &masks[1]], more].concat();
        tool(&folder, "ovs-vsctl", &["--no-wait", "init"]);
        tool(&folder, "ovs-vsctl", &[&["--no-wait", "set", "Open_vSwitch", "."], &settings[..]].concat());
        need::program(DAEMON);
        Ovs::launch(folder, database, &["unshare", "--net", DAEMON])
    }

    /// Starts it without DPDK in a folder below `folder`, for interfaces of `netns`. The interface `br0` there is the
    /// host on its bridge.
    pub fn start_in(folder: &Path, netns: &Netns) -> Ovs {
        let folder = folder.join("ovs");
        fs::create_dir(&folder).unwrap_or_else(|error| panic!("cannot make {}: {error}", folder.display()));
        let database = database(&folder);
        tool(&folder, "ovs-vsctl", &["--no-wait", "init"]);
        need::program(PLAIN_DAEMON);
        Ovs::launch(folder, database, &["ip", "netns", "exec", netns.name(), PLAIN_DAEMON])
    }

    fn launch(folder: PathBuf, database: Process, launch: &[&str]) -> Ovs {
        let launch: Vec<String> = launch.iter().map(|word| (*word).to_owned()).collect();
        let ovs = Ovs { daemon: daemon(&folder, &launch), _database: database, folder, launch, began: 0 };
        let bridge = ["add-br", BRIDGE, "--", "set", "bridge", BRIDGE, "datapath_type=netdev"];
        ovs.run("ovs-vsctl", &bridge);
        ovs
    }

    /// Adds a port for a guest. Returns the path of its socket.
    pub fn add_port(&self, name: &str, side: Side) -> PathBuf {
        let interface = ["add-port", BRIDGE, name, "--", "set", "Interface", name];
        match side {
            Side::Listens => {
                self.run("ovs-vsctl", &[&interface[..], &["type=dpdkvhostuser"]].concat());
                self.folder.join(name)
            }
            Side::Connects(path) => {
                let option = format!("options:vhost-server-path={}", path.display());
                self.run("ovs-vsctl", &[&interface[..], &["type=dpdkvhostuserclient", &option]].concat());
                path.to_owned()
            }
        }
    }

    /// Runs a command line in a shell.
    pub fn paste(&self, line: &str) {
        tool(&self.folder, "sh", &["-e", "-c", line]);
    }

    /// Runs one of Open vSwitch's tools and returns its output. Panics if it fails.
    pub fn run(&self, program: &str, arguments: &[&str]) -> String {
        tool(&self.folder, program, arguments)
    }

    /// Sends `copies` copies of `frame` on a port.
    pub fn inject(&self, port: &str, frame: &[u8], copies: usize) {
        let output = format!("output:{}", self.number(port));
        let actions = vec![output.as_str(); copies].join(",");
        let packet = frame.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
        self.flows("packet-out", &format!("in_port=none packet={packet} actions={actions}"));
    }

    /// Number of queue pairs of the port with this socket that run in both directions. No tool reports it, so it is
    /// read from the daemon's log.
    pub fn running(&self, port: &str, socket: &Path) -> usize {
        let ports = self.control("dpctl/show", &[DATA_PATH]);
        let own = ports.lines().find(|line| line.contains(&format!(": {port} ("))).unwrap_or_default();
        // A port has no MTU before its first guest.
        let ready = !own.contains("mtu=0,");
        let configured = if ready { behind(own, "configured_rx_queues=") as usize } else { 0 };
        configured.min(enabled(&self.daemon.output()[self.began..], socket))
    }

    /// Forwards packets from these ports from now on, with new counters. Learned addresses are flushed.
    pub fn open(&self, ports: &[&str]) {
        self.control("fdb/flush", &[BRIDGE]);
        for number in ports.iter().map(|port| self.number(port)) {
            self.flows("del-flows", &format!("in_port={number}"));
            self.flows("add-flow", &format!("priority={FORWARD},in_port={number},actions=NORMAL"));
        }
    }

    /// Drops packets from these ports from now on. Returns once no more packets arrive.
    pub fn close(&self, ports: &[&str]) {
        for number in ports.iter().map(|port| self.number(port)) {
            self.flows("add-flow", &format!("priority={DROP},in_port={number},actions=drop"));
        }
        wait::settled(SETTLE_TIME, START_TIMEOUT, || self.handled());
    }

    /// Packets received from a port since it was opened. The counters may be a second old.
    ///
    /// Open vSwitch 3.1 does not report counters of vhost-user ports ("could not retrieve stats"), so flow counters
    /// are used. A packet received shortly before the port was closed may count for either flow, so only their sum is
    /// meaningful.
    pub fn came_in(&self, port: &str) -> Received {
        let flows = self.run("ovs-ofctl", &["dump-flows", BRIDGE, &format!("in_port={}", self.number(port))]);
        let sum = |label| flows.lines().map(|flow| behind(flow, label)).sum();
        Received { packets: sum("n_packets="), bytes: sum("n_bytes=") }
    }

    /// Packets received from all ports since the start.
    pub fn handled(&self) -> u64 {
        let path = self.control("dpctl/show", &[DATA_PATH]);
        behind(&path, "hit:") + behind(&path, "missed:")
    }

    /// Ports and flows, for failure messages.
    pub fn describe(&self) -> String {
        self.control("dpctl/show", &[DATA_PATH]) + &self.run("ovs-ofctl", &["dump-flows", BRIDGE])
    }

    fn flows(&self, verb: &str, flow: &str) {
        self.run("ovs-ofctl", &[verb, BRIDGE, flow]);
    }

    /// The port's number in flows.
    fn number(&self, port: &str) -> String {
        self.run("ovs-vsctl", &["get", "Interface", port, "ofport"]).trim().to_owned()
    }

    /// Runs `ovs-appctl` on the daemon.
    pub fn control(&self, verb: &str, more: &[&str]) -> String {
        let socket = self.folder.join(CONTROL).display().to_string();
        self.run("ovs-appctl", &[&["-t", &socket, verb], more].concat())
    }

    /// Kills the daemon, as in a crash, and restarts it. The database keeps running, so the ports persist.
    pub fn crash_and_return(&mut self, meanwhile: impl FnOnce()) {
        self.daemon.kill();
        meanwhile();
        self.began = self.daemon.output().len();
        self.daemon = daemon(&self.folder, &self.launch);
        let answers = || attempt(&self.folder, "ovs-ofctl", &["show", BRIDGE]).ok();
        assert!(wait::until(START_TIMEOUT, answers).is_some(), "Open vSwitch does not come back");
    }
}

/// A database of Open vSwitch with its server, without a switch that reads it.
pub struct OvsDatabase {
    _server: Process,
    folder: PathBuf,
}

impl OvsDatabase {
    /// Starts it in `folder`.
    pub fn start(folder: &Path) -> OvsDatabase {
        let database = OvsDatabase { _server: database(folder), folder: folder.to_owned() };
        database.configure("init");
        database
    }

    /// Runs `ovs-vsctl` with words that are separated by spaces.
    pub fn configure(&self, words: &str) {
        let words: Vec<&str> = ["--no-wait"].into_iter().chain(words.split_whitespace()).collect();
        tool(&self.folder, "ovs-vsctl", &words);
    }

    /// All tables, as `ovsdb-client dump -f json` prints them.
    pub fn dump(&self) -> String {
        let server = format!("unix:{}", self.socket().display());
        tool(&self.folder, "ovsdb-client", &["dump", "-f", "json", &server, "Open_vSwitch"])
    }

    /// Socket of the server.
    pub fn socket(&self) -> PathBuf {
        self.folder.join("db.sock")
    }

    /// File of the database.
    pub fn file(&self) -> PathBuf {
        self.folder.join("conf.db")
    }
}

fn database(folder: &Path) -> Process {
    let file = folder.join("conf.db").display().to_string();
    let socket = folder.join("db.sock");
    tool(folder, "ovsdb-tool", &["create", &file, SCHEMA]);
    let remote = format!("--remote=punix:{}", socket.display());
    let control = format!("--unixctl={}", folder.join("database.ctl").display());
    let process = spawn(folder, "database", &["ovsdb-server".into(), file, remote, control]);
    assert!(
        // It exists before ovsdb-server listens.
        wait::until(START_TIMEOUT, || UnixStream::connect(&socket).ok()).is_some(),
        "ovsdb-server does not listen"
    );
    process
}

fn daemon(folder: &Path, launch: &[String]) -> Process {
    need::root("a namespace for Open vSwitch");
    let control = format!("--unixctl={}", folder.join(CONTROL).display());
    let remote = format!("unix:{}", folder.join("db.sock").display());
    spawn(folder, "daemon", &[launch, &[remote, control]].concat())
}

fn spawn(folder: &Path, name: &str, words: &[String]) -> Process {
    let mut arguments: Vec<OsString> = environment(folder)
        .into_iter()
        .map(|(key, value)| {
            let mut word = OsString::from(format!("{key}="));
            word.push(value);
            word
        })
        .collect();
    arguments.extend(words.iter().map(OsString::from));
    Process::spawn(folder, name, "env", &arguments)
}

/// Folders of Open vSwitch and DPDK.
fn environment(folder: &Path) -> Vec<(&'static str, &Path)> {
    ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR", "RUNTIME_DIRECTORY"]
        .map(|key| (key, folder))
        .to_vec()
}

fn tool(folder: &Path, program: &str, arguments: &[&str]) -> String {
    attempt(folder, program, arguments).unwrap_or_else(|error| panic!("{program} {arguments:?}: {error}"))
}

fn attempt(folder: &Path, program: &str, arguments: &[&str]) -> Result<String, String> {
    need::program(program);
    // By default, the tools wait for the daemon without limit.
    let limit = START_TIMEOUT.as_secs().to_string();
    let output =
        Command::new("timeout").arg(limit).arg(program).args(arguments).envs(environment(folder)).output();
    let Output { status, stdout, stderr } = output.map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&stdout).into_owned();
    if status.success() {
        Ok(said)
    } else {
        Err(format!("{status}: {said}{}", String::from_utf8_lossy(&stderr)))
    }
}

/// The number after `label`; 0 if there is no flow yet.
fn behind(text: &str, label: &str) -> u64 {
    let rest = text.split_once(label).map_or("", |(_, rest)| rest);
    rest.split(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// Number of a guest's transmit queues whose last state is enabled: the second queue of each pair (`rx_qid`).
fn enabled(log: &str, socket: &Path) -> usize {
    let device = format!("of vhost device '{}' changed to ", socket.display());
    let changes =
        log.lines().filter_map(|line| line.split_once(&device).filter(|(queue, _)| queue.contains("rx_qid")));
    let last: HashMap<_, _> = changes.map(|(queue, state)| (behind(queue, "rx_qid "), state)).collect();
    last.into_values().filter(|state| *state == "'enabled'").count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counters_of_a_flow_are_read_from_a_listing() {
        let listing = " cookie=0x0, duration=5.1s, table=0, n_packets=12, n_bytes=768, priority=1,in_port=3 actions=NORMAL";
        assert_eq!(["n_packets=", "n_bytes="].map(|label| behind(listing, label)), [12, 768]);
        assert_eq!(behind("", "n_packets="), 0);
    }

    #[test]
    fn the_queues_that_run_are_read_from_the_log() {
        let line = |queue, device, state| {
            format!("INFO|State of queue {queue} of vhost device '/x/{device}' changed to '{state}'\n")
        };
        let log = [
            line("0 ( tx_qid 0 )", "a", "enabled"),
            line("1 ( rx_qid 0 )", "a", "enabled"),
            line("3 ( rx_qid 1 )", "a", "enabled"),
            line("1 ( rx_qid 0 )", "a", "disabled"),
            line("1 ( rx_qid 0 )", "b", "disabled"),
        ];
        assert_eq!(
            ["/x/a", "/x/b", "/x/c"].map(|socket| enabled(&log.concat(), Path::new(socket))),
            [1, 0, 0]
        );
        assert_eq!(enabled(&log[..3].concat(), Path::new("/x/a")), 2);
    }
}
