//! Prints the memory and time of a million flows: `cargo run -p linerate-flow --example table_size [FLOWS]`.

use flow::tables::{Control, Modification};
use flow::{Action, Field, FlowCommand, FlowFlags, FlowMod, Instructions, Key, Match, PortNo, TableId};
use port::Now;
use std::time::Instant;

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
        command,
        table: TableId(0),
        matching,
        priority: 100,
        cookie: i.into(),
        cookie_mask: 0,
        idle_timeout: 0,
        hard_timeout: 0,
        out_port: None,
        out_group: None,
        flags: FlowFlags::default(),
        importance: 0,
        instructions: Instructions { apply, ..Instructions::default() },
    }))
}

fn report(what: &str, count: u32, since: Instant) {
    let each = since.elapsed().as_nanos() / u128::from(count.max(1));
    println!("{what:<50} {each:>8} ns each");
}

fn main() {
    let flows: u32 = std::env::args().nth(1).and_then(|flows| flows.parse().ok()).unwrap_or(1_000_000);
    let (before, mut control) = (resident(), Control::new(0x5eed));
    let start = Instant::now();
    for i in 0..flows {
        control.apply(&change(i, FlowCommand::Add), Now(0)).unwrap_or_default();
    }
    report("add, no snapshot", flows, start);
    println!("{:<50} {:>8} bytes each", "resident memory", (resident() - before) / u64::from(flows.max(1)));
    let (some, start) = (flows.min(10_000), Instant::now());
    let mut snapshot = control.seal();
    for i in 0..some {
        control.apply(&change(flows + i, FlowCommand::Add), Now(0)).unwrap_or_default();
        snapshot = control.seal();
    }
    report("add, a snapshot after each", some, start);
    let start = Instant::now();
    for i in 0..some {
        control.apply(&change(flows + i, FlowCommand::DeleteStrict), Now(0)).unwrap_or_default();
        snapshot = control.seal();
    }
    report("delete, a snapshot after each", some, start);
    let (start, mut found) = (Instant::now(), 0);
    for i in 0..some {
        let Modification::Flow(flow) = change(i * (flows / some.max(1)), FlowCommand::Add) else { continue };
        let mut bits = Key::ZERO;
        found += u32::from(snapshot.find(TableId(0), flow.matching.key(), &mut bits).is_some());
    }
    report("lookup", some, start);
    println!("found {found} of {some}; {} flows", snapshot.len(TableId(0)));
}
