//! `cargo xtask bench peers`: measures our switch and others in turn, on the same machine, within minutes and with the
//! same guest; only the ratio of two such readings is meaningful.

mod distance;
mod guests;
mod neighbours;
mod net;
mod others;
mod picture;
mod progress;
mod report;
mod rings;
mod round;
mod rounds;
mod scale;
mod sixtyfour;
mod switches;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::command;
use crate::hugepages::HugePages;
use crate::packages;
pub(crate) use guests::{GuestsArguments, guests};
pub(crate) use neighbours::{NeighboursArguments, neighbours};
pub(crate) use net::{NetArguments, net};
use picture::Bar;
use progress::Progress;
use report::Row;
pub(crate) use rings::{RingsArguments, rings};
use round::Bench;
pub(crate) use scale::{ScaleArguments, scale};
pub(crate) use sixtyfour::{SixtyFourArguments, sixtyfour};

const HUGE_PAGES: u64 = 1024;

/// Measurement parameters.
#[derive(Args, Clone, Debug)]
pub(crate) struct PeersArguments {
    /// Number of rounds; the result is the median
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Rings of the guest [default: split and packed-vec]
    #[arg(long = "ring", value_enum)]
    rings: Vec<Ring>,
    /// Guest that is connected to every switch
    #[arg(long, value_enum, default_value_t)]
    guest: Guest,
    /// Frame sizes in bytes, without checksum [default: 64 and 1514]; with our guest also `mix`
    #[arg(long = "size", value_name = "BYTES", value_parser = size)]
    sizes: Vec<String>,
    /// Switches to compare with [default: all]
    #[arg(long = "peer", value_enum)]
    against: Vec<Peer>,
    /// CPU of the switches
    #[arg(long, default_value_t = 0)]
    host_cpu: usize,
    /// CPU of the guest
    #[arg(long, default_value_t = 1)]
    guest_cpu: usize,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    /// Also draw the ratios and their targets into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// The guest's ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Ring {
    /// Split ring, as used by most virtual machines
    Split,
    /// Split ring with in-order use
    SplitInorder,
    /// Packed ring
    Packed,
    /// Packed ring with in-order use, with DPDK's vectorised driver
    PackedVec,
    /// memif instead of virtqueues, between DPDK's driver and memif servers of either switch
    Memif,
    /// memif with a zero-copy guest
    MemifZeroCopy,
}

/// The other switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Peer {
    /// DPDK's vhost library, forwarding port to port without look-up
    Testpmd,
    /// Open vSwitch with DPDK, as a learning switch
    Ovs,
    /// DPDK as guest and switch over one port, compared with our guest and our switch
    TestpmdLoop,
}

/// The guest that is connected to every switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Guest {
    /// DPDK's testpmd over virtio-user, which saturates at about 16 Mpps
    #[default]
    Dpdk,
    /// `linerate guest`
    Own,
}

impl Guest {
    fn name(self) -> &'static str {
        match self {
            Guest::Dpdk => "dpdk",
            Guest::Own => "own",
        }
    }
}

/// Parses a frame size as `linerate guest` does.
fn size(text: &str) -> Result<String, String> {
    let is_size = text == "mix" || text.parse::<u16>().is_ok_and(|bytes| (60..=2048).contains(&bytes));
    if is_size { Ok(text.to_owned()) } else { Err("expected 60 to 2048 bytes, or `mix`".to_owned()) }
}

/// Output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Aligned text
    #[default]
    Table,
    /// JSON
    Json,
}

impl Ring {
    fn name(self) -> &'static str {
        match self {
            Ring::Split => "split",
            Ring::SplitInorder => "split-inorder",
            Ring::Packed => "packed",
            Ring::PackedVec => "packed-vec",
            Ring::Memif => "memif",
            Ring::MemifZeroCopy => "memif-zero-copy",
        }
    }

    fn is_memif(self) -> bool {
        matches!(self, Ring::Memif | Ring::MemifZeroCopy)
    }
}

impl Peer {
    fn name(self) -> &'static str {
        match self {
            Peer::Testpmd => "testpmd",
            Peer::Ovs => "ovs",
            Peer::TestpmdLoop => "testpmd-loop",
        }
    }
}

/// The target of the ratio. Returns `None` if there is none.
fn target(ring: Ring, size: u16, peer: Peer) -> Option<f64> {
    match (peer, size) {
        (Peer::Testpmd, 64 | 1514) if ring.is_memif() => Some(1.2),
        (Peer::TestpmdLoop, 64) if ring == Ring::Split => Some(2.0),
        (Peer::TestpmdLoop, 64) if ring == Ring::Packed || ring == Ring::PackedVec => Some(1.4),
        _ => None,
    }
}

/// Runs `peers` with memif rings by default.
pub(crate) fn memif(arguments: &PeersArguments) -> Result<()> {
    let mut arguments = arguments.clone();
    if arguments.rings.is_empty() {
        arguments.rings = vec![Ring::Memif, Ring::MemifZeroCopy];
    }
    peers(&arguments)
}

