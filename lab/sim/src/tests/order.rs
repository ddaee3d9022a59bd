//! Order in which cores see each other's stores: coherence of each address, and x86's total store order.
//!
//! Programs are checked by the values that loads return; the checks use no order reported by the simulator.

use std::collections::HashMap;

use proptest::prelude::*;

use super::program::{Event, History, Op, PLACES, execute};
use super::small;
use crate::Prefetchers;
use crate::memory::{Memory, Width};
use crate::{Machine, Profile, run};

const PREFETCHERS: Prefetchers = Prefetchers { stream: true, adjacent: true };

/// Precedence graph; nodes are events.
#[derive(Default)]
struct Order {
    after: Vec<Vec<usize>>,
}

impl Order {
    fn new(nodes: usize) -> Order {
        Order { after: vec![Vec::new(); nodes] }
    }

    fn edge(&mut self, before: usize, after: usize) {
        if before != after {
            self.after[before].push(after);
        }
    }

    fn reaches(&self, from: usize) -> Vec<bool> {
        let mut seen = vec![false; self.after.len()];
        let mut open = self.after[from].clone();
        while let Some(node) = open.pop() {
            if !std::mem::replace(&mut seen[node], true) {
                open.extend(&self.after[node]);
            }
        }
        seen
    }

    fn has_circle(&self) -> bool {
        (0..self.after.len()).any(|node| self.reaches(node)[node])
    }
}

/// All events in one list, and the event of each store's value. Node 0 stands for the initial state, with value 0 at
/// every address.
struct Execution {
    events: Vec<(usize, Event)>,
    stores: HashMap<u64, usize>,
}

impl Execution {
    fn of(history: &History) -> Execution {
        let first = (usize::MAX, Event { place: u64::MAX, value: 0, store: true });
        let all =
            history.iter().enumerate().flat_map(|(core, events)| events.iter().map(move |e| (core, *e)));
        let events: Vec<_> = std::iter::once(first).chain(all).collect();
        let stores = events.iter().enumerate().filter(|(_, (_, event))| event.store);
        let stores = stores.map(|(n, (_, event))| (event.value, n)).collect();
        Execution { events, stores }
    }

    /// Returns the store whose value an event carries.
    fn store_of(&self, n: usize) -> usize {
        self.stores[&self.events[n].1.value]
    }

    /// Returns the order of stores to one address, derived from the actions and loads of each core and from the final
    /// value.
    fn coherence(&self, place: u64, last: u64) -> Order {
        let mut order = Order::new(self.events.len());
        let here: Vec<usize> = (1..self.events.len()).filter(|n| self.events[*n].1.place == place).collect();
        for (i, earlier) in here.iter().enumerate() {
            order.edge(0, self.store_of(*earlier));
            order.edge(self.store_of(*earlier), self.stores[&last]);
            for later in
                here[i + 1..].iter().filter(|later| self.events[**later].0 == self.events[*earlier].0)
            {
                order.edge(self.store_of(*earlier), self.store_of(*later));
            }
        }
        order
    }

    /// Total store order: a core's events are in program order, except that a load may pass earlier stores; a load
    /// comes after the store that it saw, if that is another core's, and before the stores that follow it.
    fn total_store_order(&self, coherence: &[Order]) -> Order {
        let mut order = Order::new(self.events.len());
        for (n, (core, event)) in self.events.iter().enumerate().skip(1) {
            for later in (n + 1..self.events.len()).filter(|later| self.events[*later].0 == *core) {
                if !event.store || self.events[later].1.store {
                    order.edge(n, later);
                }
            }
            let (store, after) =
                (self.store_of(n), coherence[event.place as usize].reaches(self.store_of(n)));
            if !event.store && self.events[store].0 != *core {
                order.edge(store, n);
            }
            (0..after.len()).filter(|other| after[*other]).for_each(|other| order.edge(n, other));
        }
        order
    }
}

