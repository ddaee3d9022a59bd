//! Forwards a fixed number of packets, so that callgrind can count the instructions of the switch.
//!
//! One thread runs two guests and steps the switch between them. Only [`switch_part`] is to be counted:
//! `valgrind --tool=callgrind --toggle-collect='*guard*switch_part*'`. The clock of the bridge is stopped, so that two
//! runs execute the same instructions; ageing, which would run once a second, is not counted. For virtio-user ports
//! only the queues are counted ([`benches::uplink`]).

use std::process::ExitCode;

use anyhow::{Result, bail, ensure};
use benches::Ring;
use benches::rig::{BURST, Extras, Flows, Rig, Shape};
use benches::stations::Stations;
use benches::uplink::{End, Uplink};
use clap::{Parser, ValueEnum};
use engine::bench::SteppedWorker;
use mem::copy::{Choice, Kernel, supported};
use port::{Burst, BurstStats};
use wire::VlanId;

/// Rounds before counting starts; afterwards every buffer of every ring has been used.
const WARM_UP: usize = 16;
/// The same for [`Traffic::Matches`], of whose packets a turn translates only a few.
const WARM_UP_OF_MATCHES: usize = 128;
const QUEUE_SIZE: u16 = 256;

/// Traffic to forward.
#[derive(Debug, Parser)]
struct Arguments {
    /// Ring kind of the guests
    #[arg(value_enum)]
    ring: Ring,
    /// Frame size in bytes, without checksum
    size: usize,
    /// Sources and destinations
    #[arg(value_enum)]
    traffic: Traffic,
    /// Full bursts per sending guest while counting
    #[arg(long, default_value_t = 200)]
    bursts: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Traffic {
    /// One station per port: the bridge reuses its last look-up
    Pair,
    /// 1,024 stations: the bridge looks up every address
    Many,
    /// Broadcast between three ports: each frame leaves by two
    Flood,
    /// From an access port to a trunk, in one direction: each frame gets a tag
    Vlan,
    /// Each frame is received into two merged buffers
    Merge,
    /// As pair, with a switch of three pipeline stages that alternate on one thread until idle
    Staged,
    /// As pair, with a flow for each port in place of the bridge
    Flow,
    /// As pair, with a flow for each destination address in place of the bridge
    Match,
    /// As many, with a flow for each destination address in place of the bridge
    Matches,
    /// Out of a virtio-user port: its transmit queue
    Uplink,
    /// Into a virtio-user port: its receive queue
    Downlink,
}

impl Traffic {
    fn ports(self) -> usize {
        if self == Traffic::Flood { 3 } else { 2 }
    }

    /// Number of sending ports.
    fn senders(self) -> usize {
        if self == Traffic::Vlan { 1 } else { self.ports() }
    }

    /// Packets forwarded per round: each sender sends one burst.
    fn leaving(self) -> usize {
        let copies = if self == Traffic::Flood { self.ports() - 1 } else { 1 };
        self.senders() * copies * BURST
    }

    /// Extras of the rig; `size` is in bytes per frame.
    fn extras(self, size: usize) -> Extras {
        Extras {
            vlan: if self == Traffic::Vlan { VlanId::new(5) } else { None },
            // Two thirds of header and frame: one buffer is too small, two are sufficient.
            staged: self == Traffic::Staged,
            flows: match self {
                Traffic::Flow => Some(Flows::OfPorts),
                Traffic::Match | Traffic::Matches => Some(Flows::OfAddresses),
                _ => None,
            },
            merged: (self == Traffic::Merge).then_some((size as u32 + 12) * 2 / 3),
        }
    }
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(packets) => {
            println!("{packets}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("guard: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the number of packets forwarded while counting.
fn run(arguments: &Arguments) -> Result<u64> {
    // Valgrind 3.19 does not support AVX-512.
    let kernel = Choice::Avx2;
    ensure!(supported().contains(&kernel), "counts are of the AVX2 copy kernel, which this processor lacks");
    if matches!(arguments.traffic, Traffic::Uplink | Traffic::Downlink) {
        return mem::with_kernel!(kernel, K => across::<K>(arguments, kernel));
    }
    let is_many = matches!(arguments.traffic, Traffic::Many | Traffic::Matches);
    let count = if is_many { 1024 } else { 2 };
    let stations = Stations::new(count, arguments.traffic.ports());
    let ticks_per_ns = f64::INFINITY;
    let shape = Shape { ring: arguments.ring, queue_size: QUEUE_SIZE, stations, kernel, ticks_per_ns };
    let mut rig = Rig::with(&shape, &arguments.traffic.extras(arguments.size))?;
    let warm_up = if arguments.traffic == Traffic::Matches { WARM_UP_OF_MATCHES } else { WARM_UP };
    for n in 0..warm_up {
        load(&mut rig, n, arguments);
        match arguments.traffic {
            Traffic::Staged => rig.settle()?,
            _ => drop(rig.worker.round()),
        }
        rig.collect()?;
    }
    let before = rig.worker.counts();
    for n in warm_up..warm_up + arguments.bursts {
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
    let flood = arguments.traffic == Traffic::Flood;
    for (port, guest) in rig.guests.iter_mut().enumerate().take(arguments.traffic.senders()) {
        for n in round * BURST..(round + 1) * BURST {
            let stations = &rig.stations;
            let to = if flood { [0xff; 6] } else { stations.mac(1 - port, n) };
            guest.send(to, stations.mac(port, n), arguments.size);
        }
        guest.publish();
    }
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
