//! linerate's own path under the simulator, beside DPDK's: one guest with two ports, and a switch between them.
//!
//! Two threads, as the measured comparison has them (`cargo xtask bench peers`): the guest is DPDK's, which returns
//! what comes in at one port by the other, and the switch forwards what comes from each port to the other. The guest and the
//! rings ([`virtqueue`]) are the same for both switches; what differs is what a [`switch`] does with a packet between
//! its two rings. Frames circulate, so nothing is ever lost. Only traffic between caches is modelled: no
//! tables, no drops, no sleeping.

mod guest;
mod switch;
mod virtqueue;

use std::cell::RefCell;
use std::rc::Rc;

use serde::Serialize;

use super::experiment::{Length, Tally};
use super::memory::Address;
use super::model::config::Prefetchers;
use super::simulated::run::Body;
use super::simulated::{Counters, Machine, Profile, Simulated, Stuck, run};
use guest::Guest;
use switch::Switch;
pub use virtqueue::RingKind;
use virtqueue::Virtqueue;

/// How a switch moves a packet from one ring to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheme {
    /// One copy, from the source's buffer into the destination's; heads are judged in the burst
    Linerate,
    /// Two copies, by way of a buffer of its own with a header of two lines
    Dpdk,
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
}

impl Path {
    /// As the measured comparison has it.
    pub fn new(scheme: Scheme, ring: RingKind, frame: u64) -> Path {
        Path { scheme, ring, frame, entries: 256, frames: 128 }
    }
}

/// At most so many packets are taken at a time, by guest and switch.
pub(super) const BURST: u64 = 32;
/// From one buffer of the guest to the next: header, headroom and data, as DPDK lays them out.
pub(super) const BUFFER: u64 = 2304;
/// From a buffer's beginning to the packet.
pub(super) const PACKET_AT: u64 = 256;
/// The virtio-net header, with the number of buffers.
pub(super) const NET_HEADER: u64 = 12;

/// Where everything of a path lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    /// For each port, the ring that the guest receives from and the one that it sends by
    receive: [Virtqueue; 2],
    transmit: [Virtqueue; 2],
    /// The guest's buffers
    buffers: Address,
    /// The switch's own memory: its burst, or its buffers
    own: Address,
    bytes: u64,
}

impl Places {
    fn new(path: &Path) -> Places {
        let size = Virtqueue::bytes(path.entries);
        let queue = |n: u64| Virtqueue::new(path.ring, n * size, path.entries);
        let buffers = 4 * size;
        let own = (buffers + Guest::buffers(path) * BUFFER).next_multiple_of(4096);
        Places {
            receive: [queue(0), queue(1)],
            transmit: [queue(2), queue(3)],
            buffers,
            own,
            bytes: own + Switch::OWN * BUFFER,
        }
    }
}

/// What came out of one path.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Frames forwarded by the switch, in millions a second
    pub mpps: f64,
    /// What the switch's core counted
    pub switch: Tally,
    /// What the guest's core counted, over the switch's packets
    pub guest: Tally,
}

impl Outcome {
    /// Lines that one of the two cores took from the other, per packet.
    pub fn lines_moved(&self) -> f64 {
        let lost = self.switch.counters.lost_lines + self.guest.counters.lost_lines;
        lost as f64 / self.switch.packets as f64
    }
}

/// Runs one path in the simulator.
pub fn simulate(profile: &Profile, path: &Path, length: Length) -> Result<Outcome, Stuck> {
    let places = Places::new(path);
    let machine = Machine::new(profile, 2, places.bytes, Prefetchers { stream: true, adjacent: true });
    let shared = Rc::new(RefCell::new(Shared::default()));
    let machine =
        run(machine, vec![switch_body(path, places, length, &shared), guest_body(path, places, &shared)])?;
    let shared = shared.borrow();
    let packets = shared.packets;
    Ok(Outcome {
        mpps: packets as f64 / machine.seconds(shared.switch.time) / 1e6,
        switch: Tally { packets, counters: shared.switch },
        guest: Tally { packets, counters: shared.guest },
    })
}

/// What the two threads tell each other outside of the simulated memory: when counting begins and ends.
#[derive(Default)]
struct Shared {
    counting: bool,
    done: bool,
    packets: u64,
    switch: Counters,
    guest: Counters,
}

fn switch_body(path: &Path, places: Places, length: Length, shared: &Rc<RefCell<Shared>>) -> Body {
    let (shared, mut switch) = (Rc::clone(shared), Switch::new(path, places));
    Box::new(move |memory: &mut Simulated<'_>| {
        while switch.forwarded() < length.warm_up {
            switch.round(memory);
        }
        let (before, from) = (memory.counters(), switch.forwarded());
        shared.borrow_mut().counting = true;
        while switch.forwarded() < from + length.packets {
            switch.round(memory);
        }
        let mut shared = shared.borrow_mut();
        shared.done = true;
        shared.packets = switch.forwarded() - from;
        shared.switch = memory.counters().since(&before);
    })
}

fn guest_body(path: &Path, places: Places, shared: &Rc<RefCell<Shared>>) -> Body {
    let (shared, mut guest) = (Rc::clone(shared), Guest::new(path, places));
    Box::new(move |memory: &mut Simulated<'_>| {
        guest.begin(memory);
        let mut before = None;
        while !shared.borrow().done {
            guest.round(memory);
            if before.is_none() && shared.borrow().counting {
                before = Some(memory.counters());
            }
        }
        let before = before.unwrap_or_default();
        shared.borrow_mut().guest = memory.counters().since(&before);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_frame_that_began_is_still_on_its_way() {
        for (scheme, ring) in [(Scheme::Linerate, RingKind::Split), (Scheme::Dpdk, RingKind::Packed)] {
            let length = Length { packets: 3000, warm_up: 500 };
            let outcome =
                simulate(&Profile::study(), &Path::new(scheme, ring, 64), length).expect("frames circulate");
            assert!(outcome.switch.packets >= 3000, "{outcome:?}");
        }
    }

    #[test]
    fn one_copy_moves_no_more_lines_than_two() {
        for ring in [RingKind::Split, RingKind::Packed] {
            let moved = |scheme| {
                let length = Length { packets: 6000, warm_up: 2000 };
                simulate(&Profile::study(), &Path::new(scheme, ring, 1514), length)
                    .expect("frames circulate")
                    .lines_moved()
            };
            let (ours, theirs) = (moved(Scheme::Linerate), moved(Scheme::Dpdk));
            assert!(ours <= theirs * 1.05, "{ring:?}: {ours} lines against {theirs}");
        }
    }
}
