//! The studies, and their cells.

use super::description::{DESCRIPTIONS, Description};
use serde::{Deserialize, Serialize};

/// A study.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Study {
    /// System calls of reads.
    Calls,
    /// Accept queues of several clients.
    Accept,
    /// Accept queues if one client is slow.
    Skew,
    /// Batches of the completion queue.
    Batch,
    /// Source ports and workers.
    Ports,
    /// Bodies with stored sums.
    Frames,
    /// Bodies by reference or by copy.
    Gather,
    /// A proxy by reference or by copy.
    Proxy,
    /// Number of connections.
    Connections,
    /// Threads of stack and application.
    Threads,
    /// Checksums by software.
    Checksum,
    /// Interfaces of the stack.
    Interfaces,
    /// Opening and closing beside data.
    Control,
    /// System calls of requests on sockets of the kernel.
    Sockets,
    /// The kernel's stack, and ours over TAP and over a ring.
    Transports,
    /// Large files past the page cache and through it.
    Storage,
    /// The stack in the application's process, or in the service.
    Grants,
    /// Latency of one connection by batch.
    Idle,
    /// A stream by copy, by reference and without offloads.
    Bulk,
}

/// A variant of a study at one point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Study.
    pub study: Study,
    /// Variant, one of [`Study::variants`].
    pub variant: &'static str,
    /// Position on the axis, in units of [`Study::axis`].
    pub at: u64,
}

impl Study {
    /// All studies.
    pub const ALL: [Study; 19] = [
        Study::Calls,
        Study::Accept,
        Study::Skew,
        Study::Batch,
        Study::Ports,
        Study::Frames,
        Study::Gather,
        Study::Proxy,
        Study::Connections,
        Study::Threads,
        Study::Checksum,
        Study::Interfaces,
        Study::Control,
        Study::Sockets,
        Study::Transports,
        Study::Storage,
        Study::Grants,
        Study::Idle,
        Study::Bulk,
    ];

    fn description(self) -> &'static Description {
        &DESCRIPTIONS[self as usize]
    }

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        self.description().name
    }

    /// Heading.
    pub fn title(self) -> &'static str {
        self.description().title
    }

    /// Measured quantity, and the expected direction.
    pub fn about(self) -> &'static str {
        self.description().about
    }

    /// Quantity of the varied points.
    pub fn axis(self) -> &'static str {
        self.description().axis
    }

    /// Unit of the values.
    pub fn unit(self) -> &'static str {
        self.description().unit
    }

    /// Whether a smaller value is better: a time, not a rate.
    pub fn is_cost(self) -> bool {
        !self.unit().ends_with("/s")
    }

    /// Names of the further values of a reading.
    pub fn more(self) -> &'static [&'static str] {
        self.description().more
    }

    /// Variants. Ratios are to the first one.
    pub fn variants(self) -> &'static [&'static str] {
        self.description().variants
    }

    /// Whether a reading uses both CPUs.
    pub fn is_parallel(self) -> bool {
        self.description().is_parallel
    }

    /// All cells with at most this number of connections.
    pub fn cells(self, connections: u64) -> Vec<Cell> {
        let is_wanted = |at: &&u64| self != Study::Connections || **at <= connections;
        let of = |at: &u64| {
            let at = *at;
            self.variants().iter().map(move |variant| Cell { study: self, variant, at }).collect::<Vec<_>>()
        };
        self.description().points.iter().filter(is_wanted).flat_map(of).collect()
    }
}
