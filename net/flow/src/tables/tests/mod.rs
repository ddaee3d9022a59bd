//! Rules of changes (OpenFlow 1.3.5, 6.4 and 7.3.4), one by one.

mod expiry;
mod flows;
mod groups;
mod learn;
mod model;
mod options;
mod saved;

use super::{Flow, Tables};
use crate::action::{Action, Instructions};
use crate::field::Field;
use crate::matching::Match;
use crate::modify::{FlowCommand, FlowFlags, FlowMod, PortNo, TableId};
use port::Now;

const TABLE: TableId = TableId(0);

fn now(seconds: u64) -> Now {
    Now(seconds * 1_000_000_000)
}

fn output(port: u32) -> Action {
    Action::Output { port: PortNo(port), max_len: 0 }
}

fn apply(actions: &[Action]) -> Instructions {
    Instructions { apply: actions.to_vec(), ..Instructions::default() }
}

fn port(port: u32) -> Match {
    Match::any().with(Field::InPort, port.into())
}

fn network(address: u128, bits: u32) -> Match {
    let mask = u128::from(u32::MAX << (32 - bits));
    Match::any().with(Field::EthType, 0x800).with_masked(Field::Ipv4Dst, address & mask, mask)
}

/// A change of table 0 with an output to port 1.
fn change(command: FlowCommand, matching: Match, priority: u16) -> FlowMod {
    FlowMod {
        table: TABLE,
        flags: FlowFlags { send_removed: true, ..FlowFlags::default() },
        instructions: apply(&[output(1)]),
        ..FlowMod::new(command, &matching, priority)
    }
}

fn add(matching: Match, priority: u16) -> FlowMod {
    change(FlowCommand::Add, matching, priority)
}

/// Tables with these flows.
fn with(changes: &[FlowMod]) -> Tables {
    let mut tables = Tables::new(1);
    for change in changes {
        tables.apply(change, now(0)).unwrap();
    }
    tables
}

/// Priorities of the flows of table 0, ascending.
fn priorities(tables: &Tables) -> Vec<u16> {
    let mut found: Vec<_> = tables.flows(TABLE).map(|flow| flow.entry().priority()).collect();
    found.sort_unstable();
    found
}

fn only(tables: &Tables) -> &Flow {
    let mut flows = tables.flows(TABLE);
    let flow = flows.next().unwrap();
    assert!(flows.next().is_none());
    flow
}
