//! Our guest and our switch together, beside DPDK as both: what the whole loop makes, one CPU for each side. Ours is
//! `linerate demo` with two ports; theirs (`loop.sh`) is a loop over one. The same number of frames circulates.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use serde_json::Value;

use super::round::{Load, Reading};
use super::{PeersArguments, Ring};
use crate::command;

const THEIRS: &str = include_str!("loop.sh");
const SECONDS: &str = "4";

/// One reading of each.
pub(super) fn round(arguments: &PeersArguments, folder: &Path, ring: Ring, size: u16) -> Result<Reading> {
    let demo = demo(arguments, ring, size)?;
    let run = &demo["runs"][0];
    let number = |key: &str| run[key].as_f64();
    let load = number("cycles_per_packet").zip(number("empty_polls"));
    let load = load.map(|(cycles_per_packet, empty_polls)| Load { cycles_per_packet, empty_polls });
    Ok(Reading { ours: number("mpps"), theirs: theirs(arguments, folder, ring, size)?, load })
}

/// The demonstration takes the first allowed CPU for the switch and the second for the guests.
fn demo(arguments: &PeersArguments, ring: Ring, size: u16) -> Result<Value> {
    let mut demo = Command::new("taskset");
    demo.args(["--cpu-list", &format!("{},{}", arguments.host_cpu, arguments.guest_cpu)]);
    demo.arg(command::linerate()).args(["demo", "-o", "json", "--seconds", SECONDS, "--ring", ours(ring)]);
    demo.args(["--size", &size.to_string()]);
    serde_json::from_str(&command::output(&mut demo)?).context("the demonstration printed no JSON")
}

/// What our guest calls the ring.
fn ours(ring: Ring) -> &'static str {
    if ring == Ring::PackedVec { "packed-inorder" } else { ring.name() }
}

fn theirs(arguments: &PeersArguments, folder: &Path, ring: Ring, size: u16) -> Result<Option<f64>> {
    let log = fs::File::create(folder.join("loop.log")).context("no log file")?;
    let mut command = Command::new("bash");
    command.args(["-c", THEIRS]).env("PEERS", &arguments.peers).env("RING", ring.name());
    command.env("PKT", size.to_string()).env("RUN_DIR", folder).env("SECONDS_EACH", SECONDS);
    command.env("HOST_CPU", arguments.host_cpu.to_string()).env("GUEST_CPU", arguments.guest_cpu.to_string());
    let output = command.stdin(Stdio::null()).stderr(log).output().context("cannot run bash")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().parse().ok())
}
