//! Environment of a benchmark: properties that affect its figures besides the switch.

use crate::{CpuSet, Environment};
use measure::Processor;
use std::fs;
use std::time::SystemTime;

/// Collects the current environment.
pub fn here(used: CpuSet) -> Environment {
    let processor = Processor::here();
    let read = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let kernel =
        ["/proc/sys/kernel/ostype", "/proc/sys/kernel/osrelease"].map(|path| read(path).unwrap_or_default());
    let cpu = used.switch.or(used.generator).unwrap_or(0);
    let governor = read(&format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"));
    let load = read("/proc/loadavg").and_then(|text| text.split_whitespace().next()?.parse().ok());
    Environment {
        build: measure::build_here!(),
        virtual_machine: processor.has("hypervisor"),
        processor: processor.name,
        cpus: measure::pinning::allowed().map_or(0, |cpus| cpus.len()),
        used,
        kernel: kernel.join(" "),
        governor,
        command: std::env::args().collect(),
        date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        load,
    }
}
