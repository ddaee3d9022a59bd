//! Packets between ports of a switch that is replaced: an echo stream through the TAP ports, and frames between two
//! guests. Both tell whether packets were lost, and the guests whether the switch closed a connection.

use std::collections::BTreeSet;
use std::fs;

use linerate_tests::binary;
use linerate_tests::process::Process;
use linerate_tests::switch::Switch;
use linerate_tests::wait;
use serde_json::Value;

use super::super::super::{LIMIT, Lab};

/// Ports of the frames.
pub(super) const GUESTS: [&str; 2] = ["left", "right"];

/// Running streams.
pub(super) struct Streams {
    echo: Process,
    frames: Process,
    /// Bytes of both logs that are of earlier streams.
    before: [usize; 2],
    connections: BTreeSet<String>,
}

impl Streams {
    pub(super) fn start(lab: &Lab, switch: &Switch) -> Streams {
        let folder = lab.folder.path();
        let echo = lab.ends[0].spawn(folder, "echo", "ping", &["-n", "-i", "0.01", "10.0.0.2"]);
        let ports = GUESTS.map(|name| format!("kind=virtio-user,socket={}", folder.join(name).display()));
        let words = ["gen", "--port", &ports[0], "--port", &ports[1], "-o", "json", "--no-baseline"];
        // A ring has place for the frames of a second, in which another program may use the CPU.
        let load = ["--warm-up", "0s", "--rate", "1kpps", "--duration", "3s"];
        let frames = Process::spawn(folder, "frames", binary::linerate(), &[&words[..], &load].concat());
        let before = [echo.output().len(), frames.output().len()];
        for name in GUESTS {
            switch.wait_running(name, 1, LIMIT);
        }
        let connections = sockets(frames.pid());
        assert!(!connections.is_empty(), "the generator has no sockets");
        Streams { echo, frames, before, connections }
    }

    /// Whether all frames were sent.
    pub(super) fn are_over(&mut self) -> bool {
        self.frames.ended().is_some()
    }

    /// Asserts that no connection was closed.
    #[track_caller]
    pub(super) fn unaware(&mut self, what: &str) {
        let now = sockets(self.frames.pid());
        // The generator closes its connections at its end.
        let are_same = now == self.connections
            || now.is_subset(&self.connections)
                && wait::until(LIMIT, || self.are_over().then_some(())).is_some();
        assert!(are_same, "{what}: {now:?}, before {:?}", self.connections);
    }

    /// Waits for the end of the frames, and ends the echo stream. Asserts that no packet was lost.
    #[track_caller]
    pub(super) fn complete(mut self, what: &str) {
        self.frames.finish(LIMIT);
        let output = self.frames.output().split_off(self.before[1]);
        let start = output.find("{\n").unwrap_or_else(|| panic!("{what}: no report: {output}"));
        let report = serde_json::Deserializer::from_str(&output[start..]).into_iter::<Value>().next();
        let report = report.and_then(Result::ok).unwrap_or_else(|| panic!("{what}: no report: {output}"));
        let sent = report["sent"].as_u64().unwrap_or_default();
        assert!(sent > 0 && report["lost"] == 0, "{what}: {report}");
        let number = |line: &str| line.split_once("icmp_seq=")?.1.split(' ').next()?.parse().ok();
        let echoes: Vec<u64> = self.echo.output()[self.before[0]..].lines().filter_map(number).collect();
        let missing: Vec<_> = echoes.windows(2).filter(|pair| pair[1] != pair[0] + 1).collect();
        assert!(!echoes.is_empty() && missing.is_empty(), "{what}: echoes {missing:?} are not in order");
    }
}

/// The sockets of a process.
fn sockets(process: u32) -> BTreeSet<String> {
    let files = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let targets = files.filter_map(|file| Some(fs::read_link(file.path()).ok()?.display().to_string()));
    targets.filter(|target| target.starts_with("socket:")).collect()
}