/// Measures all combinations and prints each round. At the end, or after an interruption, prints the table of the
/// readings so far.
pub(crate) fn peers(arguments: &PeersArguments) -> Result<()> {
    let arguments = completed(arguments.clone())?;
    packages::ensure(packages::PEERS)?;
    command::build_linerate()?;
    let switches::Measured { mut bars, rows: measured } = switches::run(&arguments, HUGE_PAGES)?;
    if combinations(&arguments).next().is_none() {
        print_json(&arguments, measured);
        return draw(&arguments, &bars);
    }
    let bench = Bench::new(&arguments)?;
    let progress = Progress::new(combinations(&arguments).count() * arguments.rounds)?;
    let rows = match rows(&arguments, &bench, &progress) {
        Ok(rows) => rows,
        Err(error) => {
            print_json(&arguments, measured);
            return Err(error);
        }
    };
    bars.extend(rows.iter().map(Row::bar));
    publish(&arguments, measured, &rows);
    draw(&arguments, &bars)?;
    if progress.is_interrupted() {
        bail!("interrupted after {}: the result is of what was measured by then", progress.done());
    }
    if rows.iter().any(Row::is_empty) {
        bail!("some combinations gave no reading: the logs are in {}", bench.kept().display());
    }
    Ok(())
}

/// All rounds of all combinations, or those before an interruption.
fn rows(arguments: &PeersArguments, bench: &Bench, progress: &Progress) -> Result<Vec<Row>> {
    let pages = HugePages::reserve(HUGE_PAGES)?;
    let mut rows = Vec::new();
    for (ring, size, peer) in combinations(arguments) {
        let mut readings = Vec::new();
        for number in 1..=arguments.rounds {
            let title = format!("{} {size} B, {}, round {number}", ring.name(), peer.name());
            progress.begin(&title);
            let Some(reading) = bench.round(ring, size, peer, progress)? else { break };
            pages.sweep();
            progress.end(&format!("{title}: {reading}"));
            readings.push(reading);
        }
        if !(progress.is_interrupted() && readings.is_empty()) {
            rows.push(Row::new(ring, size, peer, &readings));
        }
        if progress.is_interrupted() {
            break;
        }
    }
    Ok(rows)
}

/// Prints `rows`; as JSON in one array behind what was `measured` before.
fn publish(arguments: &PeersArguments, measured: Vec<Value>, rows: &[Row]) {
    if arguments.output == Output::Table {
        print!("{}", report::table(rows));
    }
    print_json(arguments, measured.into_iter().chain(report::json(rows)).collect());
}

/// Prints the one JSON document, if JSON was asked for.
fn print_json(arguments: &PeersArguments, rows: Vec<Value>) {
    if arguments.output == Output::Json {
        println!("{:#}", Value::Array(rows));
    }
}

/// Draws the ratios, if requested.
fn draw(arguments: &PeersArguments, bars: &[Bar]) -> Result<()> {
    let Some(file) = &arguments.svg else { return Ok(()) };
    fs::write(file, picture::svg("linerate beside its peers: ratio of packet rates", bars))
        .with_context(|| format!("cannot write {}", file.display()))
}

fn completed(mut arguments: PeersArguments) -> Result<PeersArguments> {
    if arguments.guest == Guest::Dpdk && arguments.sizes.iter().any(|size| size == "mix") {
        bail!("--size mix: DPDK's guest sends frames of one size; add --guest own");
    }
    if arguments.rings.is_empty() {
        arguments.rings = vec![Ring::Split, Ring::PackedVec];
    }
    if arguments.sizes.is_empty() {
        arguments.sizes = vec!["64".to_owned(), "1514".to_owned()];
    }
    if arguments.against.is_empty() {
        arguments.against = vec![Peer::Testpmd, Peer::Ovs, Peer::TestpmdLoop];
    }
    if let Some(file) = &arguments.svg {
        // Fails early if the file is not writable.
        fs::write(file, "")
            .with_context(|| format!("cannot write {}: choose another --svg", file.display()))?;
    }
    if arguments.against.contains(&Peer::TestpmdLoop) && arguments.host_cpu >= arguments.guest_cpu {
        bail!("testpmd-loop takes the lower CPU for the switches: make --host-cpu less than --guest-cpu");
    }
    if arguments.rounds == 0 {
        bail!("no round, no reading: --rounds starts at 1");
    }
    Ok(arguments)
}

/// Combinations that `switches` does not measure: DPDK as guest and switch, and memif.
fn combinations(arguments: &PeersArguments) -> impl Iterator<Item = (Ring, u16, Peer)> + '_ {
    let PeersArguments { rings, sizes, against, guest, .. } = arguments;
    rings.iter().flat_map(move |ring| {
        let is_measured = move |peer: &&Peer| match peer {
            Peer::TestpmdLoop => *guest == Guest::Dpdk && !ring.is_memif(),
            Peer::Testpmd => *guest == Guest::Dpdk && ring.is_memif(),
            Peer::Ovs => false,
        };
        sizes.iter().filter_map(|size| size.parse().ok()).flat_map(move |size: u16| {
            against.iter().filter(is_measured).map(move |peer| (*ring, size, *peer))
        })
    })
}
