//! Runs the binary: one command, or a switch in a temporary directory.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub(crate) fn linerate(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
    command.args(arguments).env_remove("LINERATE_CONTROL");
    command
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Parses the JSON output of a successful command.
pub(crate) fn json(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{}", stderr(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A temporary directory with a configuration, and its running switch.
pub(crate) struct Switch {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) child: Option<Child>,
}

impl Switch {
    pub(crate) fn start() -> Self {
        Self::start_with("")
    }

    /// Starts a switch with these lines in `[switch]`.
    pub(crate) fn start_with(lines: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        let text = format!(
            "[switch]\ncontrol = \"{}\"\n{lines}\n[[port]]\nname = \"a\"\nsocket = \"{}\"\n",
            path("c.sock"),
            path("a.sock")
        );
        fs::write(dir.path().join("switch.toml"), text).unwrap();
        let mut switch = Self { dir, child: None };
        switch.child = Some(switch.run());
        switch.wait_until(|switch| switch.control().exists());
        switch
    }

    pub(crate) fn run(&self) -> Child {
        command(&["run", &self.path("switch.toml")]).stderr(Stdio::piped()).spawn().unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    pub(crate) fn control(&self) -> PathBuf {
        self.dir.path().join("c.sock")
    }

    pub(crate) fn ask(&self, arguments: &[&str]) -> Output {
        linerate(&[&["--control", &self.path("c.sock")], arguments].concat())
    }

    /// Waits until `condition` is true. Panics after a timeout.
    pub(crate) fn wait_until(&self, condition: impl Fn(&Self) -> bool) {
        let until = Instant::now() + Duration::from_secs(30);
        while !condition(self) {
            assert!(Instant::now() < until, "nothing happened");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    pub(crate) fn ended(&mut self) -> Output {
        self.child.take().unwrap().wait_with_output().unwrap()
    }

    pub(crate) fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir.path()).unwrap();
        let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Whether the process has installed a handler of SIGINT.
pub(crate) fn catches_interrupts(child: &Child) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 0b10 != 0)
}
