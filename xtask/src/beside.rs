//! Another process of this program for the steps that run beside the end-to-end tests, at the lowest priority. Its output
//! goes to a file, and is printed once it has ended.

use std::cell::RefCell;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::command;
use crate::steps::Outcome;

/// The process, once started.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    arguments: Vec<&'static str>,
    child: RefCell<Option<Child>>,
}

impl Beside {
    /// A process with these arguments after `test`.
    pub(crate) fn new(arguments: Vec<&'static str>) -> Beside {
        Beside { arguments, child: RefCell::default() }
    }

    /// Starts the process.
    pub(crate) fn start(&self) -> Result<()> {
        let output = File::create(log()).with_context(|| format!("cannot write {}", log().display()))?;
        let program = std::env::current_exe().context("no path of this program")?;
        let child = Command::new("nice")
            .args(["-n", "19"])
            .arg(program)
            .arg("test")
            .args(&self.arguments)
            .current_dir(command::root())
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .context("cannot run nice")?;
        *self.child.borrow_mut() = Some(child);
        Ok(())
    }

    /// Waits for the process and prints its output.
    pub(crate) fn wait(&self) -> Result<Outcome> {
        let Some(mut child) = self.child.take() else { bail!("not started") };
        let status = child.wait()?;
        print!("{}", std::fs::read_to_string(log()).unwrap_or_default());
        if !status.success() {
            bail!("its steps are above");
        }
        Ok(Outcome::Passed)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if let Some(child) = self.child.get_mut() {
            // It may have ended.
            let _ = child.kill();
        }
    }
}

fn log() -> PathBuf {
    command::target().join("beside.log")
}
