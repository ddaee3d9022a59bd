//! Description of each study: subjects, parameters and measurements.

use super::study::Study;

/// Description of a study.
#[derive(Clone, Copy, Debug)]
pub(super) struct Description {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// Measured quantity, and the expected direction.
    pub(super) about: &'static str,
    /// The first one is the base of ratios.
    pub(super) variants: &'static [&'static str],
    /// Quantity of `points`.
    pub(super) axis: &'static str,
    pub(super) points: &'static [u64],
    pub(super) unit: &'static str,
    /// Names of further values.
    pub(super) more: &'static [&'static str],
    /// Whether a reading uses both CPUs.
    pub(super) is_parallel: bool,
}

/// Most studies compare the cost of a request by size on one CPU.
const COST: Description = Description {
    name: "",
    title: "",
    about: "",
    variants: &[],
    axis: "bytes",
    points: &[],
    unit: "ns/request",
    more: &[],
    is_parallel: false,
};

/// Others compare rates of servers with several threads.
const RATE: Description = Description { unit: "requests/s", is_parallel: true, ..COST };

/// The descriptions, in the order of [`Study::ALL`].
pub(super) static DESCRIPTIONS: [Description; Study::ALL.len()] = [
    Description {
        name: "calls",
        title: "System calls per request",
        about: "Reads of a file in the page cache, by pread(2) and by io_uring with one call for 32 reads. Expected: \
                the difference is largest for small reads.",
        variants: &["pread", "io_uring"],
        points: &[512, 4_096, 16_384, 65_536],
        unit: "ns/read",
        more: &["calls/read"],
        ..COST
    },
    Description {
        name: "accept",
        title: "Accept queues",
        about: "Clients of the service accept connections of one request each. Variants are the accept policies: one \
                queue, queues filled in turn, and own queues with stealing. Expected: the difference grows with the \
                number of clients.",
        variants: &["locked", "round-robin", "own-stealing"],
        axis: "clients",
        points: &[1, 2, 4],
        unit: "connections/s",
        more: &["largest share"],
        ..RATE
    },
    Description {
        name: "skew",
        title: "Accept queues with a slow client",
        about: "As before, and the first client sleeps for 200 us before each reply. Expected: queues that are filled in \
                turn are as slow as that client, and with stealing the others take what it leaves.",
        variants: &["round-robin", "own-stealing"],
        axis: "clients",
        points: &[2, 4],
        unit: "connections/s",
        more: &["largest share"],
        ..RATE
    },
    Description {
        name: "batch",
        title: "Batches of the completion queue",
        about: "An echo server on callbacks, and on the completion queue with batches of 1 to 64. Expected: the gain \
                of batches falls as connections carry more messages.",
        variants: &["callbacks", "1", "4", "16", "64"],
        axis: "messages a connection",
        points: &[1, 2, 8, 32, 128],
        ..COST
    },
    Description {
        name: "ports",
        title: "Source ports that keep a connection on its worker",
        about: "Two workers at both ends. Clients choose random source ports, or ports whose replies arrive at their \
                own worker. Expected: without segments that change the worker, the rate is higher.",
        variants: &["random", "home"],
        axis: "workers",
        points: &[2],
        more: &["share that changes"],
        ..RATE
    },
    Description {
        name: "frames",
        title: "Bodies with stored checksum sums",
        about: "The HTTP server sends a file from memory with stored sums, or sums each packet. The port has no \
                offloads. Expected: the ratio grows with the file until other costs are small.",
        variants: &["summed-per-packet", "stored-sums"],
        points: &[64, 256, 1_024, 4_096, 16_384, 65_536, 262_144],
        ..COST
    },
    Description {
        name: "gather",
        title: "Bodies by reference and by copy",
        about: "The HTTP server sends a file from memory by reference, or copies it for each response. Expected: a \
                copy costs less below some size, and more above it.",
        variants: &["copy", "reference"],
        points: &[64, 256, 1_024, 4_096, 16_384, 65_536, 262_144],
        ..COST
    },
    Description {
        name: "proxy",
        title: "Proxy by reference and by copy",
        about: "A proxy forwards messages in the buffers in which they arrived, or in copies. Expected: references \
                cost less above some size.",
        variants: &["copy", "reference"],
        points: &[64, 256, 1_024, 4_096, 16_384, 65_536],
        unit: "ns/message",
        ..COST
    },
    Description {
        name: "connections",
        title: "Cost by number of connections",
        about: "An echo server with one request on its way on each connection. The wide one also writes 16 cache lines \
                of its own for each request. Expected: the cost grows when the state of all connections exceeds a \
                cache, and more so with more state.",
        variants: &["echo", "wide"],
        axis: "connections",
        points: &[10, 1_000, 10_000, 100_000, 1_000_000],
        ..COST
    },
    Description {
        name: "threads",
        title: "Thread models",
        about: "An echo server with stack and application on one thread (unified), on two CPUs (split; the \
                application shares the client's CPU), and on two threads of one CPU (merge). Expected: unified \
                before the others.",
        variants: &["unified", "split", "merge"],
        axis: "connections",
        points: &[1, 16, 64],
        more: &["p50 us", "p99 us"],
        ..RATE
    },
    Description {
        name: "checksum",
        title: "Cost of checksums",
        about: "An echo server over a port that validates and computes checksums, and over one that does not. The \
                difference is the share of the checksums.",
        variants: &["offloaded", "software"],
        // Up to one segment, so that no segmentation offload takes part.
        points: &[1, 64, 512, 1_448],
        ..COST
    },
    Description {
        name: "interfaces",
        title: "Interfaces of the stack",
        about: "One echo server on events, tokens and futures over vhost-user, and on tokens over sockets of the \
                kernel. Over the kernel, the server's calls include the work for the receiver on the loopback \
                interface.",
        variants: &["events", "tokens", "futures", "kernel"],
        points: &[64],
        ..COST
    },
    Description {
        name: "control",
        title: "Opening and closing beside data",
        about: "A client of the service answers requests, while another one does nothing, attaches and detaches, or \
                opens connections that are refused. Expected: a slow path on its own thread keeps the longest round \
                short. Threads share the CPUs, so the rate also falls by the CPU time of the other client.",
        variants: &["nothing", "attach", "open"],
        axis: "clients",
        // The other client.
        points: &[1],
        more: &["operations/s", "longest round us"],
        ..RATE
    },
    Description {
        name: "sockets",
        title: "Requests on sockets of the kernel",
        about: "Requests on 16 connections of the kernel's loopback interface, answered with epoll and a system call \
                for each message, by io_uring, and by io_uring with a kernel thread on the second CPU (SQPOLL). \
                Times are those of server and client. Expected: the thread needs almost no calls; the difference is \
                largest for small messages.",
        variants: &["calls", "io_uring", "sqpoll"],
        points: &[64, 1_024, 16_384],
        more: &["calls/request"],
        is_parallel: true,
        ..COST
    },
    Description {
        name: "transports",
        title: "The kernel's stack, and ours over TAP and over a ring",
        about: "One echo server on tokens: over sockets of the kernel, over this stack on a TAP interface with the \
                kernel as client, and over this stack on a vhost-user port. TAP replaces the kernel's socket \
                interface and its protocol, and keeps one passage of the kernel per frame; the ring has none. \
                Over the first two, the server's calls include the kernel's work for the client. Expected: the ring \
                costs least. TAP needs root.",
        variants: &["kernel", "tap", "ring"],
        points: &[64, 1_024],
        more: &["frames/request"],
        ..COST
    },
    Description {
        name: "storage",
        title: "Files past the page cache and through it",
        about: "The HTTP server sends one large file, which it reads by pread(2), by io_uring through the page cache, \
                and by io_uring into send buffers past it (O_DIRECT). The file is in the page cache or not. \
                Expected: direct reads have the same rate in both cases, and leave the page cache as it is. The \
                file is in the folder for temporary files (TMPDIR).",
        variants: &["copy", "cached", "direct"],
        axis: "percent cached",
        points: &[0, 100],
        unit: "MB/s",
        more: &["percent cached after"],
        ..COST
    },
    Description {
        name: "grants",
        title: "The stack in the process of the application",
        about: "An echo server that is a client of the service, and one with a stack of its own over a granted port. \
                At the end of each reading the grant is revoked, and the application must end with that reason; the \
                time is that of its end. Expected: the rate is higher without the service.",
        variants: &["service", "application"],
        axis: "connections",
        points: &[4],
        more: &["stop us"],
        ..RATE
    },
    Description {
        name: "idle",
        title: "Latency of one connection by batch",
        about: "Round trips to an echo server on the completion queue with batches of at most 1 to 64, without other \
                load. Values are 99th percentiles. Expected: no difference, because a batch does not wait until it \
                is full.",
        variants: &["1", "4", "16", "64"],
        axis: "connections",
        points: &[1],
        unit: "p99 ns",
        more: &["p50 ns", "completions/batch"],
        ..COST
    },
    Description {
        name: "bulk",
        title: "A stream by copy, by reference and without offloads",
        about: "The sender of one stream passes data to its stack by copy or by reference, over a port with \
                segmentation and checksum offloads, and by reference over one without. Each piece is a buffer of its \
                own, so small copies are not joined. Expected: a copy costs more above some size; without offloads \
                each segment is a frame, and costs more.",
        variants: &["copy", "reference", "no-offloads"],
        points: &[64, 1_024, 16_384, 65_536, 1_048_576],
        unit: "ns/KiB",
        more: &["frames/MiB"],
        ..COST
    },
];
