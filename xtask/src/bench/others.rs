//! Our guest and our switch together, beside DPDK as both: what the whole loop makes, one CPU for each side. Ours is
//! `linerate demo` with two ports; theirs is a loop over one. The same number of frames circulates. A script
//! (`loop.sh`) does it and prints the line of a round. Over memif a script (`memif.sh`) plugs DPDK's guest into both switches.

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

/// One round, beside what the caller's rounds have in common.
pub(super) fn command(ring: Ring) -> Command {
    let mut command = Command::new("bash");
    command.args(["-c", SCRIPT]).env("LINERATE", command::linerate());
    command.env("RING", ring.name()).env("OUR_RING", ours(ring));
    command
}

/// One round over memif: both switches with the same guest of DPDK's.
pub(super) fn memif(ring: Ring) -> Command {
    let mut command = Command::new("bash");
    command.args(["-c", MEMIF]).env("LINERATE", command::linerate());
    command.env("RING", ring.name());
    command
}

/// How busy the worker of the demonstration was.
pub(super) fn load(folder: &Path) -> Option<Load> {
    let demo: Value = serde_json::from_str(&fs::read_to_string(folder.join("demo.json")).ok()?).ok()?;
    let number = |key: &str| demo["runs"][0][key].as_f64();
    Some(Load { cycles_per_packet: number("cycles_per_packet")?, empty_polls: number("empty_polls")? })
}
