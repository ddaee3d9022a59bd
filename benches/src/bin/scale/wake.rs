//! Latency from making one packet available in a guest to its arrival at the other guest, with a switch that has gone
//! to sleep in between and with one that busy-polls. The guests poll; their time is included.

use std::hint::spin_loop;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use counted::guest::{Guest, Mac, guest};
use mem::ticks;
use port::virtio_user::RingKind;
use serde_json::json;

use crate::cost::calibrate;
use crate::process::{SwitchUnderTest, pinned};
use crate::table::{Table, quantile};

const SAMPLES: usize = 1000;
const QUEUE_SIZE: u16 = 256;
/// Long enough for an adaptive worker to sleep, which it does after 50 us without packets.
const SILENCE: Duration = Duration::from_millis(2);
const TIMEOUT: Duration = Duration::from_secs(1);
const MACS: [Mac; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];

/// The table, for both polling modes.
pub(crate) fn table(which: &SwitchUnderTest) -> Result<Table> {
    let ticks_per_us = calibrate() * 1e3;
    let mut rows = Vec::new();
    for (name, busy) in [("adaptive, asleep", false), ("busy", true)] {
        let (mut took, sleeps) = samples(which, busy)?;
        let us = |share| json!(quantile(&mut took, share) / ticks_per_us);
        let readings: Vec<_> = [0.0, 0.5, 0.99, 1.0].map(us).to_vec();
        rows.push([vec![json!(name)], readings, vec![json!(sleeps)]].concat());
    }
    Ok(Table {
        name: "wake",
        title: format!(
            "One packet, guest to guest, in us, {}, {SAMPLES} packets {SILENCE:?} apart",
            which.name()
        ),
        columns: vec!["polling", "best", "median", "p99", "worst", "times asleep"],
        rows,
    })
}

/// Ticks per packet, and how often the switch slept meanwhile: once per packet, or never.
fn samples(which: &SwitchUnderTest, busy: bool) -> Result<(Vec<f64>, u64)> {
    let switch = which.start(2, busy)?;
    let mut guests = [guest(RingKind::Split, QUEUE_SIZE)?, guest(RingKind::Split, QUEUE_SIZE)?];
    for (guest, socket) in guests.iter_mut().zip(&switch.sockets) {
        guest.plug_in(socket)?;
    }
    pinned(which.guest_cpu, || {
        let [from, to] = &mut guests;
        // Teaches the bridge both stations; frames flooded meanwhile are received and ignored.
        for _ in 0..10 {
            one(to.as_mut(), from.as_mut(), MACS[0], MACS[1])?;
            one(from.as_mut(), to.as_mut(), MACS[1], MACS[0])?;
        }
        let sample = |_| one(from.as_mut(), to.as_mut(), MACS[1], MACS[0]).map(|ticks| ticks as f64);
        let before = switch.sleeps()?;
        let took = (0..SAMPLES).map(sample).collect::<Result<_>>()?;
        Ok((took, switch.sleeps()? - before))
    })
}

/// Ticks from sending one packet to its arrival.
fn one(from: &mut dyn Guest, to: &mut dyn Guest, destination: Mac, source: Mac) -> Result<u64> {
    let silent = Instant::now();
    while silent.elapsed() < SILENCE {
        spin_loop();
    }
    from.collect()?;
    to.collect()?;
    let start = ticks();
    from.send(destination, source, 64);
    from.publish();
    from.kick();
    let sent = Instant::now();
    while to.collect()? == 0 {
        if sent.elapsed() > TIMEOUT {
            bail!("a packet did not arrive within {} s", TIMEOUT.as_secs());
        }
        spin_loop();
    }
    Ok(ticks() - start)
}
