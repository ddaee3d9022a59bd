//! Comparison of switches: runs `linerate bench` as a child process for each switch; the benchmark starts and stops
//! the switch.
//!
//! All files of a benchmark are in one folder: next to `--keep`, where it can be resumed and compared later, or
//! temporary. The scripts that start other switches are embedded in this program.

use measure::distance;
use rfc2544::Results;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use studies::usage::comparison::{Benches, Entry, Over, Subject};
use tempfile::TempDir;

/// Scripts for other switches, from `examples/bench`.
const SCRIPTS: [(&str, &str); 5] = [
    ("testpmd-memory.sh", include_str!("../../../examples/bench/testpmd-memory.sh")),
    ("testpmd.sh", include_str!("../../../examples/bench/testpmd.sh")),
    ("ovs-dpdk.sh", include_str!("../../../examples/bench/ovs-dpdk.sh")),
    ("ovs-tap.sh", include_str!("../../../examples/bench/ovs-tap.sh")),
    ("linux-bridge.sh", include_str!("../../../examples/bench/linux-bridge.sh")),
];
/// Options of each benchmark: short trials of which only a part must pass, because shared machines lose CPU time.
const BENCH_OPTIONS: [&str; 16] = [
    "--tests",
    "throughput,latency",
    "--sizes",
    "64,512,1514",
    "--loads",
    "50,90",
    "--duration",
    "20ms",
    "--tries",
    "10",
    "--agree",
    "25%",
    "--precision",
    "2%",
    "--timeout",
    "15s",
];
/// TAP interfaces between the generator and the forwarder.
const TAPS: [&str; 2] = ["lrf0", "lrf1"];
/// Interval at which a benchmark's exit is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum time to wait until the CPUs are close to each other; `DISTANCE_INTERVAL` is the interval of measurements.
const DISTANCE_TIMEOUT: Duration = Duration::from_secs(30);
const DISTANCE_INTERVAL: Duration = Duration::from_millis(500);

fn flag(name: &str, value: String) -> Vec<String> {
    vec![name.to_owned(), value]
}

/// Folder of the benchmarks' files.
enum Folder {
    /// Next to `--keep`.
    Persistent(PathBuf),
    Temporary(TempDir),
}

impl Folder {
    fn path(&self) -> &Path {
        match self {
            Self::Persistent(path) => path,
            Self::Temporary(dir) => dir.path(),
        }
    }
}

/// Runs the benchmarks.
pub(super) struct Comparison {
    folder: Folder,
    cpus: [usize; 2],
    stop: Arc<AtomicBool>,
}

impl Comparison {
    /// The first CPU is for the switch, the second for the generator. Without `keep`, the files are deleted on drop.
    pub(super) fn new(keep: Option<&Path>, cpus: [usize; 2], stop: Arc<AtomicBool>) -> io::Result<Self> {
        let folder = match keep {
            Some(keep) => {
                let mut name = keep.as_os_str().to_owned();
                name.push(".field");
                Folder::Persistent(PathBuf::from(name))
            }
            None => Folder::Temporary(tempfile::Builder::new().prefix("linerate-field-").tempdir()?),
        };
        Ok(Self { folder, cpus, stop })
    }

    fn fill(&self) -> io::Result<()> {
        fs::create_dir_all(self.folder.path())?;
        let [switch, _] = self.cpus;
        // The other switches poll continuously, so these do as well.
        let busy = "[worker]\npolling = \"busy\"\n";
        let completion = format!("{busy}work = [{switch}]\n");
        let pipeline =
            format!("{busy}model = \"pipeline\"\nrx = [{switch}]\nwork = [{switch}]\ntx = [{switch}]\n");
        let stealing = format!("{busy}model = \"stealing\"\nwork = [{switch}]\n");
        let written = [
            ("completion.toml", completion.as_str()),
            ("pipeline.toml", pipeline.as_str()),
            ("stealing.toml", stealing.as_str()),
        ];
        SCRIPTS.iter().chain(&written).try_for_each(|(name, text)| fs::write(self.place(name), text))
    }

