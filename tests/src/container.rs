//! A container in which Debian's systemd runs a script as a service (`container/boot.sh`).

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::need;

/// Seconds after which a container is killed.
const LIMIT: &str = "120";

/// Runs a shell script as root in a container that sees this machine's files, and `binds`: files and folders of this
/// machine, each with its path in the container. The script leaves results in `folder`, which is `/results` for it, and
/// a file `done` at its end.
///
/// Panics if the script does not reach its end.
pub fn run(folder: &Path, script: &str, binds: &[(&Path, &str)]) {
    need::root("a container");
    need::program("systemd-nspawn");
    fs::write(folder.join("steps.sh"), script).expect("a file of the test");
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", LIMIT, "unshare", "--mount", "bash", "-c"]);
    command.args([include_str!("container/boot.sh"), "boot.sh"]).arg(folder);
    command.args(binds.iter().map(|(from, to)| format!("--bind-ro={}:{to}", from.display())));
    let output = command.output().expect("timeout and unshare of Debian's essential packages");
    let said = [output.stdout, output.stderr].concat();
    let steps = fs::read_to_string(folder.join("steps.log")).unwrap_or_default();
    let has_ended = folder.join("done").exists();
    assert!(has_ended, "the script has not ended: {steps}\n{}", String::from_utf8_lossy(&said));
}
