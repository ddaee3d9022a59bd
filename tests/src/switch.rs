//! `linerate run` as a process, with a configuration made for it, asked through its own command line.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;

use crate::process::Process;
use crate::{binary, wait};

const START: Duration = Duration::from_secs(20);
const END: Duration = Duration::from_secs(10);
const CALM: Duration = Duration::from_millis(500);

/// One vhost-user port of the configuration, on the bridge of all.
#[derive(Clone, Debug)]
pub struct Port<'a> {
    /// Its name.
    pub name: &'a str,
    /// The vhost-user socket.
    pub socket: &'a Path,
    /// Whether the switch connects; otherwise it listens.
    pub client: bool,
    /// Pairs of queues.
    pub pairs: u16,
}

/// What linerate counted for one port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that came in.
    pub rx_packets: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Packets that went out.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Packets lost because the port's guest offered no buffer.
    pub queue_full: u64,
    /// Packets lost for any other reason.
    pub other_drops: u64,
    /// Copies beyond the first of packets that came in and were flooded.
    pub replicated: u64,
    /// Packets that were handed to the control plane.
    pub punted: u64,
}

/// A running switch.
pub struct Switch {
    process: Process,
    folder: PathBuf,
    control: PathBuf,
}

impl Switch {
    /// Starts a switch with one bridge and one worker on CPU `cpu`, and waits until it answers.
    pub fn start(folder: &Path, cpu: usize, ports: &[Port]) -> Switch {
        Switch::start_on(folder, &[cpu], ports)
    }

    /// As [`Switch::start`], with one worker on each of `cpus`.
    pub fn start_on(folder: &Path, cpus: &[usize], ports: &[Port]) -> Switch {
        Switch::start_from(folder, &configuration(cpus, ports))
    }

    /// Starts a switch with the configuration `text`, and waits until it answers.
    pub fn start_from(folder: &Path, text: &str) -> Switch {
        let file = folder.join("switch.toml");
        let written = fs::write(&file, text);
        written.unwrap_or_else(|error| panic!("cannot write {}: {error}", file.display()));
        Switch::restart(folder)
    }

    /// Starts a switch again with the configuration that an earlier one had in `folder`.
    pub fn restart(folder: &Path) -> Switch {
        let control = folder.join("control.sock");
        let words = [Path::new("--control"), &control, Path::new("run"), &folder.join("switch.toml")];
        let process = Process::spawn(folder, "linerate", binary::linerate(), &words);
        let mut switch = Switch { process, folder: folder.to_owned(), control };
        let answered = wait::until(START, || {
            assert!(switch.process.ended().is_none(), "linerate ended at once");
            switch.ask(&["status"]).ok()
        });
        assert!(answered.is_some(), "linerate did not answer on its control socket in {START:?}");
        switch
    }

    /// Runs a verb with `-o json`; its standard error when it failed.
    pub fn ask(&self, verb: &[&str]) -> Result<Value, String> {
        let answer = self.tell(&[verb, &["-o", "json"]].concat())?;
        serde_json::from_slice(&answer).map_err(|error| format!("not JSON: {error}"))
    }

    /// Runs a verb; what it printed, or its standard error when it failed.
    pub fn tell(&self, verb: &[&str]) -> Result<Vec<u8>, String> {
        let Output { status, stdout, stderr } = Command::new(binary::linerate())
            .arg("--control")
            .arg(&self.control)
            .args(verb)
            .output()
            .unwrap_or_else(|error| panic!("cannot run linerate: {error}"));
        if status.success() { Ok(stdout) } else { Err(String::from_utf8_lossy(&stderr).into_owned()) }
    }

