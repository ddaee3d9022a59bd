//! Loads a rule set in the style of `ClassBench`, looks packets up and changes flows, and prints sizes and counts:
//! `cargo run --release -p linerate-flow --example classify acl|fw|ipc [FLOWS] [EXPONENT]`. For instructions:
//! `valgrind --tool=callgrind --toggle-collect='*look_up*'`, or `*change_all*`.

use flow::classbench::{Family, Trace, rules};
use flow::tables::Tables;
use flow::{FlowCommand, FlowMod, Key, Match, TableId};
use port::Now;
use std::collections::HashSet;
use std::process::ExitCode;

const TABLE: TableId = TableId(0);
const PACKETS: usize = 10_000;
const HEADERS: usize = 5000;
const CHANGES: usize = 1000;

#[inline(never)]
fn look_up(tables: &Tables, trace: &Trace) -> usize {
    let find = |key: &&Key| {
        let mut bits = Key::ZERO;
        tables.find(TABLE, key, &mut bits).is_some()
    };
    trace.packets().filter(find).count()
}

/// Removes and adds flows, with a snapshot after each change. Returns the number of errors.
#[inline(never)]
fn change_all(tables: &mut Tables, changed: &[&(Match, u16)]) -> usize {
    let (mut snapshot, mut errors) = (tables.seal(), 0);
    for command in [FlowCommand::DeleteStrict, FlowCommand::Add] {
        for (matching, priority) in changed {
            errors += usize::from(tables.apply(&FlowMod::new(command, matching, *priority), Now(0)).is_err());
            snapshot = tables.seal();
        }
    }
    drop(snapshot);
    errors
}

/// Prints how many megaflows the packets need, and how wide these are.
fn report_megaflows(tables: &Tables, trace: &Trace) {
    let (mut megaflows, mut masks, mut bits) = (HashSet::new(), HashSet::new(), 0);
    for key in trace.packets() {
        let mut mask = Key::ZERO;
        tables.find(TABLE, key, &mut mask);
        masks.insert(mask);
        if megaflows.insert((key.and(&mask), mask)) {
            bits += mask.words().iter().map(|word| word.count_ones()).sum::<u32>();
        }
    }
    let mean = bits / megaflows.len().max(1) as u32;
    println!("megaflows {} with {} masks, {mean} bits each", megaflows.len(), masks.len());
}

fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    pages.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0) * 4096_u64
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let Some(family) = arguments.first().and_then(|name| Family::named(name)) else {
        eprintln!("no rule set: the first argument is not acl, fw or ipc; name one of them");
        return ExitCode::from(2);
    };
    let flows = arguments.get(1).and_then(|flows| flows.parse().ok()).unwrap_or(100_000);
    let exponent = arguments.get(2).and_then(|exponent| exponent.parse().ok()).unwrap_or(0.0);
    let rules = rules(family, flows, 1);
    let trace = Trace::new(&rules, HEADERS, PACKETS, exponent, 2);
    let (before, mut tables) = (resident(), Tables::new(3));
    for (matching, priority) in &rules {
        if let Err(error) = tables.apply(&FlowMod::new(FlowCommand::Add, matching, *priority), Now(0)) {
            eprintln!("a flow is refused: {error}");
            return ExitCode::FAILURE;
        }
    }
    let bytes = (resident() - before) / rules.len().max(1) as u64;
    println!("{family:?}: {} flows of {bytes} bytes, {} masks", tables.len(TABLE), tables.masks(TABLE));
    println!("found {} of {PACKETS} packets", look_up(&tables, &trace));
    report_megaflows(&tables, &trace);
    let step = (rules.len() / CHANGES).max(1);
    let changed: Vec<_> = rules.iter().step_by(step).take(CHANGES).collect();
    println!("{} changes, {} errors", 2 * changed.len(), change_all(&mut tables, &changed));
    ExitCode::SUCCESS
}
