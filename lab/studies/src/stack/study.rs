//! The studies: names, variants, and what is varied.

use serde::{Deserialize, Serialize};

/// A study.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Study {
    /// System calls of reads.
    Calls,
    /// Accept queues of several clients.
    Accept,
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
    pub const ALL: [Study; 12] = [
        Study::Calls,
        Study::Accept,
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
    ];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Study::Calls => "calls",
            Study::Accept => "accept",
            Study::Batch => "batch",
            Study::Ports => "ports",
            Study::Frames => "frames",
            Study::Gather => "gather",
            Study::Proxy => "proxy",
            Study::Connections => "connections",
            Study::Threads => "threads",
            Study::Checksum => "checksum",
            Study::Interfaces => "interfaces",
            Study::Control => "control",
        }
    }

    /// Heading.
    pub fn title(self) -> &'static str {
        match self {
            Study::Calls => "System calls per request",
            Study::Accept => "Accept queues",
            Study::Batch => "Batches of the completion queue",
            Study::Ports => "Source ports that keep a connection on its worker",
            Study::Frames => "Bodies with stored checksum sums",
            Study::Gather => "Bodies by reference and by copy",
            Study::Proxy => "Proxy by reference and by copy",
            Study::Connections => "Cost by number of connections",
            Study::Threads => "Thread models",
            Study::Checksum => "Cost of checksums",
            Study::Interfaces => "Interfaces of the stack",
            Study::Control => "Opening and closing beside data",
        }
    }

    /// Measured quantity, and the expected direction.
    pub fn about(self) -> &'static str {
        match self {
            Study::Calls => {
                "Reads of a file in the page cache, by pread(2) and by io_uring with one call for 32 reads. Expected: the \
                 difference is largest for small reads."
            }
            Study::Accept => {
                "Clients of the service accept connections of one request each. Variants are the accept policies: one \
                 queue, queues filled in turn, and own queues with stealing. Expected: the difference grows with the \
                 number of clients."
            }
            Study::Batch => {
                "An echo server on callbacks, and on the completion queue with batches of 1 to 64. Expected: the gain of \
                 batches falls as connections carry more messages."
            }
            Study::Ports => {
                "Two workers at both ends. Clients choose random source ports, or ports whose replies arrive at their own \
                 worker. Expected: without segments that change the worker, the rate is higher."
            }
            Study::Frames => {
                "The HTTP server sends a file from memory with stored sums, or sums each packet. The port has no offloads. \
                 Expected: the ratio grows with the file until other costs are small."
            }
            Study::Gather => {
                "The HTTP server sends a file from memory by reference, or copies it for each response. Expected: a copy \
                 costs less below some size, and more above it."
            }
            Study::Proxy => {
                "A proxy forwards messages in the buffers in which they arrived, or in copies. Expected: references cost \
                 less above some size."
            }
            Study::Connections => {
                "An echo server with one request on its way on each connection. Expected: the cost grows when the state of \
                 all connections exceeds a cache."
            }
            Study::Threads => {
                "An echo server with stack and application on one thread (unified), on two CPUs (split; the application \
                 shares the client's CPU), and on two threads of one CPU (merge). Expected: unified before the others."
            }
            Study::Checksum => {
                "An echo server over a port that validates and computes checksums, and over one that does not. The \
                 difference is the share of the checksums."
            }
            Study::Interfaces => {
                "One echo server on events, tokens and futures over vhost-user, and on tokens over sockets of the kernel. \
                 Over the kernel, the server's calls include the work for the receiver on the loopback interface."
            }
            Study::Control => {
                "A client of the service answers requests, while another one does nothing, attaches and detaches, or opens \
                 connections that are refused. Expected: a slow path on its own thread keeps the longest round short. \
                 Threads share the CPUs, so the rate also falls by the CPU time of the other client."
            }
        }
    }

    /// Quantity of the varied points.
    pub fn axis(self) -> &'static str {
        match self {
            Study::Calls
            | Study::Frames
            | Study::Gather
            | Study::Proxy
            | Study::Checksum
            | Study::Interfaces => "bytes",
            Study::Accept | Study::Control => "clients",
            Study::Ports => "workers",
            Study::Batch => "messages a connection",
            Study::Connections | Study::Threads => "connections",
        }
    }

    /// Unit of the values.
    pub fn unit(self) -> &'static str {
        match self {
            Study::Calls => "ns/read",
            Study::Accept => "connections/s",
            Study::Ports | Study::Threads | Study::Control => "requests/s",
            Study::Proxy => "ns/message",
            _ => "ns/request",
        }
    }

    /// Whether a smaller value is better.
    pub fn is_cost(self) -> bool {
        !matches!(self, Study::Accept | Study::Ports | Study::Threads | Study::Control)
    }

    /// Names of the further values of a reading.
    pub fn more(self) -> &'static [&'static str] {
        match self {
            Study::Calls => &["calls/read"],
            Study::Accept => &["largest share"],
            Study::Ports => &["share that changes"],
            Study::Threads => &["p50 us", "p99 us"],
            Study::Control => &["operations/s", "longest round us"],
            _ => &[],
        }
    }

    /// Variants. Ratios are to the first one.
    pub fn variants(self) -> &'static [&'static str] {
        match self {
            Study::Calls => &["pread", "io_uring"],
            Study::Accept => &["locked", "round-robin", "own-stealing"],
            Study::Batch => &["callbacks", "1", "4", "16", "64"],
            Study::Ports => &["random", "home"],
            Study::Frames => &["summed-per-packet", "stored-sums"],
            Study::Gather | Study::Proxy => &["copy", "reference"],
            Study::Connections => &["echo"],
            Study::Threads => &["unified", "split", "merge"],
            Study::Checksum => &["offloaded", "software"],
            Study::Interfaces => &["events", "tokens", "futures", "kernel"],
            Study::Control => &["nothing", "attach", "open"],
        }
    }

    /// Whether a reading uses both CPUs.
    pub fn is_parallel(self) -> bool {
        matches!(self, Study::Accept | Study::Ports | Study::Threads | Study::Control)
    }

    fn points(self) -> &'static [u64] {
        match self {
            Study::Calls => &[512, 4_096, 16_384, 65_536],
            Study::Accept => &[1, 2, 4],
            Study::Batch => &[1, 2, 8, 32, 128],
            Study::Ports => &[2],
            Study::Frames | Study::Gather => &[64, 256, 1_024, 4_096, 16_384, 65_536, 262_144],
            Study::Proxy => &[64, 256, 1_024, 4_096, 16_384, 65_536],
            Study::Connections => &[10, 1_000, 10_000, 100_000, 1_000_000],
            Study::Threads => &[1, 16, 64],
            // Up to one segment, so that no segmentation offload takes part.
            Study::Checksum => &[1, 64, 512, 1_448],
            Study::Interfaces => &[64],
            // The other client.
            Study::Control => &[1],
        }
    }

    /// All cells with at most this number of connections.
    pub fn cells(self, connections: u64) -> Vec<Cell> {
        let is_wanted = |at: &&u64| self != Study::Connections || **at <= connections;
        let of = |at: &u64| {
            let at = *at;
            self.variants().iter().map(move |variant| Cell { study: self, variant, at }).collect::<Vec<_>>()
        };
        self.points().iter().filter(is_wanted).flat_map(of).collect()
    }
}
