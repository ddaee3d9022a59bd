//! Prints the memory and time of a million flows of a switch: `cargo run --release -p linerate-flow --example
//! table_size [FLOWS]`.

mod idle;

use flow::tables::Modification;
use flow::{
    Action, ChangeError, Field, FlowCommand, FlowMod, FlowSwitch, Instructions, Key, Match, PortNo, TableId,
};
use idle::Idle;
use port::Now;
use std::sync::Arc;
use std::time::Instant;

const BRIDGE: &str = "br0";
/// Flows of a bundle.
const BUNDLE: u32 = 1000;
/// Changes one by one.
const CHANGES: u32 = 60_000;

fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    pages.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0) * 4096_u64
}

/// A flow of one connection.
fn change(i: u32, command: FlowCommand) -> Modification {
    let mixed = u128::from(i.wrapping_mul(0x9e37_79b1));
    let matching = Match::any()
        .with(Field::EthType, 0x800)
        .with(Field::IpProto, 6)
        .with(Field::Ipv4Src, mixed)
        .with(Field::Ipv4Dst, 0x0a00_0000 | u128::from(i & 0xffff))
        .with(Field::TcpSrc, mixed & 0xffff)
        .with(Field::TcpDst, 80);
    let apply = vec![Action::Output { port: PortNo(i % 64 + 1), max_len: 0 }];
    Modification::Flow(Box::new(FlowMod {
        cookie: i.into(),
        instructions: Instructions { apply, ..Instructions::default() },
        ..FlowMod::new(command, &matching, 100)
    }))
}

/// Executes a change of each of some flows, in bundles, and prints the rate.
fn modify(
    switch: &FlowSwitch,
    what: &str,
    command: FlowCommand,
    flows: std::ops::Range<u32>,
    bundle: u32,
) -> Result<(), ChangeError> {
    let (count, start) = (flows.len(), Instant::now());
    for first in flows.clone().step_by(bundle as usize) {
        let last = flows.end.min(first + bundle);
        let changes: Vec<_> = (first..last).map(|i| change(i, command)).collect();
        switch.modify(BRIDGE, &changes, Now(0))?;
    }
    println!("{what:<40} {:>10.0} a second", count as f64 / start.elapsed().as_secs_f64());
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let flows: u32 = std::env::args().nth(1).and_then(|flows| flows.parse().ok()).unwrap_or(1_000_000);
    let switch = FlowSwitch::new(Arc::new(Idle));
    switch.add_bridge(BRIDGE)?;
    let before = resident();
    modify(&switch, "additions in bundles of 1000", FlowCommand::Add, 0..flows, BUNDLE)?;
    let each = (resident() - before) / u64::from(flows.max(1));
    println!("{:<40} {each:>10} bytes a flow", "resident memory");
    let more = flows..flows + CHANGES;
    modify(&switch, "additions one by one", FlowCommand::Add, more.clone(), 1)?;
    modify(&switch, "deletions one by one", FlowCommand::DeleteStrict, more, 1)?;
    let (tables, start, mut found) = (switch.tables(BRIDGE)?, Instant::now(), 0);
    for i in (0..flows).step_by((flows / CHANGES).max(1) as usize) {
        let Modification::Flow(flow) = change(i, FlowCommand::Add) else { continue };
        let mut bits = Key::ZERO;
        found += u32::from(tables.find(TableId(0), flow.matching.key(), &mut bits).is_some());
    }
    let rate = f64::from(found) / start.elapsed().as_secs_f64();
    println!("{:<40} {rate:>10.0} a second, of {} flows", "lookups that find a flow", tables.len(TableId(0)));
    Ok(())
}
