//! Measures our guest and our switch together, and DPDK as both, with one CPU per side. Ours is `linerate demo` with
//! two ports; theirs is a loop over one port. The same number of frames circulates. A script (`loop.sh`) runs both and
//! prints the line of a round. For memif a script (`memif.sh`) connects DPDK's guest to both switches.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::Ring;
use super::round::Load;
use super::switches::ours;
use crate::command;

const SCRIPT: &str = concat!(include_str!("dpdk.sh"), include_str!("loop.sh"));
const MEMIF: &str = concat!(include_str!("dpdk.sh"), include_str!("memif.sh"));

/// The command of a round; the caller adds the common environment.
pub(super) fn command(ring: Ring) -> Command {
    let mut command = Command::new("bash");
    command.args(["-c", SCRIPT]).env("LINERATE", command::linerate());
    command.env("RING", ring.name()).env("OUR_RING", ours(ring));
    command
}

/// The command of a round over memif: both switches with DPDK's guest.
pub(super) fn memif(ring: Ring) -> Command {
    let mut command = Command::new("bash");
    command.args(["-c", MEMIF]).env("LINERATE", command::linerate());
    command.env("RING", ring.name());
    command
}

/// Load of the worker of `linerate demo`.
pub(super) fn load(folder: &Path) -> Option<Load> {
    let demo: Value = serde_json::from_str(&fs::read_to_string(folder.join("demo.json")).ok()?).ok()?;
    let number = |key: &str| demo["runs"][0][key].as_f64();
    Some(Load { cycles_per_packet: number("cycles_per_packet")?, empty_polls: number("empty_polls")? })
}
