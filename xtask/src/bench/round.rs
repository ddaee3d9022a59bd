//! One round: the script `compare` runs our switch, then the other one, each with a fresh guest. What they leave
//! running is ended here, however the round ends, since a forgotten daemon that polls would halve the next reading.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use super::own;
use super::progress::Progress;
use super::{Peer, PeersArguments, Ring};
use crate::command;

/// Two guests of at most 34 s each, their switches, and some patience.
const LIMIT: Duration = Duration::from_secs(100);
/// The guest starts to send about 4 s after its own start, later where it starts slowly, and is read from about 6 s
/// on. The worker is asked when it has packets and once more after a while: that is about full load, and disturbs
/// next to nothing of the reading.
const ASK: std::ops::Range<Duration> = Duration::from_millis(4200)..Duration::from_secs(6);
const AGAIN: Duration = Duration::from_millis(800);
/// How often a round looks whether it has ended, or was interrupted.
const LOOK: Duration = Duration::from_millis(200);

/// How often at most what is left is looked for.
const SWEEPS: usize = 100;

/// What every round has in common.
pub(super) struct Bench {
    arguments: PeersArguments,
    folder: TempDir,
}

/// What one round found; nothing where a side gave no reading.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reading {
    /// Frames that our switch forwarded, in millions a second.
    pub(super) ours: Option<f64>,
    /// The same for the other switch.
    pub(super) theirs: Option<f64>,
    /// How busy our worker was.
    pub(super) load: Option<Load>,
}

/// The worker under load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// Cycles of the time-stamp counter spent on each packet, waiting not counted.
    pub(super) cycles_per_packet: f64,
    /// The share of polls that found nothing.
    pub(super) empty_polls: f64,
}

impl Reading {
    /// Ours over theirs.
    pub(super) fn ratio(&self) -> Option<f64> {
        Some(self.ours? / self.theirs?)
    }
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number =
            |value: Option<f64>| value.map_or("no reading".to_owned(), |value| format!("{value:.3}"));
        write!(f, "{} and {} Mpps, ", number(self.ours), number(self.theirs))?;
        write!(f, "ratio {}", number(self.ratio()))
    }
}

impl Bench {
    pub(super) fn new(arguments: &PeersArguments) -> Result<Bench> {
        let folder = TempDir::with_prefix("linerate-bench-").context("no temporary folder")?;
        let bench = Bench { arguments: arguments.clone(), folder };
        fs::write(bench.path("template.toml"), configuration(arguments.host_cpu))?;
        fs::write(bench.path("linerate"), bench.start_script())?;
        Ok(bench)
    }

    /// Keeps the logs and says where.
    pub(super) fn kept(self) -> PathBuf {
        self.folder.keep()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The sockets' names are known only to the command that `compare` starts.
    fn start_script(&self) -> String {
        let here = self.folder.path().display();
        let binary = command::linerate();
        format!(
            "sed -e \"s#@0@#$S0#\" -e \"s#@1@#$S1#\" '{here}/template.toml' >'{here}/switch.toml'\n\
             exec '{}' --control '{here}/control.sock' run '{here}/switch.toml'\n",
            binary.display()
        )
    }

    /// Runs one round; nothing when it was interrupted.
    pub(super) fn round(
        &self,
        ring: Ring,
        size: u16,
        peer: Peer,
        progress: &Progress,
    ) -> Result<Option<Reading>> {
        let leftovers = Leftovers(self);
        let log = fs::File::create(self.path("compare.log")).context("no log file")?;
        let mut command = self.command(ring, size, peer);
        let mut child = command.stdout(log.try_clone()?).stderr(log).spawn()?;
        let probes = self.watch(&mut child, progress)?;
        if progress.is_interrupted() {
            drop(leftovers);
            child.wait().context("cannot wait for compare")?;
            return Ok(None);
        }
        let text = fs::read_to_string(self.path("compare.log"))?;
        let (ours, theirs) = parse(&text);
        let load = match peer {
            Peer::TestpmdLoop => own::load(self.folder.path()),
            _ => load(probes.first(), probes.get(1)),
        };
        Ok(Some(Reading { ours, theirs, load }))
    }

    /// Waits until the round ends or is interrupted; returns what the worker said meanwhile.
    fn watch(&self, child: &mut Child, progress: &Progress) -> Result<Vec<Value>> {
        let (start, mut asked) = (Instant::now(), Vec::new());
        let mut due = ASK;
        while child.try_wait().context("cannot wait for compare")?.is_none() && !progress.is_interrupted() {
            let now = start.elapsed();
            if asked.len() < 2 && due.contains(&now) {
                let said = self.worker().filter(|worker| worker["packets"].as_u64() > Some(0));
                if let Some(worker) = said {
                    asked.push(worker);
                    due = now + AGAIN..Duration::MAX;
                }
            }
            progress.tick();
            std::thread::sleep(LOOK);
        }
        Ok(asked)
    }

    /// What makes one round and prints its two readings.
    fn command(&self, ring: Ring, size: u16, peer: Peer) -> Command {
        let arguments = &self.arguments;
        let mut command = match peer {
            Peer::TestpmdLoop => own::command(arguments, ring),
            _ if ring.is_memif() => own::memif(arguments, ring),
            _ => self.compare(ring, peer),
        };
        command.env("PKT", size.to_string()).env("RUN_DIR", self.folder.path());
        command.env("HOST_CPU", arguments.host_cpu.to_string());
        command.env("GUEST_CPU", arguments.guest_cpu.to_string());
        command.stdin(Stdio::null());
        command
    }

    fn compare(&self, ring: Ring, peer: Peer) -> Command {
        let arguments = &self.arguments;
        let host = arguments.peers.join(format!("host-{}", peer.name()));
        let mut command = Command::new("timeout");
        command.args(["--foreground", "--kill-after=10", &LIMIT.as_secs().to_string()]).arg("bash");
        command.arg(arguments.peers.join("compare")).args([ring.name(), "1"]);
        command.arg(format!("exec bash '{}'", self.path("linerate").display()));
        command.arg(format!("exec '{}' \"$S0\" \"$S1\"", host.display()));
        command
    }

    /// The worker's counters; nothing when our switch does not answer.
    fn worker(&self) -> Option<Value> {
        let mut ask = Command::new(command::linerate());
        ask.arg("--control").arg(self.path("control.sock")).args(["workers", "show", "-o", "json"]);
        let answer: Value = serde_json::from_str(&command::output(&mut ask).ok()?).ok()?;
        answer.get(0).or_else(|| answer["workers"].get(0)).cloned()
    }

    /// Open vSwitch detaches from the group that `compare` ends, and a guest whose switch never came waits for
    /// ever. All of them carry the name of our folder in their environment, and nobody else does.
    fn end_what_is_left(&self) {
        let mark = format!("RUN_DIR={}", self.folder.path().display());
        // What is started while the others are being ended is found the next time.
        for _ in 0..SWEEPS {
            let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
            let found: Vec<Pid> = processes.filter_map(|entry| started_with(&entry.path(), &mark)).collect();
            for pid in &found {
                // It may have ended by itself in between.
                let _ = kill_process(*pid, Signal::KILL);
            }
            if found.is_empty() {
                break;
            }
        }
    }
}

/// Ends what a round left running when it goes out of scope.
struct Leftovers<'a>(&'a Bench);

