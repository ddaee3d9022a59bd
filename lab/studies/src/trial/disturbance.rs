//! Detects disturbances of a slice: time stolen by a hypervisor, and involuntary context switches.
//!
//! Stolen time is reported in ticks of 10 ms, so shorter thefts may be missed; intervals over many blocks tolerate
//! that.

use crate::slice::Watch;

/// Disturbances of a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disturbance {
    /// Stolen time in ticks of `/proc/stat`
    pub ticks: u64,
    /// Involuntary context switches
    pub switches: u64,
}

impl Disturbance {
    /// Sum of both.
    #[must_use]
    pub fn plus(self, other: Disturbance) -> Disturbance {
        Disturbance { ticks: self.ticks + other.ticks, switches: self.switches + other.switches }
    }
}

/// Returns the ticks stolen from these CPUs since boot.
pub fn stolen(cpus: &[usize]) -> u64 {
    stolen_in(&std::fs::read_to_string("/proc/stat").unwrap_or_default(), cpus)
}

/// Same, from the text of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal.
fn stolen_in(text: &str, cpus: &[usize]) -> u64 {
    let one = |line: &str| {
        let mut words = line.split_whitespace();
        let cpu: usize = words.next()?.strip_prefix("cpu")?.parse().ok()?;
        cpus.contains(&cpu).then(|| words.nth(7)?.parse::<u64>().ok())?
    };
    text.lines().filter_map(one).sum()
}

/// Counts involuntary context switches of the thread that it is used in.
#[derive(Clone, Copy, Debug, Default)]
pub struct SwitchCounter {
    before: u64,
    after: u64,
}

impl Watch for SwitchCounter {
    fn begin(&mut self) {
        self.before = involuntary();
    }

    fn end(&mut self) {
        self.after = involuntary();
    }
}

impl SwitchCounter {
    /// Involuntary context switches between `begin` and `end`.
    pub fn switches(&self) -> u64 {
        self.after.saturating_sub(self.before)
    }
}

/// Returns the involuntary context switches of the calling thread so far.
fn involuntary() -> u64 {
    involuntary_in(&std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default())
}

fn involuntary_in(text: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_time_stolen_from_the_cpus_in_use_counts() {
        let text = "cpu  1 2 3 4 5 6 7 99 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\ncpu1 1 1 1 1 1 1 1 30 0 0\n\
                    cpu2 1 1 1 1 1 1 1 500 0 0\nintr 5\n";
        assert_eq!(stolen_in(text, &[0, 1]), 38);
        assert_eq!(stolen_in("cpu0 1 2\n", &[0]), 0);
    }

    #[test]
    fn involuntary_switches_are_not_the_voluntary_ones() {
        let text = "voluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t12\n";
        assert_eq!(involuntary_in(text), 12);
    }
}
