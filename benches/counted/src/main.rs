//! Forwards a fixed number of packets, or answers a fixed number of requests, so that callgrind can count instructions.
//!
//! `counted RING BYTES TRAFFIC [BURSTS]` prints the number of packets or requests. One thread runs the peers and steps
//! the switch or the server between them. Only functions named [`switch_part`] or [`serve_part`] are to be counted:
//! `valgrind --tool=callgrind --toggle-collect='*counted*_part*'`. The clock of the bridge is stopped, so that two runs
//! execute the same instructions; ageing, which would run once a second, is not counted. For virtio-user ports only the
//! queues are counted ([`counted::uplink`]).

mod echo;
mod traffic;

use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use counted::rig::{BURST, Rig, Shape};
use counted::stations::Stations;
use counted::uplink::{End, Uplink};
use engine::bench::SteppedWorker;
use mem::copy::{Choice, Kernel, supported};
use port::virtio_user::RingKind;
use port::{Burst, BurstStats};
use traffic::Traffic;

/// Rounds before counting starts; afterwards every buffer of every ring has been used.
const WARM_UP: usize = 16;
const QUEUE_SIZE: u16 = 256;
/// Full bursts per sending guest while counting.
const BURSTS: usize = 200;

/// Forwarding case to count.
#[derive(Debug)]
struct Arguments {
    /// Ring kind of the guests.
    ring: RingKind,
    /// Frame size in bytes, without checksum; or bytes of a request.
    size: usize,
    traffic: Traffic,
    /// Full bursts per sending guest while counting.
    bursts: usize,
}

impl Arguments {
    fn parse(words: &[String]) -> Result<Self> {
        let [ring, size, traffic, more @ ..] = words else {
            bail!("usage: counted RING BYTES TRAFFIC [BURSTS]")
        };
        let bursts = more.first().map_or(Ok(BURSTS), |text| text.parse()).context("invalid BURSTS")?;
        let size = size.parse().context("invalid BYTES")?;
        Ok(Self { ring: ring.parse()?, size, traffic: traffic.parse()?, bursts })
    }
}

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args().skip(1).collect();
    match Arguments::parse(&words).and_then(|arguments| run(&arguments)) {
        Ok(packets) => {
            println!("{packets}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("counted: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the number of packets forwarded, or of requests answered, while counting.
fn run(arguments: &Arguments) -> Result<u64> {
    // Valgrind 3.19 does not support AVX-512.
    let kernel = Choice::Avx2;
    ensure!(supported().contains(&kernel), "counts are of the AVX2 copy kernel, which this processor lacks");
    match arguments.traffic {
        Traffic::Echo => echo::answer(arguments.ring, arguments.size),
        Traffic::Uplink | Traffic::Downlink => {
            mem::with_kernel!(kernel, K => across::<K>(arguments, kernel))
        }
        _ => forward(arguments, kernel),
    }
}

fn forward(arguments: &Arguments, kernel: Choice) -> Result<u64> {
    let stations = Stations::new(arguments.traffic.stations(), arguments.traffic.ports());
    let ticks_per_ns = f64::INFINITY;
    let shape = Shape { ring: arguments.ring, queue_size: QUEUE_SIZE, stations, kernel, ticks_per_ns };
    let mut rig = Rig::with(&shape, &arguments.traffic.extras(arguments.size))?;
    // A round translates only a few packets. Without a backlog, no packet is translated while counting.
    for n in 0..WARM_UP {
        load(&mut rig, n, arguments);
        rig.settle()?;
    }
    for n in 0..WARM_UP {
        load(&mut rig, n, arguments);
        match arguments.traffic {
            Traffic::Staged => rig.settle()?,
            _ => drop(rig.worker.round()),
        }
        rig.collect()?;
    }
    let before = rig.worker.counts();
    for n in WARM_UP..WARM_UP + arguments.bursts {
        load(&mut rig, n, arguments);
        match arguments.traffic {
            Traffic::Staged => switch_part_of_stages(&mut rig.worker),
            _ => switch_part(&mut rig.worker),
        }
        rig.collect()?;
    }
    let after = rig.worker.counts();
    let wanted = (arguments.traffic.leaving() * arguments.bursts) as u64;
    if after.sent - before.sent != wanted || after.dropped != before.dropped {
        bail!("not every packet arrived, so there is nothing to divide by: {before:?} to {after:?}");
    }
    Ok(after.sent - before.sent)
}

/// Each sending guest sends one burst, to the other guest or as broadcast.
fn load(rig: &mut Rig, round: usize, arguments: &Arguments) {
    let (flood, stations) = (arguments.traffic == Traffic::Flood, rig.stations);
    let to = |port, n| if flood { [0xff; 6] } else { stations.mac(1 - port, n) };
    rig.send(arguments.traffic.senders(), round * BURST, arguments.size, to);
}

/// Counted by callgrind: one round of the worker over both ports.
#[inline(never)]
fn switch_part(worker: &mut SteppedWorker) {
    worker.round();
}

/// Counted by callgrind: rounds of all stages until idle, including rounds without work.
#[inline(never)]
fn switch_part_of_stages(worker: &mut SteppedWorker) {
    while worker.round() {}
}

/// Returns the number of packets that crossed a virtio-user port while counting.
fn across<K: Kernel>(arguments: &Arguments, kernel: Choice) -> Result<u64> {
    let mut uplink = Uplink::new(arguments.ring, QUEUE_SIZE, kernel, arguments.size)?;
    let (outwards, mut packets) = (arguments.traffic == Traffic::Uplink, 0);
    for n in 0..WARM_UP + arguments.bursts {
        let crossed = match (n < WARM_UP, outwards) {
            (true, _) => uplink.cross(outwards, End::send, End::receive::<K>)?,
            (false, true) => uplink.cross(true, switch_part_sends, End::receive::<K>)?,
            (false, false) => uplink.cross(false, End::send, switch_part_receives::<K>)?,
        };
        packets += if n < WARM_UP { 0 } else { crossed };
    }
    Ok(packets)
}

/// Counted by callgrind: one transmitted burst.
#[inline(never)]
fn switch_part_sends(end: &mut End, burst: &Burst, stats: &mut BurstStats) -> Result<usize> {
    end.send(burst, stats)
}

/// Counted by callgrind: one received burst.
#[inline(never)]
fn switch_part_receives<K: Kernel>(end: &mut End, burst: &mut Burst, stats: &mut BurstStats) -> Result<()> {
    end.receive::<K>(burst, stats)
}