fn validate(machine: &Machine, history: &History) {
    let execution = Execution::of(history);
    let coherence: Vec<Order> = (0..PLACES)
        .map(|n| execution.coherence(n, machine.peek(super::program::place(n), Width::Eight)))
        .collect();
    assert!(coherence.iter().all(|order| !order.has_circle()), "no order of stores explains {history:?}");
    assert!(!execution.total_store_order(&coherence).has_circle(), "not TSO: {history:?}");
}

/// Checks that stores of two cores to a line are at least the shortest transfer time of a line apart: two cores never
/// have ownership at the same time.
fn validate_writers(machine: &Machine) {
    let timing = &machine.timing;
    let least = timing.llc.min(timing.upgrade).min(timing.core_clean).min(timing.core_modified);
    let mut last = HashMap::new();
    for (line, core, now) in &machine.written {
        if let Some((before, then)) = last.insert(*line, (*core, *now)) {
            let apart = now - then;
            assert!(before == *core || apart >= least, "line {line}: {before} at {then}, {core} at {now}");
        }
    }
}

fn value_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        5 => (0..PLACES).prop_map(Op::Load),
        5 => (0..PLACES).prop_map(Op::Store),
        2 => (1..600_u64).prop_map(Op::Work),
        1 => (0..PLACES * 32, 1..100_u64).prop_map(|(at, length)| Op::Read(at, length)),
    ]
}

/// One step of a core's litmus program, checked by the values that its loads return.
#[derive(Clone, Copy, Debug)]
enum Step {
    Put(u64),
    Get(u64),
    Wait(u64),
    Fence,
}

/// Returns the values of each core's loads; every store has the value 1.
fn outcome(steps: &[&[Step]], apart: u64, profile: &Profile) -> Vec<Vec<u64>> {
    let loads = std::rc::Rc::new(std::cell::RefCell::new(vec![Vec::new(); steps.len()]));
    let machine = Machine::new(profile, steps.len(), 4096, PREFETCHERS);
    let body = |core: usize| -> crate::run::Body {
        let (loads, steps) = (std::rc::Rc::clone(&loads), steps[core].to_vec());
        Box::new(move |memory| {
            for step in steps {
                match step {
                    Step::Put(n) => memory.store(n * apart, Width::Eight, 1),
                    Step::Get(n) => {
                        let value = memory.load(n * apart, Width::Eight);
                        loads.borrow_mut()[core].push(value);
                    }
                    Step::Wait(instructions) => memory.work(instructions),
                    Step::Fence => memory.fence(),
                }
            }
        })
    };
    run(machine, (0..steps.len()).map(body).collect()).expect("no core waits");
    loads.take()
}

/// Collects all outcomes over many delays and initial cache states.
fn outcomes(run: impl Fn(u64, &[Step], u64) -> Vec<Vec<u64>>) -> Vec<Vec<Vec<u64>>> {
    let warm: [&[Step]; 4] =
        [&[], &[Step::Get(2), Step::Get(3)], &[Step::Get(0), Step::Get(1)], &[Step::Get(0)]];
    let mut all = Vec::new();
    for delay in (0..2400).step_by(75) {
        for first in warm {
            all.extend([8, 64, 256].map(|apart| run(delay, first, apart)));
        }
    }
    all
}