    /// What to paste to plug a guest of this kind into a port.
    pub fn snippet(&self, port: &str, kind: &str) -> String {
        let output = Command::new(binary::linerate())
            .arg("--control")
            .arg(&self.control)
            .args(["snippet", port, "--for", kind])
            .output()
            .unwrap_or_else(|error| panic!("cannot run linerate: {error}"));
        assert!(output.status.success(), "no snippet: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// What the port called `name` is doing; a port that was added a moment ago is waited for.
    pub fn port(&self, name: &str) -> Value {
        let live = wait::until(START, || self.live(name));
        live.unwrap_or_else(|| panic!("linerate shows no port {name}: {:?}", self.ask(&["ports", "show"])))
    }

    fn live(&self, name: &str) -> Option<Value> {
        let answer = self.ask(&["ports", "show"]).unwrap_or_else(|error| panic!("no ports: {error}"));
        let ports = answer.as_array()?;
        let port = ports.iter().find(|port| port["settings"]["name"] == name)?;
        port["live"].is_object().then(|| port["live"].clone())
    }

    /// Whether the guest of the port called `name` negotiated the feature of that name.
    pub fn has_feature(&self, name: &str, feature: &str) -> bool {
        let port = self.port(name);
        let features = port["features"].as_array().unwrap_or_else(|| panic!("no features in {port}"));
        features.iter().any(|known| known == feature)
    }

    /// The counters of the port called `name`.
    pub fn counters(&self, name: &str) -> Counters {
        let port = self.port(name);
        let number = |key: &str| port[key].as_u64().unwrap_or_else(|| panic!("no {key} in {port}"));
        let drops = port["drops"].as_object().unwrap_or_else(|| panic!("no drops in {port}"));
        let all: u64 = drops.values().filter_map(Value::as_u64).sum();
        let queue_full = drops.get("queue-full").and_then(Value::as_u64).unwrap_or(0);
        Counters {
            rx_packets: number("rx_packets"),
            rx_bytes: number("rx_bytes"),
            tx_packets: number("tx_packets"),
            tx_bytes: number("tx_bytes"),
            queue_full,
            other_drops: all - queue_full,
            replicated: number("replicated"),
            punted: number("punted"),
        }
    }

    /// How many pairs of queues of a port run in both directions.
    pub fn running(&self, name: &str) -> usize {
        let port = self.port(name);
        let queues = port["queues"].as_array().expect("a port lists its queues");
        queues.iter().filter(|queue| queue["rx_running"] == true && queue["tx_running"] == true).count()
    }

    /// The counters of several ports, once nothing moves any more.
    pub fn settled(&self, names: &[&str]) -> Vec<Counters> {
        let read = || names.iter().map(|name| self.counters(name)).collect::<Vec<_>>();
        wait::settled(CALM, START, read)
    }

    /// Waits until the port is in `state`; panics with what it is in instead when `limit` passes.
    pub fn wait_state(&self, name: &str, state: &str, limit: Duration) {
        let reached = wait::until(limit, || (self.port(name)["state"] == state).then_some(()));
        assert!(reached.is_some(), "port {name} is not {state} after {limit:?}: {}", self.port(name));
    }

    /// Ends it in order; panics when it leaves its control socket or a failure behind.
    pub fn stop(mut self) {
        let status = self.process.terminate(END);
        assert!(status.success(), "linerate ended with {status}");
        assert!(!self.control.exists(), "linerate left {} behind", self.control.display());
    }

    /// Ends it as a crash would (SIGKILL); returns the folder for [`Switch::restart`].
    pub fn kill(mut self) -> PathBuf {
        self.process.kill();
        self.folder.clone()
    }
}

/// A configuration with these ports, the last section that of the last port.
pub fn configuration(cpus: &[usize], ports: &[Port]) -> String {
    let workers: Vec<_> = cpus.iter().map(|cpu| format!("[[worker]]\ncpu = {cpu}\n\n")).collect();
    let mut text = format!("{}[[bridge]]\nname = \"lan\"\n", workers.concat());
    for Port { name, socket, client, pairs } in ports {
        let mode = if *client { "client" } else { "server" };
        let socket = socket.display();
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "\n[[port]]\nname = \"{name}\"\nbridge = \"lan\"\nsocket = \"{socket}\"\nmode = \"{mode}\"\nqueue_pairs = {pairs}\n"
        );
    }
    text
}

/// Checks that nothing vanished: what came in plus the copies of flooding equals what went out plus what was lost or punted.
pub fn assert_sums_agree(counters: &[Counters]) {
    let total = |field: fn(&Counters) -> u64| counters.iter().map(field).sum::<u64>();
    let entered = total(|c| c.rx_packets) + total(|c| c.replicated);
    let left =
        total(|c| c.tx_packets) + total(|c| c.punted) + total(|c| c.queue_full) + total(|c| c.other_drops);
    assert_eq!(entered, left, "packets vanished or appeared: {counters:#?}");
}
