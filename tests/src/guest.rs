//! `linerate guest`: our own driver as a process, for stories in which somebody else is the switch.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::binary;
use crate::process::Process;

const AFTER: Duration = Duration::from_secs(30);

/// A running guest.
pub struct Guest {
    process: Process,
    seconds: u32,
}

impl Guest {
    /// Starts a guest that runs for `seconds`. `side` is `--connect` or `--listen`.
    pub fn start(folder: &Path, name: &str, side: &str, socket: &Path, seconds: u32, more: &[&str]) -> Guest {
        let socket = socket.display().to_string();
        let limit = seconds.to_string();
        let mut words = vec!["guest", side, &socket, "--seconds", &limit, "-o", "json"];
        words.extend(more);
        Guest { process: Process::spawn(folder, name, binary::linerate(), &words), seconds }
    }

    /// Waits for its end and returns what it says about its only device, in the last JSON that it printed.
    pub fn report(mut self) -> Value {
        let status = self.process.finish(Duration::from_secs(self.seconds.into()) + AFTER);
        let output = self.process.output();
        assert!(status.success(), "linerate guest ended with {status}: {output}");
        let start = output.find('{').unwrap_or_else(|| panic!("linerate guest printed no JSON: {output}"));
        let mut values = serde_json::Deserializer::from_str(&output[start..]).into_iter::<Value>();
        let last = values.by_ref().map_while(Result::ok).last();
        let device = last.and_then(|report| report["devices"].get(0).cloned());
        device.unwrap_or_else(|| panic!("linerate guest reported no device: {output}"))
    }
}
