//! `linerate run` as a process with a generated configuration, queried through its command line.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;
use std::{fs, io};

use rustix::process::{Pid, Signal};
use serde_json::Value;

use crate::process::Process;
use crate::{binary, wait};

const START_TIMEOUT: Duration = Duration::from_secs(20);
const END: Duration = Duration::from_secs(10);
const SETTLE_TIME: Duration = Duration::from_millis(250);

/// One vhost-user port of the configuration, on the common bridge.
#[derive(Clone, Debug)]
pub struct Port<'a> {
    /// Its name.
    pub name: &'a str,
    /// The vhost-user socket.
    pub socket: &'a Path,
    /// Whether the switch connects; otherwise it listens.
    pub client: bool,
    /// Number of queue pairs.
    pub pairs: u16,
}

/// Counters of linerate for one port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets received by the switch.
    pub rx_packets: u64,
    /// Bytes received by the switch.
    pub rx_bytes: u64,
    /// Packets sent by the switch.
    pub tx_packets: u64,
    /// Bytes sent by the switch.
    pub tx_bytes: u64,
    /// Packets dropped because the port's guest had no buffer available.
    pub queue_full: u64,
    /// Packets dropped for any other reason.
    pub other_drops: u64,
    /// Copies beyond the first, of received packets that were flooded.
    pub replicated: u64,
    /// Packets punted to the control plane.
    pub punted: u64,
}

/// A running switch.
pub struct Switch {
    process: Process,
    /// The process that has taken over.
    successor: Option<Pid>,
    folder: PathBuf,
    control: PathBuf,
}

impl Switch {
    /// Starts a switch with one bridge and one worker on CPU `cpu`, and waits until it responds.
    pub fn start(folder: &Path, cpu: usize, ports: &[Port]) -> Switch {
        Switch::start_on(folder, &[cpu], ports)
    }

    /// [`Switch::start`] with one worker on each of `cpus`.
    pub fn start_on(folder: &Path, cpus: &[usize], ports: &[Port]) -> Switch {
        Switch::start_from(folder, &configuration(cpus, ports))
    }

    /// Starts a switch with the configuration `text`, and waits until it responds.
    pub fn start_from(folder: &Path, text: &str) -> Switch {
        let file = folder.join("switch.toml");
        let written = fs::write(&file, text);
        written.unwrap_or_else(|error| panic!("cannot write {}: {error}", file.display()));
        Switch::restart(folder)
    }

    /// Starts a switch with the configuration of an earlier one in `folder`.
    pub fn restart(folder: &Path) -> Switch {
        Switch::restart_as(folder, &[binary::linerate().into()])
            .unwrap_or_else(|output| panic!("linerate ended at once: {output}"))
    }

    /// [`Switch::restart`] by the words of another command.
    ///
    /// # Errors
    /// Its output, if it ends before it responds.
    pub fn restart_as(folder: &Path, command: &[OsString]) -> Result<Switch, String> {
        let control = folder.join("control.sock");
        let words =
            ["--control".into(), control.clone().into(), "run".into(), folder.join("switch.toml").into()];
        let (program, before) = command.split_first().expect("a command has a program");
        let process = Process::spawn(folder, "linerate", program, &[before, &words].concat());
        let mut switch = Switch { process, successor: None, folder: folder.to_owned(), control };
        let answered = wait::until(START_TIMEOUT, || match switch.process.ended() {
            Some(status) => Some(Err(format!("{status}: {}", switch.log()))),
            None => switch.get("/v1/status").ok().map(Ok),
        });
        let answered = answered
            .unwrap_or_else(|| panic!("linerate did not answer on its control socket in {START_TIMEOUT:?}"));
        answered.map(|_| switch)
    }

    /// Process identifier.
    pub fn pid(&self) -> u32 {
        self.successor.map_or_else(|| self.process.pid(), |pid| pid.as_raw_nonzero().get().cast_unsigned())
    }