    fn place(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Arguments of the benchmark of this switch.
    fn arguments(&self, subject: Subject) -> Vec<String> {
        let [switch, generator] = self.cpus.map(|cpu| cpu.to_string());
        let mut arguments = flag("--cpu", generator);
        if subject.over() == Over::Interfaces {
            arguments.extend(TAPS.iter().flat_map(|tap| flag("--port", format!("kind=tap,interface={tap}"))));
        }
        if matches!(subject, Subject::Testpmd | Subject::OvsDpdk | Subject::OvsUserspace) {
            arguments.extend(flag("--switch-cpu", switch));
        }
        arguments.extend(self.switch(subject));
        arguments
    }

    /// Arguments that select the switch.
    fn switch(&self, subject: Subject) -> Vec<String> {
        let command = |name: &str, places: &str| {
            flag("--switch-command", format!("exec bash '{}' {places}", self.place(name).display()))
        };
        let workers = |name: &str| flag("--switch-workers", self.place(name).display().to_string());
        let packet = |tap: &&str| flag("--switch-port", format!("kind=af_packet,interface={tap}"));
        match subject {
            Subject::RunToCompletion => workers("completion.toml"),
            Subject::Pipeline => workers("pipeline.toml"),
            Subject::Stealing => workers("stealing.toml"),
            Subject::Inline => flag("--switch", "inline".to_owned()),
            Subject::Testpmd => command("testpmd.sh", "{cpu} {a} {b}"),
            Subject::OvsDpdk => command("ovs-dpdk.sh", "{cpu} {a} {b}"),
            Subject::OvsUserspace => command("ovs-tap.sh", "{cpu} {a} {b}"),
            Subject::LinuxBridge => command("linux-bridge.sh", "{a} {b}"),
            Subject::Interfaces => TAPS.iter().flat_map(packet).chain(workers("completion.toml")).collect(),
        }
    }

    fn start(&self, subject: Subject, rounds: u32, name: &str) -> io::Result<Child> {
        self.fill()?;
        let checkpoint = self.place(&format!("{name}.jsonl")).display().to_string();
        let output = File::create(self.place(&format!("{name}.json")))?;
        let errors = File::create(self.place(&format!("{name}.err")))?;
        let mut command = Command::new(std::env::current_exe()?.with_file_name("linerate"));
        command
            .arg("bench")
            .args(BENCH_OPTIONS)
            .args(self.arguments(subject))
            .args(["--rounds", &rounds.to_string()]);
        command.args(["--keep", &checkpoint, "--resume", "-o", "json"]);
        // A separate process group: a signal from the terminal stops only this process, which then stops the
        // benchmark.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command.stdin(Stdio::null()).stdout(output).stderr(errors).spawn()
    }

    /// Waits for the benchmark. Returns `None` if it was cancelled.
    fn wait(&self, mut child: Child) -> io::Result<Option<ExitStatus>> {
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
            if self.stop.load(Ordering::Relaxed) {
                if let Some(pid) = Pid::from_raw(child.id().cast_signed()) {
                    // Fails if the benchmark has just ended.
                    let _ = kill_process(pid, Signal::INT);
                }
                child.wait()?;
                return Ok(None);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    fn entry(&self, subject: Subject, name: &str, ended: Result<(), String>) -> Entry {
        let read = |suffix: &str| fs::read_to_string(self.place(&format!("{name}.{suffix}")));
        let results = read("json").ok().and_then(|text| serde_json::from_str::<Results>(&text).ok());
        let why = match ended {
            Err(why) => Some(why),
            Ok(()) if results.is_none() => Some("its benchmark printed nothing".to_owned()),
            Ok(()) => None,
        };
        Entry { subject, results, why, distances: Vec::new() }
    }

    /// The reason from the error output of a failed benchmark; otherwise its exit status.
    fn reason(&self, name: &str, status: ExitStatus) -> String {
        let text = fs::read_to_string(self.place(&format!("{name}.err"))).unwrap_or_default();
        reason_in(&text).unwrap_or_else(|| status.to_string())
    }
}

/// The reason of the last error that `linerate` printed, without its remedy.
fn reason_in(text: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let first = lines.iter().rposition(|line| line.starts_with("linerate: "))?;
    let reason = lines[first..].iter().map(|line| line.trim()).take_while(|line| !line.starts_with("remedy"));
    Some(reason.collect::<Vec<_>>().join(" "))
}

impl Benches for Comparison {
    fn bench(&mut self, subject: Subject, rounds: u32) -> Option<Entry> {
        let name = format!("{subject:?}").to_lowercase();
        let started = self.start(subject, rounds, &name).and_then(|child| self.wait(child));
        let ended = match started {
            Ok(None) => return None,
            Ok(Some(status)) if status.success() => Ok(()),
            Ok(Some(status)) => Err(self.reason(&name, status)),
            Err(error) => Err(error.to_string()),
        };
        Some(self.entry(subject, &name, ended))
    }

    fn distance(&mut self, limit: Option<f64>) -> Option<f64> {
        let began = Instant::now();
        loop {
            let found = distance::between(self.cpus)?;
            let enough = limit.is_none_or(|limit| found <= limit) || began.elapsed() > DISTANCE_TIMEOUT;
            if enough || self.stop.load(Ordering::Relaxed) {
                return Some(found);
            }
            std::thread::sleep(DISTANCE_INTERVAL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use console::Diagnostic;

    #[test]
    fn reason_of_a_printed_error_excludes_its_remedy() {
        let error =
            Diagnostic::failed("the switch", "it exited (exit status: 3)\n| no such card", "correct it");
        let (_, printed) = console::verdict("linerate", &error.into());
        let text = format!("throughput, size 64\n{}\n", printed.unwrap_or_default());
        let reason = reason_in(&text).unwrap_or_default();
        assert_eq!(reason, "linerate: the switch: it exited (exit status: 3) | no such card");
        assert_eq!(reason_in("throughput, size 64\n"), None);
    }
}
