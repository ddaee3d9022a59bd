//! What a process holds.

use std::fs;
use std::time::Duration;

use linerate_tests::process::anonymous_memory;
use linerate_tests::wait;
use serde_json::{Value, json};

/// Time for threads of requests to end and descriptors to be closed.
const SETTLE: Duration = Duration::from_millis(300);
const LIMIT: Duration = Duration::from_secs(10);
/// Time for open requests to end, and for the kernel to free what their threads had.
const IDLE: Duration = Duration::from_secs(20);
/// Mappings and bytes by which allocator and stacks of threads may differ from one state to the next.
const MAPPINGS: u64 = 16;
const BYTES: u64 = 4 << 20;

/// Descriptors, threads, mappings, and anonymous memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    descriptors: u64,
    threads: u64,
    mappings: u64,
    bytes: u64,
}

impl Held {
    pub(super) fn by(process: u32) -> Held {
        let count = |name: &str| fs::read_dir(format!("/proc/{process}/{name}")).map_or(0, Iterator::count);
        let counts = || (count("fd") as u64, count("task") as u64);
        let (descriptors, threads) = wait::settled(SETTLE, LIMIT, counts);
        let maps = fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
        Held { descriptors, threads, mappings: maps.lines().count() as u64, bytes: anonymous_memory(process) }
    }

    /// What a process holds. Waits if it holds more than `before`.
    pub(super) fn again(process: u32, before: Held) -> Held {
        let at_most = || {
            let held = Held::by(process);
            held.is_at_most(before).then_some(held)
        };
        wait::until(IDLE, at_most).unwrap_or_else(|| Held::by(process))
    }

    fn is_at_most(self, before: Held) -> bool {
        let is_same = self.descriptors == before.descriptors && self.threads <= before.threads;
        is_same && self.mappings <= before.mappings + MAPPINGS && self.bytes <= before.bytes + BYTES
    }

    pub(super) fn report(self) -> Value {
        let Held { descriptors, threads, mappings, bytes } = self;
        json!({ "descriptors": descriptors, "threads": threads, "mappings": mappings, "anonymous_bytes": bytes })
    }

    #[track_caller]
    pub(super) fn assert_not_above(self, before: Held) {
        assert!(self.is_at_most(before), "the switch has grown: {self:?}, after its warm-up {before:?}");
    }
}
