//! `linerate guest`, our own driver, as a process, for tests of another switch.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::binary;
use crate::process::Process;

const END_TIMEOUT: Duration = Duration::from_secs(30);

/// A running guest.
pub struct Guest {
    process: Process,
    seconds: u32,
}

impl Guest {
    /// Starts a guest that runs for `seconds`. `side` is `--connect` or `--listen`.
    pub fn start(folder: &Path, name: &str, side: &str, socket: &Path, seconds: u32, more: &[&str]) -> Guest {
        let limit = format!("{seconds}s");
        let more = [&["--duration", &limit], more].concat();
        Guest { seconds, ..Guest::endless(folder, name, side, &[socket], &more) }
    }

    /// Starts a guest with one device at each of `sockets`, which runs until [`Guest::end`].
    pub fn endless(folder: &Path, name: &str, side: &str, sockets: &[&Path], more: &[&str]) -> Guest {
        let sockets: Vec<_> = sockets.iter().map(|socket| socket.display().to_string()).collect();
        let mut words = vec!["guest", "--wait", "-o", "json"];
        words.extend(sockets.iter().flat_map(|socket| [side, socket]));
        words.extend(more);
        Guest { process: Process::spawn(folder, name, binary::linerate(), &words), seconds: 0 }
    }

    /// Sends SIGSTOP, as if the guest hung.
    pub fn pause(&self) {
        let pid = rustix::process::Pid::from_raw(self.process.pid().cast_signed());
        let sent = pid.map(|pid| rustix::process::kill_process(pid, rustix::process::Signal::STOP));
        assert!(matches!(sent, Some(Ok(()))), "the guest cannot be stopped: {sent:?}");
    }

    /// Whether it has ended; an endless guest ends only if it fails.
    pub fn has_ended(&mut self) -> bool {
        self.process.ended().is_some()
    }

    /// Waits for its end. Returns the report of its only device, from the last JSON output.
    pub fn report(mut self) -> Value {
        let status = self.process.finish(Duration::from_secs(self.seconds.into()) + END_TIMEOUT);
        assert!(status.success(), "linerate guest ended with {status}: {}", self.process.output());
        self.devices().swap_remove(0)
    }

    /// Terminates it. Returns the report of each device.
    pub fn end(mut self) -> Vec<Value> {
        let status = self.process.terminate(END_TIMEOUT);
        assert!(status.success(), "linerate guest ended with {status}: {}", self.process.output());
        self.devices()
    }

    fn devices(&self) -> Vec<Value> {
        let output = self.process.output();
        // Notes may stand between the reports of guests that share a log.
        let start = output.rfind("\n{").or_else(|| output.find('{'));
        let start = start.unwrap_or_else(|| panic!("linerate guest printed no JSON: {output}"));
        let last = serde_json::Deserializer::from_str(&output[start..]).into_iter::<Value>().next();
        let last = last.and_then(Result::ok);
        let devices = last.and_then(|report| report["devices"].as_array().cloned()).unwrap_or_default();
        assert!(!devices.is_empty(), "linerate guest reported no device: {output}");
        devices
    }
}

/// A number in a device's report.
pub fn number(report: &Value, key: &str) -> u64 {
    report[key].as_u64().unwrap_or_else(|| panic!("no {key} in {report}"))
}
