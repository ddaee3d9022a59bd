//! Cost per packet by number of ports and addresses.
//!
//! Guests and switch share one thread; the time-stamp counter is read around the switch's rounds only. The numbers
//! therefore contain no transfers between cores: they show the cost of code, tables and bursts. All cases alternate,
//! and the median of their turns is reported.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use counted::guest::Mac;
use counted::rig::{BURST, Rig, Shape};
use counted::stations::Stations;
use mem::ticks;
use port::virtio_user::RingKind;
use serde_json::{Value, json};

use crate::table::{Table, quantile};

const PORTS: [usize; 3] = [2, 8, 64];
const MACS: [usize; 3] = [10, 10_000, 1_000_000];
const SIZE: usize = 64;
const QUEUE_SIZE: u16 = 256;
const TURNS: usize = 21;
/// Packets per turn before counting, because the caches contain data of another case, and packets counted.
const WARM_UP: usize = 8_192;
const COUNTED: usize = 16_384;
const BROADCAST: Mac = [0xff; 6];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Traffic {
    /// Every port sends to one other port.
    Pairs,
    /// Every port sends to all others in rotation, so that each burst is distributed.
    Rss,
    /// One port sends broadcasts to all others.
    Flood,
}

impl Traffic {
    fn name(self) -> &'static str {
        match self {
            Traffic::Pairs => "pairs",
            Traffic::Rss => "rss",
            Traffic::Flood => "flood",
        }
    }
}

struct Case {
    /// Index of the rig.
    rig: usize,
    traffic: Traffic,
    /// Packets sent by each port.
    sent: usize,
    /// Ticks per packet received and per packet sent, for each turn.
    turns: Vec<(f64, f64)>,
}

/// Measures every case.
pub(crate) fn table() -> Result<Table> {
    let ticks_per_ns = calibrate();
    let kernel = mem::copy::choose(ticks);
    let mut rigs = Vec::new();
    for (ports, macs) in PORTS.iter().flat_map(|&ports| MACS.iter().map(move |&macs| (ports, macs))) {
        let stations = Stations::new(macs, ports);
        let shape = Shape { ring: RingKind::Split, queue_size: QUEUE_SIZE, stations, kernel, ticks_per_ns };
        rigs.push(Rig::new(&shape)?);
    }
    let mut cases = cases();
    for _ in 0..TURNS {
        for case in &mut cases {
            let turn = case.turn(&mut rigs[case.rig])?;
            case.turns.push(turn);
        }
    }
    let rows = cases.iter().map(|case| case.row(rigs[case.rig].stations, ticks_per_ns)).collect();
    let title = format!(
        "Cost per packet of the switch, {SIZE} B, split rings of {QUEUE_SIZE}, copy kernel {kernel}, guests in the \
         same thread; cycles of the time-stamp counter ({ticks_per_ns:.3} GHz), medians of {TURNS} turns"
    );
    Ok(Table {
        name: "cost",
        title,
        columns: vec![
            "traffic",
            "ports",
            "macs",
            "ns per packet",
            "cycles per packet",
            "cycles per copy",
            "p90 cycles per packet",
        ],
        rows,
    })
}

/// Flooding looks up only the source address, so one row per number of ports is sufficient.
fn cases() -> Vec<Case> {
    let case = |rig, traffic| Case { rig, traffic, sent: 0, turns: Vec::new() };
    let of =
        |traffic, step: usize| (0..PORTS.len() * MACS.len()).step_by(step).map(move |rig| case(rig, traffic));
    of(Traffic::Pairs, 1).chain(of(Traffic::Rss, 1)).chain(of(Traffic::Flood, MACS.len())).collect()
}

impl Case {
    fn turn(&mut self, rig: &mut Rig) -> Result<(f64, f64)> {
        self.forward(rig, WARM_UP)?;
        let before = rig.worker.counts();
        let spent = self.forward(rig, COUNTED)?;
        let after = rig.worker.counts();
        if after.dropped != before.dropped {
            bail!(
                "{} packets were dropped, so this is not the cost of forwarding",
                after.dropped - before.dropped
            );
        }
        let per = |packets: u64| spent as f64 / packets as f64;
        Ok((per(after.received - before.received), per(after.sent - before.sent)))
    }

    /// Returns the ticks that the switch took for at least `packets` packets.
    fn forward(&mut self, rig: &mut Rig, packets: usize) -> Result<u64> {
        let (mut received, mut spent) = (0, 0);
        while received < packets {
            received += self.load(rig);
            let start = ticks();
            rig.worker.round();
            spent += ticks() - start;
            rig.collect()?;
        }
        Ok(spent)
    }

    /// Sends a full burst from each sending port. Returns the number of packets.
    fn load(&mut self, rig: &mut Rig) -> usize {
        let (stations, ports) = (rig.stations, rig.stations.ports);
        let senders = if self.traffic == Traffic::Flood { 1 } else { ports };
        rig.send(senders, self.sent, SIZE, |port, n| match self.traffic {
            Traffic::Pairs => stations.mac(port ^ 1, n),
            Traffic::Rss => stations.mac((port + 1 + n % (ports - 1)) % ports, n),
            Traffic::Flood => BROADCAST,
        });
        self.sent += BURST;
        senders * BURST
    }

    fn row(&self, stations: Stations, ticks_per_ns: f64) -> Vec<Value> {
        let mut received: Vec<_> = self.turns.iter().map(|turn| turn.0).collect();
        let mut sent: Vec<_> = self.turns.iter().map(|turn| turn.1).collect();
        let cycles = quantile(&mut received, 0.5);
        vec![
            json!(self.traffic.name()),
            json!(stations.ports),
            json!(stations.count()),
            json!(cycles / ticks_per_ns),
            json!(cycles),
            json!(quantile(&mut sent, 0.5)),
            json!(quantile(&mut received, 0.9)),
        ]
    }
}

/// Ticks of the counter per nanosecond.
pub(crate) fn calibrate() -> f64 {
    let (start, clock) = (ticks(), Instant::now());
    std::thread::sleep(Duration::from_millis(50));
    (ticks() - start) as f64 / clock.elapsed().as_nanos() as f64
}
