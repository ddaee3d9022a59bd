//! linerate's own path under the simulator, beside DPDK's: one guest with two ports, and a switch between them.
//!
//! Two threads, as the measured comparison has them (`cargo xtask bench peers`): the `guest` is DPDK's, which returns
//! what comes in at one port by the other, and the switch forwards what comes from each port to the other: `linerate` or
//! `dpdk`. Guest and rings (`virtqueue`) are the same for both; each thread executes as many instructions for a packet as were
//! counted of the real program (`instructions`). Frames circulate, so nothing is ever lost. [`study`] runs the four cases that were
//! measured, and [`measured`] has what came out there: it stands beside the simulated figures and enters none of them.
//!
//! No sleeping, no notifications, no second worker: the steady state under load is what is modelled.

mod dpdk;
mod guest;
mod instructions;
mod linerate;
pub mod measured;
mod pace;
mod places;
mod pool;
pub mod study;
#[cfg(test)]
mod tests;
mod virtqueue;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use serde::{Deserialize, Serialize};

use super::experiment::{Length, Tally};
use dpdk::Dpdk;
use guest::Guest;
use instructions::Counts;
use linerate::Linerate;
use places::Places;
use sim::Prefetchers;
use sim::memory::{LINE, Memory};
use sim::moves::Moved;
use sim::run::Body;
use sim::{Counters, Machine, Profile, Simulated, Stuck, run};
pub use virtqueue::RingKind;

/// How a switch moves a packet from one ring to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheme {
    /// One copy, from the source's buffer into the destination's; heads are judged in the burst
    Linerate,
    /// Two copies, by way of a buffer of its own with a header of two lines
    Dpdk,
}

impl Scheme {
    /// As results show it.
    pub fn name(self) -> &'static str {
        match self {
            Scheme::Linerate => "linerate",
            Scheme::Dpdk => "DPDK",
        }
    }
}

/// One thing that linerate's switch does otherwise: what it would be worth is asked of the simulator before it is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Rings are not looked at ahead of their turn
    RingsAhead,
    /// Of a packed ring only the line of the next descriptor is fetched ahead of its turn, and not four
    DescriptorsAhead,
    /// The stock of places is filled after each burst, however few places are gone, as it was before decision 0058
    StockEachBurst,
    /// Headers of the destination are not compared (which VIRTIO asks for: nobody else says what stands there)
    Header,
    /// A ring is looked at ahead of its turn only if its last look found something
    AheadIfBusy,
    /// Lines of a packed ring whose descriptors are to be made used are fetched for writing, a stock ahead
    OwnPlaces,
    /// Buffers go back when there are 32 of them, or when sixteen looks have found nothing
    GatherUsed,
}

impl Change {
    /// All of them.
    pub const ALL: [Change; 7] = [
        Change::RingsAhead,
        Change::DescriptorsAhead,
        Change::StockEachBurst,
        Change::Header,
        Change::AheadIfBusy,
        Change::OwnPlaces,
        Change::GatherUsed,
    ];

    /// In words.
    pub fn title(self) -> &'static str {
        match self {
            Change::RingsAhead => "no ring is looked at ahead of its turn",
            Change::DescriptorsAhead => "one line of descriptors is fetched ahead, not four",
            Change::StockEachBurst => "the stock is filled after each burst, as it was",
            Change::Header => "headers are not compared",
            Change::AheadIfBusy => "only rings that had something are looked at ahead",
            Change::OwnPlaces => "descriptors of the next stock are fetched for writing",
            Change::GatherUsed => "buffers go back by 32, or after sixteen empty looks",
        }
    }
}

/// One path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Path {
    /// The switch's scheme
    pub scheme: Scheme,
    /// The kind of rings
    pub ring: RingKind,
    /// Bytes of a frame
    pub frame: u64,
    /// Descriptors in a ring
    pub entries: u64,
    /// Frames that circulate, in each direction
    pub frames: u64,
    /// What is done otherwise, where anything is
    pub change: Option<Change>,
}

impl Path {
    /// As the measured comparison has it: rings of 1024, and 256 frames from each port.
    pub fn new(scheme: Scheme, ring: RingKind, frame: u64) -> Path {
        Path { scheme, ring, frame, entries: 1024, frames: 256, change: None }
    }
}

/// DPDK takes at most so many packets at a time, as guest and as switch.
const BURST: u64 = 32;

/// Lines of one part of rings or buffers that a core took from the other, per packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Taken {
    /// To read what the other one had changed
    pub read: f64,
    /// To write, with the bytes
    pub owned: f64,
    /// To write what was here already: only the right came
    pub raised: f64,
}

impl Taken {
    /// All of them.
    pub fn sum(&self) -> f64 {
        self.read + self.owned + self.raised
    }
}

/// What moves of one part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Which way it serves: `to the switch`, `to the guest`, `frame`
    pub way: String,
    /// Which part, such as `descriptors`
    pub part: String,
    /// Taken by the switch's core
    pub switch: Taken,
    /// Taken by the guest's
    pub guest: Taken,
}

/// Looks at rings.
#[derive(Clone, Copy, Debug, Default)]
pub struct Polls {
    /// All
    pub all: u64,
    /// Those that found nothing
    pub empty: u64,
}

impl Polls {
    /// The share that found nothing.
    pub fn empty_share(&self) -> f64 {
        if self.all == 0 { 0.0 } else { self.empty as f64 / self.all as f64 }
    }
}

