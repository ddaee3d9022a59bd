//! One round of a script that runs our switch, then the other one, each with a fresh guest. All processes that the
//! script leaves behind are killed at the end of the round, because a polling daemon would distort the next reading.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::distance::{self, Distance};
use super::others;
use super::progress::Progress;
use super::{Peer, PeersArguments, Ring};

/// Timeout of a round: two guests of at most 34 s each, their switches, and a margin.
const LIMIT: Duration = Duration::from_secs(100);
/// Interval of checks for the end of the round or an interruption.
const LOOK: Duration = Duration::from_millis(200);

/// Maximum number of searches for leftover processes.
const SWEEPS: usize = 100;

/// State shared by all rounds.
pub(super) struct Bench {
    arguments: PeersArguments,
    folder: TempDir,
}

/// Result of a round; a side without a reading is `None`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reading {
    /// Rate forwarded by our switch, in Mpps.
    pub(super) ours: Option<f64>,
    /// Rate forwarded by the other switch, in Mpps.
    pub(super) theirs: Option<f64>,
    /// Load of our worker.
    pub(super) load: Option<Load>,
    /// Of the two CPUs, before and after.
    pub(super) distances: Option<[Distance; 2]>,
}

/// Load of a worker.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// Busy cycles of the time-stamp counter per packet.
    pub(super) cycles_per_packet: f64,
    /// Share of empty polls, 0 to 1.
    pub(super) empty_polls: f64,
}

impl Reading {
    /// Ratio of ours to theirs.
    pub(super) fn ratio(&self) -> Option<f64> {
        Some(self.ours? / self.theirs?)
    }
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number =
            |value: Option<f64>| value.map_or("no reading".to_owned(), |value| format!("{value:.3}"));
        write!(f, "{} and {} Mpps, ", number(self.ours), number(self.theirs))?;
        write!(f, "ratio {}", number(self.ratio()))?;
        let Some([before, after]) = self.distances else { return Ok(()) };
        write!(f, ", distance {:.0} and {:.0} ns", before.0, after.0)
    }
}

impl Bench {
    pub(super) fn new(arguments: &PeersArguments) -> Result<Bench> {
        let folder = TempDir::with_prefix("linerate-bench-").context("no temporary folder")?;
        Ok(Bench { arguments: arguments.clone(), folder })
    }

    /// Keeps the logs and returns their folder.
    pub(super) fn kept(self) -> PathBuf {
        self.folder.keep()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs one round. Returns `None` if it was interrupted.
    pub(super) fn round(
        &self,
        ring: Ring,
        size: u16,
        peer: Peer,
        progress: &Progress,
    ) -> Result<Option<Reading>> {
        let (host, guest) = (self.arguments.host_cpu, self.arguments.guest_cpu);
        let before = distance::wait_while_far(host, guest)?;
        let leftovers = Leftovers(self);
        let log = fs::File::create(self.path("round.log")).context("no log file")?;
        let mut command = self.command(ring, size, peer);
        let mut child = command.stdout(log.try_clone()?).stderr(log).spawn()?;
        watch(&mut child, progress)?;
        if progress.is_interrupted() {
            drop(leftovers);
            child.wait().context("cannot wait for a round")?;
            return Ok(None);
        }
        let text = fs::read_to_string(self.path("round.log"))?;
        let (ours, theirs) = parse(&text);
        let load = if peer == Peer::TestpmdLoop { others::load(self.folder.path()) } else { None };
        // What is still polling on these CPUs would be measured as distance.
        drop(leftovers);
        let distances = Some([before, distance::between(host, guest)?]);
        Ok(Some(Reading { ours, theirs, load, distances }))
    }

    /// The command that runs a round and prints its two readings.
    fn command(&self, ring: Ring, size: u16, peer: Peer) -> Command {
        let arguments = &self.arguments;
        let mut command = if peer == Peer::TestpmdLoop { others::command(ring) } else { others::memif(ring) };
        command.env("PKT", size.to_string()).env("RUN_DIR", self.folder.path());
        command.env("HOST_CPU", arguments.host_cpu.to_string());
        command.env("GUEST_CPU", arguments.guest_cpu.to_string());
        command.stdin(Stdio::null());
        command
    }

    /// Kills leftover processes, such as a guest that waits for its switch. Every process of a round, and no other, has
    /// our folder in its environment.
    fn end_what_is_left(&self) {
        let mark = format!("RUN_DIR={}", self.folder.path().display());
        // Processes started during a search are found by the next one.
        for _ in 0..SWEEPS {
            let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
            let found: Vec<Pid> = processes.filter_map(|entry| started_with(&entry.path(), &mark)).collect();
            for pid in &found {
                // Fails if the process has already ended.
                let _ = kill_process(*pid, Signal::KILL);
            }
            if found.is_empty() {
                break;
            }
        }
    }
}

/// Kills leftover processes when dropped.
struct Leftovers<'a>(&'a Bench);

impl Drop for Leftovers<'_> {
    fn drop(&mut self) {
        self.0.end_what_is_left();
    }
}

/// The process of a `/proc` folder, if `mark` is in its environment.
fn started_with(folder: &Path, mark: &str) -> Option<Pid> {
    let number = folder.file_name()?.to_str()?.parse().ok()?;
    let variables = fs::read(folder.join("environ")).ok()?;
    let found = variables.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes());
    if found { Pid::from_raw(number) } else { None }
}

/// Waits until the round ends, is interrupted or times out.
fn watch(child: &mut Child, progress: &Progress) -> Result<()> {
    let start = Instant::now();
    while child.try_wait().context("cannot wait for a round")?.is_none() && !progress.is_interrupted() {
        if start.elapsed() > LIMIT {
            break;
        }
        progress.tick();
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Parses a line such as `round 1: A 12.345 Mpps, B 6.789 Mpps, A/B 1.818`.
fn parse(text: &str) -> (Option<f64>, Option<f64>) {
    let line = text.lines().find(|line| line.starts_with("round ")).unwrap_or_default();
    let after = |label: &str| {
        let rest = line.split_once(label)?.1;
        rest.split(' ').next()?.parse::<f64>().ok().filter(|value| *value > 0.0)
    };
    (after(": A "), after(", B "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_readings_are_taken_from_the_line_of_the_round() {
        let text = "round 1: A 12.5 Mpps, B 6.25 Mpps, A/B 2.000\nmedian A/B 2\n";
        assert_eq!(parse(text), (Some(12.5), Some(6.25)));
    }

    #[test]
    fn a_side_without_a_reading_is_none_and_so_is_the_ratio() {
        let (ours, theirs) = parse("round 1: A 12.5 Mpps, B no reading Mpps, A/B nan\n");
        assert_eq!((ours, theirs), (Some(12.5), None));
        assert!(Reading { ours, theirs, load: None, distances: None }.ratio().is_none());
    }
}
