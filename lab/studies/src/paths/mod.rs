//! The data paths of linerate and DPDK under the simulator: one guest with two ports, and a switch between them.
//!
//! Two threads, as in the measured comparison (`cargo xtask bench peers`): the `guest` is DPDK's, which returns packets
//! through the other port, and the switch, `linerate` or `dpdk`, forwards from each port to the other. Guest and rings
//! (`virtqueue`) are the same for both; each thread executes the instructions per packet counted in the real program
//! (`instructions`). Frames circulate, so none is lost. [`study`] runs the four measured cases, and [`measured`] holds
//! their measured results, which are shown beside simulated values and enter none of them.
//!
//! The model covers the steady state under load: no sleeping, no notifications, no second worker.

#[cfg(test)]
mod conformance;
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

use super::experiment::{Length, ThreadCounts};
use dpdk::Dpdk;
use guest::Guest;
use instructions::Counts;
use linerate::Linerate;
use places::Places;
use sim::Prefetchers;
use sim::memory::{LINE, Memory};
use sim::moves::Moved;
use sim::run::Body;
use sim::{Counters, Deadlock, Machine, Profile, Simulated, run};
pub use virtqueue::RingKind;

/// Method by which a switch moves a packet between rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheme {
    /// One copy, from the source's buffer into the destination's; heads are classified in the burst
    Linerate,
    /// Two copies, through its own buffer with a header of two lines
    Dpdk,
}

impl Scheme {
    /// Display name.
    pub fn name(self) -> &'static str {
        match self {
            Scheme::Linerate => "linerate",
            Scheme::Dpdk => "DPDK",
        }
    }
}

/// A change to linerate's switch, evaluated in the simulator before it is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// No prefetch of the next ring's entries
    RingsAhead,
    /// In a packed ring, only the next descriptor's line is prefetched, instead of four
    DescriptorsAhead,
    /// The cache of available buffers is filled after each burst, even if few are used, as before decision 0058
    RefillEachBurst,
    /// Headers of the destination are not compared (VIRTIO requires it: their content is otherwise unknown)
    Header,
    /// A ring's entries are prefetched only if its last poll found something
    AheadIfBusy,
    /// Packed ring lines whose descriptors will be marked used are prefetched for writing, one cache fill ahead
    OwnPlaces,
    /// Buffers are given back in groups of 32, or after sixteen empty polls
    GatherUsed,
}

impl Change {
    /// All changes.
    pub const ALL: [Change; 7] = [
        Change::RingsAhead,
        Change::DescriptorsAhead,
        Change::RefillEachBurst,
        Change::Header,
        Change::AheadIfBusy,
        Change::OwnPlaces,
        Change::GatherUsed,
    ];

    /// Description.
    pub fn title(self) -> &'static str {
        match self {
            Change::RingsAhead => "no prefetch of the next ring",
            Change::DescriptorsAhead => "prefetch of one line of descriptors, not four",
            Change::RefillEachBurst => "avail cache refilled after each burst",
            Change::Header => "headers not compared",
            Change::AheadIfBusy => "prefetch only of rings that were not empty",
            Change::OwnPlaces => "descriptors of the next refill prefetched for writing",
            Change::GatherUsed => "buffers returned by 32, or after sixteen empty polls",
        }
    }
}

/// Parameters of one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Path {
    /// Switch scheme
    pub scheme: Scheme,
    /// Ring kind
    pub ring: RingKind,
    /// Frame size in bytes
    pub frame: u64,
    /// Descriptors per ring
    pub entries: u64,
    /// Circulating frames per direction
    pub frames: u64,
    /// Change to linerate's switch, if any
    pub change: Option<Change>,
}

impl Path {
    /// Creates the path of the measured comparison: rings of 1024, and 256 frames from each port.
    pub fn new(scheme: Scheme, ring: RingKind, frame: u64) -> Path {
        Path { scheme, ring, frame, entries: 1024, frames: 256, change: None }
    }
}

/// Maximum burst of DPDK, as guest and as switch.
const BURST: u64 = 32;

/// Lines of one part of rings or buffers that a core took from the other, per packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Taken {
    /// Reads of lines that the other core had changed
    pub read: f64,
    /// Writes that transferred the bytes
    pub owned: f64,
    /// Writes that transferred only ownership
    pub raised: f64,
}

impl Taken {
    /// Sum of all kinds.
    pub fn sum(&self) -> f64 {
        self.read + self.owned + self.raised
    }
}

/// Line transfers of one part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Purpose: `to the switch`, `to the guest`, `frame`
    pub way: String,
    /// Part name, such as `descriptors`
    pub part: String,
    /// Lines taken by the switch's core
    pub switch: Taken,
    /// Lines taken by the guest's core
    pub guest: Taken,
}

/// Ring polls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Polls {
    /// All polls
    pub all: u64,
    /// Empty polls
    pub empty: u64,
}

impl Polls {
    /// Share of empty polls, 0 to 1.
    pub fn empty_share(&self) -> f64 {
        if self.all == 0 { 0.0 } else { self.empty as f64 / self.all as f64 }
    }
}

/// Result of one path.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Frames forwarded by the switch, in millions per second
    pub mpps: f64,
    /// Counters of the switch's core
    pub switch: ThreadCounts,
    /// Counters of the guest's core, over the switch's packets
    pub guest: ThreadCounts,
    /// Line transfers between the two cores, by part
    pub parts: Vec<Part>,
    /// Ring polls of the switch
    pub switch_polls: Polls,
    /// Ring polls of the guest
    pub guest_polls: Polls,
}

impl Outcome {
    /// Lines that the two cores took from each other, per packet.
    pub fn lines_moved(&self) -> f64 {
        self.parts.iter().map(|part| part.switch.sum() + part.guest.sum()).sum()
    }
}

/// Runs one path in the simulator.
pub fn simulate(profile: &Profile, path: &Path, length: Length) -> Result<Outcome, Deadlock> {
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
        switch: ThreadCounts { packets, counters: shared.switch },
        guest: ThreadCounts { packets, counters: shared.guest },
        parts: parts(&machine, &places, packets),
        switch_polls: shared.switch_polls,
        guest_polls: shared.guest_polls,
    })
}

/// Sums line transfers by part name.
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

/// State shared by the two threads outside the simulated memory: start and end of counting.
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
