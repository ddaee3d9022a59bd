//! Figures that the systems' authors published, for comparison by the reader. They were measured on other machines,
//! with other programs; they enter no analysis.

use super::study::Study;

/// A published figure.
#[derive(Clone, Copy, Debug)]
pub struct Published {
    /// Study of the same mechanism.
    pub study: Study,
    /// System and year.
    pub system: &'static str,
    /// Figure, as published.
    pub figure: &'static str,
    /// Conditions.
    pub conditions: &'static str,
    /// Variant of the study, and its published ratio to the first variant in the study's unit, if the publication has
    /// both.
    pub ratio: Option<(&'static str, f64)>,
}

const fn figure(
    study: Study,
    system: &'static str,
    figure: &'static str,
    conditions: &'static str,
) -> Published {
    Published { study, system, figure, conditions, ratio: None }
}

const fn ratio(published: Published, variant: &'static str, ratio: f64) -> Published {
    Published { ratio: Some((variant, ratio)), ..published }
}

const IIP: &str = "iip (2023)";
const ONE_BYTE: &str = "1 byte, 32 connections, one server core, 100 GbE; read off a plot";
const TWO_CORES: &str = "two server cores, 100 GbE";

/// All published figures.
pub const PUBLISHED: [Published; 23] = [
    figure(
        Study::Calls,
        "FlexSC (2010)",
        "Apache up to +116 %, MySQL +40 %, BIND +105 %",
        "calls by a shared page",
    ),
    figure(
        Study::Accept,
        "Affinity-Accept (2012)",
        "time in the stack -30 %, rate +24 %",
        "Apache, 48 cores",
    ),
    figure(
        Study::Skew,
        "Affinity-Accept (2012)",
        "five own connections for each one stolen from a queue that is 75 % full",
        "Apache, 48 cores",
    ),
    figure(
        Study::Batch,
        "MegaPipe (2012)",
        "long connections +29 %, short ones +582 %",
        "64 bytes, 8 cores, over the kernel's TCP",
    ),
    figure(
        Study::Batch,
        "mTCP (2014)",
        "25 times Linux, 3 times the best before",
        "small transactions, 8 cores",
    ),
    figure(
        Study::Ports,
        "Fastsocket (2016)",
        "nginx +267 %, HAProxy +621 %; 20.4 times with 24 cores",
        "the kernel's TCP with local tables and ports that encode the core",
    ),
    figure(Study::Frames, "Sandstorm (2014)", "2 to 10 times nginx", "ready-made frames, 6 x 10 GbE"),
    ratio(figure(Study::Gather, IIP, "2.9 Mrps by reference, 3.3 by copy", ONE_BYTE), "reference", 3.3 / 2.9),
    figure(
        Study::Gather,
        IIP,
        "94 Gbit/s by reference; by copy 92 (63 KB), 85 (2 MB), 74 (20 MB), 66 (40 MB)",
        "one stream on one core, 100 GbE",
    ),
    figure(Study::Proxy, "zIO (2022)", "1.8 times Linux, 17 % over mmap", "copies in programs avoided"),
    figure(Study::Connections, "TAS (2019)", "128 bytes of state a flow", "fast path on cores of its own"),
    figure(Study::Threads, IIP, "unified: 4.4 Mrps, p99 5.1 us when idle", TWO_CORES),
    ratio(
        figure(Study::Threads, IIP, "split: 1.2 Mrps, p99 6.6 us when idle", TWO_CORES),
        "split",
        1.2 / 4.4,
    ),
    ratio(
        figure(Study::Threads, IIP, "merge: 1.34 Mrps, p99 9.5 us when idle", TWO_CORES),
        "merge",
        1.34 / 4.4,
    ),
    ratio(
        figure(Study::Checksum, IIP, "2.9 Mrps with checksum offload, 2.2 without", ONE_BYTE),
        "software",
        2.9 / 2.2,
    ),
    figure(
        Study::Interfaces,
        "StackMap (2016)",
        "latency -4 to -78 %, rate +42 to +133 %",
        "small transactions; the kernel's TCP without its socket interface",
    ),
    figure(
        Study::Control,
        "TAS (2019), by the authors of iip",
        "1.63 Mrps, p99 27 us; unified stack on one core: 2.89 Mrps, 15 us",
        "1 byte; slow path, fast path and application on three cores, no connection is opened meanwhile",
    ),
    figure(
        Study::Sockets,
        "FlexSC (2010)",
        "Apache up to +116 %, MySQL +40 %, BIND +105 %",
        "calls by a shared page, which kernel threads run",
    ),
    figure(
        Study::Transports,
        "StackMap (2016)",
        "latency -4 to -78 %, rate +42 to +133 %",
        "small transactions; the kernel's TCP without its socket interface",
    ),
    figure(
        Study::Storage,
        "Atlas (2017)",
        "72 Gbit/s plain or TLS; +15 and +50 % over tuned FreeBSD, with half the cores",
        "NVMe reads into packet buffers, driven by acknowledgements; 2 x 40 GbE",
    ),
    figure(
        Study::Grants,
        "Arrakis (2014)",
        "latency 2 to 5 times better, rate 9 times",
        "NoSQL store on granted SR-IOV queues, beside Linux",
    ),
    figure(
        Study::Idle,
        "IX (2014)",
        "key-value store up to 6.4 times Linux, tail latency under half",
        "batches of at most 64, which do not wait",
    ),
    figure(
        Study::Bulk,
        IIP,
        "94 Gbit/s; without segmentation offload 53, without checksum offload either 9.5",
        "one stream on one core, 63 KB to 40 MB, 100 GbE",
    ),
];