impl Drop for Leftovers<'_> {
    fn drop(&mut self) {
        self.0.end_what_is_left();
    }
}

/// The process behind a folder of `/proc`, when `mark` is one of its variables.
fn started_with(folder: &Path, mark: &str) -> Option<Pid> {
    let number = folder.file_name()?.to_str()?.parse().ok()?;
    let variables = fs::read(folder.join("environ")).ok()?;
    let found = variables.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes());
    if found { Pid::from_raw(number) } else { None }
}

fn configuration(cpu: usize) -> String {
    let port = |number: usize| {
        format!("\n[[port]]\nname = \"p{number}\"\nsocket = \"@{number}@\"\nmode = \"client\"\n")
    };
    format!("[[worker]]\ncpu = {cpu}\n{}{}", port(0), port(1))
}

/// `round 1: A 12.345 Mpps, B 6.789 Mpps, A/B 1.818`
fn parse(text: &str) -> (Option<f64>, Option<f64>) {
    let line = text.lines().find(|line| line.starts_with("round ")).unwrap_or_default();
    let after = |label: &str| {
        let rest = line.split_once(label)?.1;
        rest.split(' ').next()?.parse::<f64>().ok().filter(|value| *value > 0.0)
    };
    (after(": A "), after(", B "))
}

fn load(before: Option<&Value>, after: Option<&Value>) -> Option<Load> {
    let (before, after) = (before?, after?);
    let grown = |key: &str| Some(after[key].as_f64()? - before[key].as_f64()?);
    let (packets, polls) = (grown("packets")?, grown("polls")?);
    if packets <= 0.0 || polls <= 0.0 {
        return None;
    }
    let cycles_per_packet = grown("busy_cycles")? / packets;
    Some(Load { cycles_per_packet, empty_polls: grown("empty_polls")? / polls })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn both_readings_are_taken_from_the_line_of_the_round() {
        let text = "round 1: A 12.5 Mpps, B 6.25 Mpps, A/B 2.000\nmedian A/B 2\n";
        assert_eq!(parse(text), (Some(12.5), Some(6.25)));
    }

    #[test]
    fn a_side_without_a_reading_is_none_and_so_is_the_ratio() {
        let (ours, theirs) = parse("round 1: A 12.5 Mpps, B no reading Mpps, A/B nan\n");
        assert_eq!((ours, theirs), (Some(12.5), None));
        assert!(Reading { ours, theirs, load: None }.ratio().is_none());
    }

    #[test]
    fn the_load_is_what_the_counters_grew_by() {
        let before = json!({"packets": 100, "polls": 10, "empty_polls": 1, "busy_cycles": 1000});
        let after = json!({"packets": 200, "polls": 30, "empty_polls": 6, "busy_cycles": 11_000});
        let load = load(Some(&before), Some(&after)).unwrap();
        assert!((load.cycles_per_packet - 100.0).abs() < 1e-9);
        assert!((load.empty_polls - 0.25).abs() < 1e-9);
    }
}
