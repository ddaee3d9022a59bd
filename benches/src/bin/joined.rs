//! Measures the cost of a ring between two linerate ports, for memif rings and for virtqueues: two threads, each on its
//! own CPU, exchange bursts of frames.
//!
//! `cargo run --release -p linerate-benches --bin joined -- [CPU CPU]` prints medians of interleaved rates in Mpps (a
//! frame counts in each direction), ratios, and the distance of the CPUs, for frames of 60 and 1514 bytes. It applies
//! no limits.

use anyhow::{Context, Result, ensure};
use measure::distance;
use measure::pinning::pin;
use measure::rounds::{interleaved, median_ratio};
use measure::statistics::median;
use mem::copy::chosen;
use port::memif::Options;
use port::patch::{Exchange, Patch};
use port::vhost_user::fake::FakeEngine;
use port::vhost_user::{self, VhostUser};
use port::virtio_user::{self, RingKind, VirtioUser};
use port::{Burst, BurstStats, PortControl, RxQueue, TxQueue};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const BURST: usize = 32;
/// Number of circulating bursts.
const BURSTS: usize = 8;
const TIME: Duration = Duration::from_millis(400);
const ROUNDS: usize = 7;

type Ends = [(Box<dyn RxQueue>, Box<dyn TxQueue>); 2];

/// Runs the control of two ports until both have their queues.
fn settle(ports: [&mut dyn PortControl; 2]) -> Result<Ends> {
    let mut engines = [FakeEngine::default(), FakeEngine::default()];
    let mut now = Instant::now();
    let [one, other] = ports;
    for _ in 0..2000 {
        now += Duration::from_millis(1);
        one.handle(now, &mut engines[0]);
        other.handle(now, &mut engines[1]);
    }
    let [first, second] = engines.map(|mut engine| Some((engine.rx.remove(&0)?, engine.tx.remove(&0)?)));
    Ok([first.context("the first port has no queues")?, second.context("the second port has no queues")?])
}

/// Returns received frames to the sender until `end` is set. Returns the number of frames.
fn reflect(
    (rx, tx): &mut (Box<dyn RxQueue>, Box<dyn TxQueue>),
    cpu: usize,
    first: usize,
    frame: usize,
    end: &AtomicBool,
) -> Result<u64> {
    pin(cpu)?;
    let indices: Vec<u8> = (0..BURST as u8).collect();
    let mut burst = Burst::new();
    let slots = slots(frame)?;
    for _ in 0..first {
        burst.begin(1);
        burst.pin(&slots);
        let seg = slots.regions().first().and_then(|region| region.seg(0, frame as u32));
        if let Some(seg) = seg {
            // Fills the burst.
            while burst.push_kept(seg) {}
        }
        mem::with_kernel!(chosen(), K => burst.load_heads::<K>());
        ensure!(tx.tx(&burst, &indices, &mut BurstStats::default())? == BURST, "the ring is too short");
    }
    let mut frames = 0;
    while !end.load(Ordering::Relaxed) {
        burst.begin(0);
        rx.rx(&mut burst, &mut BurstStats::default())?;
        if burst.is_empty() {
            rx.prefetch();
            std::hint::spin_loop();
            continue;
        }
        mem::with_kernel!(chosen(), K => burst.load_heads::<K>());
        let n = burst.len();
        let indices: Vec<u8> = (0..n as u8).collect();
        ensure!(tx.tx(&burst, &indices, &mut BurstStats::default())? == n, "the ring is full");
        rx.complete(burst.buf_ids());
        frames += n as u64;
    }
    Ok(frames)
}

fn slots(frame: usize) -> Result<std::sync::Arc<mem::GuestMemory>> {
    let region = std::sync::Arc::new(mem::Region::anonymous(frame as u64)?);
    Ok(std::sync::Arc::new(mem::GuestMemory::new(vec![region])?))
}

/// Rate in Mpps over both directions.
fn rate(ends: &mut Ends, cpus: [usize; 2], frame: usize) -> Result<f64> {
    let end = AtomicBool::new(false);
    let [one, other] = ends;
    let frames = std::thread::scope(|s| {
        let one = s.spawn(|| reflect(one, cpus[0], BURSTS, frame, &end));
        let other = s.spawn(|| reflect(other, cpus[1], 0, frame, &end));
        std::thread::sleep(TIME);
        end.store(true, Ordering::Relaxed);
        [one, other]
            .map(|thread| thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?)
            .into_iter()
            .sum::<Result<u64>>()
    })?;
    Ok(frames as f64 / TIME.as_secs_f64() / 1e6)
}

fn over_memif(cpus: [usize; 2], frame: usize) -> Result<f64> {
    let (exchange, options) = (Exchange::default(), Options::default());
    let mut one = Patch::new("one", "other", options, &exchange)?;
    let mut other = Patch::new("other", "one", options, &exchange)?;
    let mut ends = settle([&mut one, &mut other])?;
    rate(&mut ends, cpus, frame)
}

fn over_virtqueues(ring: RingKind, cpus: [usize; 2], frame: usize) -> Result<f64> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("s");
    let mut back = VhostUser::listen(&path, vhost_user::Options::default())?;
    let options = virtio_user::Options { ring, mergeable: false, ..Default::default() };
    let mut front = VirtioUser::connect(&path, options, Instant::now())?;
    let mut ends = settle([&mut back, &mut front])?;
    rate(&mut ends, cpus, frame)
}

fn main() -> Result<()> {
    let arguments = std::env::args().skip(1).map(|word| word.parse()).collect::<Result<Vec<usize>, _>>()?;
    let cpus = match arguments.as_slice() {
        [] => [0, 1],
        [one, other] => [*one, *other],
        _ => anyhow::bail!("usage: joined [CPU CPU]"),
    };
    for frame in [60, 1514] {
        let before = distance::wait_while_far(cpus).unwrap_or(f64::NAN);
        let mut rates = interleaved(ROUNDS, 3, |case| match case {
            0 => over_memif(cpus, frame),
            1 => over_virtqueues(RingKind::Split, cpus, frame),
            _ => over_virtqueues(RingKind::PackedInOrder, cpus, frame),
        })?;
        let after = distance::between(cpus).unwrap_or(f64::NAN);
        let ratio = |case: usize| median_ratio(&rates[0], &rates[case]).unwrap_or(f64::NAN);
        let ratios = [ratio(1), ratio(2)];
        let [memif, split, packed] = [0, 1, 2].map(|case| median(&mut rates[case]).unwrap_or(f64::NAN));
        println!("{frame} B: memif {memif:.1}, split {split:.1}, packed-inorder {packed:.1} Mpps");
        println!("{frame} B: memif over split {:.2}, over packed-inorder {:.2}", ratios[0], ratios[1]);
        println!("{frame} B: distance of the CPUs {before:.0} ns before, {after:.0} ns after");
    }
    Ok(())
}