    /// Replaces the process (`linerate upgrade`), and waits for the end of the old one. Returns the report.
    pub fn upgrade(&mut self, words: &[&str]) -> Result<Value, String> {
        let before = self.pid();
        let report = self.ask(&[&["upgrade"], words].concat())?;
        let pid = report["pid"].as_i64().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        if self.successor.is_none() {
            let status = self.process.finish(END);
            assert!(status.success(), "the old process ended with {status}");
        }
        let has_ended =
            wait::until(END, || (!Path::new(&format!("/proc/{before}/exe")).exists()).then_some(()));
        assert!(has_ended.is_some(), "process {before} is still there");
        self.successor = pid;
        Ok(report)
    }

    /// Continues with a process that has taken over. The old one has ended.
    pub fn adopt(&mut self, process: u32) {
        if self.successor.is_none() {
            self.process.finish(END);
        }
        self.successor = Pid::from_raw(process.cast_signed());
    }

    /// Runs a verb with `-o json`. Returns its standard error if it fails.
    pub fn ask(&self, verb: &[&str]) -> Result<Value, String> {
        let answer = self.tell(&[verb, &["-o", "json"]].concat())?;
        serde_json::from_slice(&answer).map_err(|error| format!("not JSON: {error}"))
    }

    /// Runs a verb. Returns its output, or its standard error if it fails.
    pub fn tell(&self, verb: &[&str]) -> Result<Vec<u8>, String> {
        let output = self.command(verb).output();
        let Output { status, stdout, stderr } =
            output.unwrap_or_else(|error| panic!("cannot run linerate: {error}"));
        if status.success() { Ok(stdout) } else { Err(String::from_utf8_lossy(&stderr).into_owned()) }
    }

    /// The command of a verb.
    pub fn command(&self, verb: &[&str]) -> Command {
        let mut command = Command::new(binary::linerate());
        command.arg("--control").arg(&self.control).args(verb);
        command
    }

    /// Whether it runs.
    pub fn is_running(&mut self) -> bool {
        match self.successor {
            Some(pid) => rustix::process::test_kill_process(pid).is_ok(),
            None => self.process.ended().is_none(),
        }
    }

    /// Reads a resource of the control API, without a process for each time that a test looks.
    pub fn get(&self, resource: &str) -> io::Result<Value> {
        let answer = self.exchange(&format!("GET {resource} HTTP/1.0\r\n\r\n"))?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
        let is_found = head.starts_with("HTTP/1.0 200 ");
        if is_found { Ok(serde_json::from_str(body)?) } else { Err(io::Error::other(answer)) }
    }

    /// Sends a request of HTTP/1.0 to the control API, and returns the whole answer.
    pub fn request(&self, request: &str) -> String {
        self.exchange(request).unwrap_or_else(|error| panic!("no answer to {request:?}: {error}"))
    }

