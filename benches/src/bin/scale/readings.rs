//! Readings of an idle switch: memory per port, start-up time, idle CPU.

use std::time::Duration;

use anyhow::Result;
use counted::guest::{Guest, guest};
use port::virtio_user::RingKind;
use serde_json::{Value, json};

use crate::process::{Switch, SwitchUnderTest};
use crate::table::{Table, quantile};

const FEW: usize = 2;
const MANY: usize = 66;
const SILENT: usize = 64;
const STARTS: usize = 20;
const QUEUE_SIZE: u16 = 256;
const SETTLE: Duration = Duration::from_secs(1);
const WATCH: Duration = Duration::from_secs(10);

fn plug_in_all(switch: &Switch) -> Result<Vec<Box<dyn Guest>>> {
    let plug = |socket| {
        let mut guest = guest(RingKind::Split, QUEUE_SIZE)?;
        guest.plug_in(socket)?;
        Ok(guest)
    };
    switch.sockets.iter().map(|socket| plug(socket)).collect()
}

/// Resident memory with few and with many ports, and the difference per port.
pub(crate) fn memory(which: &SwitchUnderTest) -> Result<Table> {
    let mut rows = Vec::new();
    for plugged in [false, true] {
        for key in ["VmRSS", "RssAnon"] {
            let (few, many) = (resident(which, FEW, plugged, key)?, resident(which, MANY, plugged, key)?);
            let state = if plugged { "guest connected" } else { "listening" };
            rows.push(vec![
                json!(state),
                json!(key),
                json!(few),
                json!(many),
                json!((many - few) / (MANY - FEW) as f64),
            ]);
        }
    }
    Ok(Table {
        name: "memory",
        title: format!(
            "Memory per port in KiB, {}; VmRSS counts what it touches of its guests' memory too",
            which.name()
        ),
        columns: vec!["ports are", "reading", "2 ports", "66 ports", "per port"],
        rows,
    })
}

fn resident(which: &SwitchUnderTest, ports: usize, plugged: bool, key: &str) -> Result<f64> {
    let switch = which.start(ports, false)?;
    let guests = if plugged { plug_in_all(&switch)? } else { Vec::new() };
    std::thread::sleep(SETTLE / 4);
    let kib = switch.kib(key);
    drop(guests);
    kib
}

/// Time from exec until the control socket answers and every port listens.
pub(crate) fn start(which: &SwitchUnderTest) -> Result<Table> {
    let mut rows = Vec::new();
    for ports in [2, 64] {
        let took = |_| Ok(which.start(ports, false)?.took.as_secs_f64() * 1e3);
        let mut took: Vec<f64> = (0..STARTS).map(took).collect::<Result<_>>()?;
        let row = [0.0, 0.5, 1.0].map(|share| json!(quantile(&mut took, share)));
        rows.push([vec![json!(ports)], row.to_vec()].concat());
    }
    let until = if which.program.is_some() {
        "until the control socket answers and all ports listen"
    } else {
        "until all ports listen"
    };
    Ok(Table {
        name: "start",
        title: format!("Start-up in ms, {}, {STARTS} starts, {until}", which.name()),
        columns: vec!["ports", "best", "median", "worst"],
        rows,
    })
}

/// CPU usage of a switch whose guests are connected and idle, beside that of a polling switch as a control.
pub(crate) fn idle(which: &SwitchUnderTest) -> Result<Table> {
    let rows = [("adaptive", false), ("busy", true)].map(|(name, busy)| idle_row(which, name, busy));
    Ok(Table {
        name: "idle",
        title: format!(
            "CPU of an idle switch in per cent of a core, {}, over {} s",
            which.name(),
            WATCH.as_secs()
        ),
        columns: vec![
            "polling",
            "silent ports",
            "utime+stime",
            "schedstat",
            "times asleep",
            "reached afterwards",
        ],
        rows: rows.into_iter().collect::<Result<_>>()?,
    })
}

fn idle_row(which: &SwitchUnderTest, name: &str, busy: bool) -> Result<Vec<Value>> {
    let switch = which.start(SILENT, busy)?;
    let mut guests = plug_in_all(&switch)?;
    std::thread::sleep(SETTLE);
    let before = (switch.ticks()?, switch.run_time()?, switch.sleeps()?);
    std::thread::sleep(WATCH);
    let after = (switch.ticks()?, switch.run_time()?, switch.sleeps()?);
    let percent = |from: Duration, to: Duration| {
        json!((to.as_secs_f64() - from.as_secs_f64()) / WATCH.as_secs_f64() * 100.0)
    };
    Ok(vec![
        json!(name),
        json!(guests.len()),
        percent(before.0, after.0),
        percent(before.1, after.1),
        json!(after.2 - before.2),
        json!(reached(&mut guests)?),
    ])
}

/// Number of guests that receive a broadcast of the first one: all others if every port works.
fn reached(guests: &mut [Box<dyn Guest>]) -> Result<usize> {
    let Some((first, others)) = guests.split_first_mut() else { return Ok(0) };
    first.send([0xff; 6], [2, 0, 0, 0, 0, 1], 64);
    first.publish();
    first.kick();
    std::thread::sleep(SETTLE);
    let arrived = others.iter_mut().map(|guest| guest.collect());
    Ok(arrived.collect::<Result<Vec<_>>>()?.into_iter().filter(|n| *n > 0).count())
}
