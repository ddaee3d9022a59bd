//! Random programs: operations of each core, and their execution.

use std::cell::RefCell;
use std::rc::Rc;

use proptest::prelude::*;

use crate::memory::{Address, Cleaning, Copying, Intent, Memory, Width};
use crate::run::Body;
use crate::{Machine, Simulated, run};

/// Number of lines that programs touch.
pub(super) const LINES: u64 = 24;
/// Number of addresses of loaded and stored values: two on each of the first lines.
pub(super) const PLACES: u64 = 8;

/// An operation of a core.
#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    Load(u64),
    Store(u64),
    Read(Address, u64),
    Write(Address, u64),
    Copy(Address, Address, u64, Copying),
    Prefetch(Address, Intent),
    Clean(Address, Cleaning),
    Device(Address, u64),
    Work(u64),
    Follows,
    Fence,
}

/// Returns the address of a value.
pub(super) fn place(n: u64) -> Address {
    n / 2 * 64 + n % 2 * 16
}

fn ranges() -> impl Strategy<Value = (Address, u64)> {
    (0..LINES * 64 - 256, 1..200_u64)
}

/// Any operation that a thread may perform.
pub(super) fn any_op() -> impl Strategy<Value = Op> {
    let how = prop_oneof![
        Just(Copying::Words),
        Just(Copying::Sse),
        Just(Copying::Avx2),
        Just(Copying::NonTemporal),
        Just(Copying::RepMovsb)
    ];
    let cleaning = prop_oneof![Just(Cleaning::Flush), Just(Cleaning::WriteBack), Just(Cleaning::Demote)];
    let intent = prop_oneof![Just(Intent::Read), Just(Intent::Write)];
    prop_oneof![
        4 => (0..PLACES).prop_map(Op::Load),
        4 => (0..PLACES).prop_map(Op::Store),
        2 => ranges().prop_map(|(at, length)| Op::Read(at, length)),
        2 => ranges().prop_map(|(at, length)| Op::Write(at, length)),
        2 => (ranges(), ranges(), how).prop_map(|((from, length), (to, _), how)| Op::Copy(from, to, length, how)),
        1 => (ranges(), intent).prop_map(|((at, _), intent)| Op::Prefetch(at, intent)),
        1 => (ranges(), cleaning).prop_map(|((at, _), how)| Op::Clean(at, how)),
        1 => ranges().prop_map(|(at, length)| Op::Device(at, length)),
        1 => (1..400_u64).prop_map(Op::Work),
        1 => Just(Op::Follows),
        1 => Just(Op::Fence),
    ]
}

/// A loaded or stored value: address index, value, and whether it was a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Event {
    pub(super) place: u64,
    pub(super) value: u64,
    pub(super) store: bool,
}

/// Executes one operation; each store's value is unique.
pub(super) fn perform(memory: &mut Simulated<'_>, op: Op, unique: u64) -> Option<Event> {
    match op {
        Op::Load(n) => {
            let value = memory.load(place(n), Width::Eight);
            return Some(Event { place: n, value, store: false });
        }
        Op::Store(n) => {
            memory.store(place(n), Width::Eight, unique);
            return Some(Event { place: n, value: unique, store: true });
        }
        Op::Read(at, length) => memory.read(at, length),
        Op::Write(at, length) => memory.write(at, length),
        Op::Copy(from, to, length, how) => memory.copy(from, to, length, how),
        Op::Prefetch(at, intent) => memory.prefetch(at, intent),
        Op::Clean(at, how) => memory.clean(at, how),
        Op::Device(at, length) => memory.device_write(at, length),
        Op::Work(instructions) => memory.work(instructions),
        Op::Follows => memory.follows(),
        Op::Fence => memory.fence(),
    }
    None
}

/// Events of each core, in program order.
pub(super) type History = Vec<Vec<Event>>;

/// Runs a program on each core and calls `look` after each step.
pub(super) fn execute(machine: Machine, programs: &[Vec<Op>], look: fn(&mut Machine)) -> (Machine, History) {
    let history = Rc::new(RefCell::new(vec![Vec::new(); programs.len()]));
    let body = |(core, program): (usize, &Vec<Op>)| -> Body {
        let (history, program) = (Rc::clone(&history), program.clone());
        Box::new(move |memory| {
            for (n, op) in program.into_iter().enumerate() {
                let event = perform(memory, op, (n as u64 + 1) * 8 + core as u64);
                history.borrow_mut()[core].extend(event);
                memory.look(look);
            }
        })
    };
    let bodies = programs.iter().enumerate().map(body).collect();
    let machine = run(machine, bodies).expect("no core waits");
    let history = history.borrow().clone();
    (machine, history)
}