/// What came out of one path.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Frames forwarded by the switch, in millions a second
    pub mpps: f64,
    /// What the switch's core counted
    pub switch: Tally,
    /// What the guest's core counted, over the switch's packets
    pub guest: Tally,
    /// What moved between the two, by part
    pub parts: Vec<Part>,
    /// The switch's looks at rings
    pub switch_polls: Polls,
    /// The guest's
    pub guest_polls: Polls,
}

impl Outcome {
    /// Lines that one of the two cores took from the other, per packet.
    pub fn lines_moved(&self) -> f64 {
        self.parts.iter().map(|part| part.switch.sum() + part.guest.sum()).sum()
    }
}

/// Runs one path in the simulator.
pub fn simulate(profile: &Profile, path: &Path, length: Length) -> Result<Outcome, Stuck> {
    let places = Places::new(path);
    let mut machine = Machine::new(profile, 2, places.bytes, Prefetchers { stream: true, adjacent: true });
    machine.watch_moves(places.own);
    let shared = Rc::new(RefCell::new(Shared::default()));
    let bodies = vec![switch_body(path, &places, length, &shared), guest_body(path, &places, &shared)];
    let machine = run(machine, bodies)?;
    let shared = shared.borrow();
    let packets = shared.packets;
    Ok(Outcome {
        mpps: packets as f64 / machine.seconds(shared.switch.time) / 1e6,
        switch: Tally { packets, counters: shared.switch },
        guest: Tally { packets, counters: shared.guest },
        parts: parts(&machine, &places, packets),
        switch_polls: shared.switch_polls,
        guest_polls: shared.guest_polls,
    })
}

/// What moved, added up by the names of lines.
fn parts(machine: &Machine, places: &Places, packets: u64) -> Vec<Part> {
    let mut sums: BTreeMap<(&str, &str), [Taken; 2]> = BTreeMap::new();
    for core in 0..2 {
        let moved = machine.moves(core).iter().enumerate();
        for (line, moved) in moved.filter(|(_, moved)| **moved != Moved::default()) {
            let sum = &mut sums.entry(places.name(line as u64 * LINE)).or_default()[core];
            sum.read += f64::from(moved.read) / packets as f64;
            sum.owned += f64::from(moved.owned) / packets as f64;
            sum.raised += f64::from(moved.raised) / packets as f64;
        }
    }
    let part = |((way, part), [switch, guest]): ((&str, &str), [Taken; 2])| Part {
        way: way.to_owned(),
        part: part.to_owned(),
        switch,
        guest,
    };
    sums.into_iter().map(part).collect()
}

/// What the two threads tell each other outside of the simulated memory: when counting begins and ends.
#[derive(Default)]
struct Shared {
    counting: bool,
    done: bool,
    packets: u64,
    switch: Counters,
    guest: Counters,
    switch_polls: Polls,
    guest_polls: Polls,
}

/// Either switch.
enum Switch {
    Linerate(Box<Linerate>),
    Dpdk(Box<Dpdk>),
}

impl Switch {
    fn new(path: &Path, places: &Places) -> Switch {
        let counts = Counts::of(path);
        match path.scheme {
            Scheme::Linerate => Switch::Linerate(Box::new(Linerate::new(path, places, counts))),
            Scheme::Dpdk => Switch::Dpdk(Box::new(Dpdk::new(path, places, counts))),
        }
    }

    fn round<M: Memory>(&mut self, memory: &mut M) {
        match self {
            Switch::Linerate(switch) => switch.round(memory),
            Switch::Dpdk(switch) => switch.round(memory),
        }
    }

    fn forwarded(&self) -> u64 {
        match self {
            Switch::Linerate(switch) => switch.forwarded,
            Switch::Dpdk(switch) => switch.forwarded,
        }
    }

    fn polls(&self) -> Polls {
        let (all, empty) = match self {
            Switch::Linerate(switch) => (switch.polls, switch.empty),
            Switch::Dpdk(switch) => (switch.polls, switch.empty),
        };
        Polls { all, empty }
    }
}

impl Polls {
    fn since(self, before: Polls) -> Polls {
        Polls { all: self.all - before.all, empty: self.empty - before.empty }
    }
}

fn switch_body(path: &Path, places: &Places, length: Length, shared: &Rc<RefCell<Shared>>) -> Body {
    let (shared, mut switch) = (Rc::clone(shared), Switch::new(path, places));
    Box::new(move |memory: &mut Simulated<'_>| {
        while switch.forwarded() < length.warm_up {
            switch.round(memory);
        }
        memory.forget_moves();
        let (before, from, polls) = (memory.counters(), switch.forwarded(), switch.polls());
        shared.borrow_mut().counting = true;
        while switch.forwarded() < from + length.packets {
            switch.round(memory);
        }
        let mut shared = shared.borrow_mut();
        shared.done = true;
        shared.packets = switch.forwarded() - from;
        shared.switch = memory.counters().since(&before);
        shared.switch_polls = switch.polls().since(polls);
    })
}

fn guest_body(path: &Path, places: &Places, shared: &Rc<RefCell<Shared>>) -> Body {
    let (shared, mut guest) = (Rc::clone(shared), Guest::new(path, places, Counts::of(path)));
    Box::new(move |memory: &mut Simulated<'_>| {
        guest.begin(memory);
        let mut before = None;
        while !shared.borrow().done {
            guest.round(memory);
            if before.is_none() && shared.borrow().counting {
                before = Some((memory.counters(), guest.polls()));
            }
        }
        let (counters, polls) = before.unwrap_or_default();
        let mut shared = shared.borrow_mut();
        shared.guest = memory.counters().since(&counters);
        shared.guest_polls = guest.polls().since(polls);
    })
}
