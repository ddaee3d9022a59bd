//! The study in the simulator: two cores, on one socket or on two.

use std::cell::RefCell;
use std::rc::Rc;

use super::path::{Clocked, Guest, Host, Layout};
use super::results::{Results, Row};
use super::setting::{Direction, SIZES, Setting, VARIANTS};
use crate::cache::model::config::Prefetchers;
use crate::cache::results::{ConstantRow, Kind};
use crate::cache::simulated::run::Body;
use crate::cache::simulated::sockets::OneSocket;
use crate::cache::simulated::{Machine, Profile, Simulated, Sockets, Stuck, TICKS, run};

/// Why there are no results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimulationError {
    /// The profile says nothing of a second socket
    #[error(transparent)]
    OneSocket(#[from] OneSocket),
    /// The two wait for each other
    #[error(transparent)]
    Stuck(#[from] Stuck),
}

/// Batches before those that count: every buffer has been used twice, so lines are where they stay.
const LAPS_BEFORE: u64 = 2;
/// Batches that count.
const BATCHES: u64 = 16;

impl Clocked for Simulated<'_> {
    fn cycles(&mut self) -> f64 {
        self.counters().time as f64 / TICKS as f64
    }
}

/// What the copies to and from the guest take, in cycles per packet.
pub fn simulate(profile: &Profile, setting: &Setting) -> Result<[f64; 2], SimulationError> {
    let layout = Layout::new(setting);
    let mut machine = Machine::new(profile, 2, layout.bytes(), Prefetchers { stream: true, adjacent: true });
    if setting.far {
        machine = machine.on(Sockets::one().with_core(1).with_memory(layout.guest()))?;
    }
    let before = LAPS_BEFORE * setting.buffers.div_ceil(32);
    let sums = Rc::new(RefCell::new([0.0; 2]));
    let (mut host, mut guest) = (Host::new(setting), Guest::new(setting));
    let results = Rc::clone(&sums);
    let host: Body = Box::new(move |memory| {
        for batch in 0..before + BATCHES {
            let costs = host.batch(memory);
            if batch >= before {
                let mut sums = results.borrow_mut();
                *sums = [sums[0] + costs[0], sums[1] + costs[1]];
            }
        }
    });
    let guest: Body = Box::new(move |memory| (0..before + BATCHES).for_each(|_| guest.batch(memory)));
    run(machine, vec![host, guest])?;
    let sums = *sums.borrow();
    Ok(sums.map(|sum| sum / BATCHES as f64))
}

/// The whole study.
pub fn simulate_all(profile: &Profile) -> Result<Results, SimulationError> {
    let mut rows = Vec::new();
    for variant in &VARIANTS {
        for size in SIZES {
            let costs = simulate(profile, &variant.setting(size))?;
            for (direction, cycles) in [Direction::HostToGuest, Direction::GuestToHost].into_iter().zip(costs)
            {
                rows.push(Row { variant: variant.name.to_owned(), direction, size, cycles });
            }
        }
    }
    Ok(Results {
        memory: Kind::Simulated,
        processor: profile.name.clone(),
        constants: ConstantRow::of(profile),
        rows,
        notes: vec![
            "The guest reads, or reads and writes, the whole packet.".to_owned(),
            "A string instruction is simulated without what it takes to begin, and vectors without the frequency \
             that wide ones cost: `rep-movsb` and `avx512` are lower bounds."
                .to_owned(),
        ],
    })
}