/// Returns the last `count` loads, without those that only warm.
fn last(loads: &[u64], count: usize) -> &[u64] {
    &loads[loads.len() - count..]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn random_programs_see_each_place_in_one_order_and_stores_in_total_order(
        programs in prop::collection::vec(prop::collection::vec(value_op(), 1..14), 2..=4),
        tiny in any::<bool>(),
    ) {
        let profile = if tiny { small() } else { Profile::study() };
        let machine = Machine::new(&profile, programs.len(), 24 * 64, PREFETCHERS);
        let (machine, history) = execute(machine, &programs, |_| {});
        validate(&machine, &history);
        validate_writers(&machine);
    }

    /// A single core sees plain memory for all access widths and overlaps.
    #[test]
    fn own_stores_are_seen_by_own_loads(
        accesses in prop::collection::vec((0..120_u64, 0..3_usize, any::<Option<u64>>(), 0..60_u64), 1..60),
    ) {
        let machine = Machine::new(&small(), 1, 4096, PREFETCHERS);
        let body = move |memory: &mut crate::Simulated<'_>| {
            let mut bytes = [0_u8; 136];
            for (at, width, store, work) in accesses {
                let width = [Width::Two, Width::Four, Width::Eight][width];
                let place = at as usize..at as usize + width.bytes() as usize;
                memory.work(work);
                if let Some(value) = store {
                    memory.store(at, width, value);
                    bytes[place].copy_from_slice(&value.to_le_bytes()[..width.bytes() as usize]);
                } else {
                    let mut expected = [0; 8];
                    expected[..width.bytes() as usize].copy_from_slice(&bytes[place]);
                    assert_eq!(memory.load(at, width), u64::from_le_bytes(expected), "{at} {width:?}");
                }
            }
        };
        run(machine, vec![Box::new(body)]).expect("a single core does not wait");
    }
}

#[test]
fn earlier_stores_are_visible_with_a_message() {
    let profile = Profile::study();
    let all = outcomes(|delay, warm, apart| {
        let writer = [Step::Put(0), Step::Put(1)];
        let reader = [warm, &[Step::Wait(delay + 1), Step::Get(1), Step::Get(0)]].concat();
        outcome(&[&writer, &reader], apart, &profile)
    });
    assert!(all.iter().all(|loads| last(&loads[1], 2) != [1, 0]));
    assert!(all.iter().any(|loads| last(&loads[1], 2) == [1, 1]));
    assert!(all.iter().any(|loads| last(&loads[1], 2) == [0, 0]));
}

#[test]
fn two_cores_may_both_miss_the_other_ones_store_unless_they_wait_for_their_own() {
    let profile = Profile::study();
    let both = |fence: bool| {
        outcomes(|delay, warm, apart| {
            let waits: &[Step] = if fence { &[Step::Fence] } else { &[] };
            let one = [warm, &[Step::Wait(1200), Step::Put(0)], waits, &[Step::Get(1)]].concat();
            let other = [warm, &[Step::Wait(delay + 1), Step::Put(1)], waits, &[Step::Get(0)]].concat();
            outcome(&[&one, &other], apart, &profile)
        })
    };
    let relaxed = |loads: &Vec<Vec<u64>>| last(&loads[0], 1) == [0] && last(&loads[1], 1) == [0];
    assert!(both(false).iter().any(relaxed), "store buffers can be seen");
    assert!(!both(true).iter().any(relaxed), "a fence empties them");
}

#[test]
fn loads_do_not_come_after_later_stores_and_stores_reach_all_at_once() {
    let profile = Profile::study();
    let load_first = outcomes(|delay, warm, apart| {
        let one = [warm, &[Step::Wait(1200), Step::Get(0), Step::Put(1)]].concat();
        let other = [warm, &[Step::Wait(delay + 1), Step::Get(1), Step::Put(0)]].concat();
        outcome(&[&one, &other], apart, &profile)
    });
    assert!(load_first.iter().all(|loads| last(&loads[0], 1) == [0] || last(&loads[1], 1) == [0]));
    let far = outcomes(|delay, warm, apart| {
        let readers = [[0, 1], [1, 0]]
            .map(|[a, b]| [warm, &[Step::Wait(delay + 1), Step::Get(a), Step::Get(b)]].concat());
        let writers = [[Step::Wait(1200), Step::Put(0)], [Step::Wait(1230), Step::Put(1)]];
        outcome(&[&writers[0], &writers[1], &readers[0], &readers[1]], apart, &profile)
    });
    assert!(far.iter().all(|loads| last(&loads[2], 2) != [1, 0] || last(&loads[3], 2) != [1, 0]));
}