    fn exchange(&self, request: &str) -> io::Result<String> {
        let mut stream = UnixStream::connect(&self.control)?;
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// The snippet that connects a guest of this kind to a port.
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

    /// State of the port called `name`; waits for a port that was just added.
    pub fn port(&self, name: &str) -> Value {
        let live = wait::until(START_TIMEOUT, || self.live(name));
        live.unwrap_or_else(|| panic!("linerate shows no port {name}: {:?}", self.ask(&["ports", "show"])))
    }

    fn live(&self, name: &str) -> Option<Value> {
        let answer = self.get("/v1/ports").unwrap_or_else(|error| panic!("no ports: {error}"));
        let ports = answer.as_array()?;
        let port = ports.iter().find(|port| port["settings"]["name"] == name)?;
        port["live"].is_object().then(|| port["live"].clone())
    }

    /// Whether the guest of the port called `name` negotiated this feature.
    pub fn has_feature(&self, name: &str, feature: &str) -> bool {
        let port = self.port(name);
        let features = port["features"].as_array().unwrap_or_else(|| panic!("no features in {port}"));
        features.iter().any(|known| known == feature)
    }

    /// Counters of the port called `name`.
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

    /// Number of queue pairs of a port that run in both directions.
    pub fn running(&self, name: &str) -> usize {
        let port = self.port(name);
        let queues = port["queues"].as_array().expect("a port lists its queues");
        queues.iter().filter(|queue| queue["rx_running"] == true && queue["tx_running"] == true).count()
    }

    /// Waits until `pairs` queue pairs of a port run in both directions. Panics with the state of the port after
    /// `limit`.
    #[track_caller]
    pub fn wait_running(&self, name: &str, pairs: usize, limit: Duration) {
        let running = wait::until(limit, || (self.running(name) == pairs).then_some(()));
        assert!(running.is_some(), "port {name} does not run: {}", self.port(name));
    }

    /// Counters of several ports, once they are stable.
    pub fn settled(&self, names: &[&str]) -> Vec<Counters> {
        let read = || names.iter().map(|name| self.counters(name)).collect::<Vec<_>>();
        wait::settled(SETTLE_TIME, START_TIMEOUT, read)
    }

    /// Waits until the sums of these ports agree, and panics if they never do. Counters that do not change for a moment
    /// are not enough: a worker that gets no CPU has packets that it has received and not sent yet.
    pub fn assert_sums_agree(&self, names: &[&str]) {
        let mut counters = self.settled(names);
        let agree = || {
            let (entered, left) = sums(&counters);
            (entered == left).then_some(()).or_else(|| {
                counters = self.settled(names);
                None
            })
        };
        if wait::until(START_TIMEOUT, agree).is_none() {
            assert_sums_agree(&counters);
        }
    }

    /// Waits until the port is in `state`. Panics with the actual state after `limit`.
    pub fn wait_state(&self, name: &str, state: &str, limit: Duration) {
        let reached = wait::until(limit, || (self.port(name)["state"] == state).then_some(()));
        assert!(reached.is_some(), "port {name} is not {state} after {limit:?}: {}", self.port(name));
    }

    /// Its log so far, a JSON object in each line.
    pub fn log(&self) -> String {
        self.process.output()
    }

    /// Waits until a line of the log has all of `words`. Panics after `limit`.
    pub fn wait_logged(&self, words: &[&str], limit: Duration) {
        let has_all = |line: &str| words.iter().all(|word| line.contains(word));
        let found = wait::until(limit, || self.log().lines().any(has_all).then_some(()));
        assert!(found.is_some(), "no line with {words:?}: {}", self.log());
    }

    /// Waits for the end of the process that was started. Returns its exit code. Panics after a limit.
    pub fn exit_code(&mut self) -> Option<i32> {
        self.process.finish(END).code()
    }

    /// Ends it regularly. Panics if it fails or leaves its control socket behind.
    pub fn stop(mut self) {
        if let Some(successor) = self.successor {
            rustix::process::kill_process(successor, Signal::TERM).expect("a running process");
            wait::until(END, || (!self.control.exists()).then_some(()));
            self.successor = None;
        } else {
            let status = self.process.terminate(END);
            assert!(status.success(), "linerate ended with {status}");
        }
        assert!(!self.control.exists(), "linerate left {} behind", self.control.display());
    }

    /// Sends SIGKILL, as in a crash. Returns the folder for [`Switch::restart`].
    pub fn kill(mut self) -> PathBuf {
        match self.successor.take() {
            Some(successor) => {
                rustix::process::kill_process(successor, Signal::KILL).expect("a running process");
            }
            None => self.process.kill(),
        }
        self.folder.clone()
    }
}

/// No test may end with a system call that the switch refused itself. A process that has taken over is no child of the
/// test.
impl Drop for Switch {
    fn drop(&mut self) {
        if let Some(successor) = self.successor {
            // Fails if it has ended.
            let _ = rustix::process::kill_process(successor, Signal::KILL);
        }
        let log = self.process.output();
        let refused = log.lines().find(|line| line.contains("a system call was refused"));
        assert!(refused.is_none() || std::thread::panicking(), "{refused:?}");
    }
}

/// A configuration with these ports. The section of the last port comes last.
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

/// Checks that received packets plus copies equal sent, dropped and punted packets.
pub fn assert_sums_agree(counters: &[Counters]) {
    let (entered, left) = sums(counters);
    assert_eq!(entered, left, "packets vanished or appeared: {counters:#?}");
}

/// Packets that have entered the switch by these ports, with copies, and those that have left it or were dropped.
fn sums(counters: &[Counters]) -> (u64, u64) {
    let total = |field: fn(&Counters) -> u64| counters.iter().map(field).sum::<u64>();
    let entered = total(|c| c.rx_packets) + total(|c| c.replicated);
    let left =
        total(|c| c.tx_packets) + total(|c| c.punted) + total(|c| c.queue_full) + total(|c| c.other_drops);
    (entered, left)
}
