//! Stages of the simulated switch: what each touches in a round, in the order of `dataplane/engine/src/worker.rs` and `dataplane/engine/src/handoff`.
//!
//! What a stage executes beside its accesses is in [`Instructions`]. Frames come from a card that has always more (DDIO: they and
//! their descriptors lie in the shared cache), and go to the memory of another port; what a device reads there costs nobody.

use super::handoff::{HandoffEntry, Receiver, Sender};
use super::places::{FRAME, Heads, Places, PortRing};
use super::pool::Cache;
use super::{Instructions, Shared, flow};
use sim::Simulated;
use sim::memory::{Copying, Intent, LINE, Memory};
use std::cell::RefCell;
use std::rc::Rc;

/// Packets that are taken at once.
const BURST: u64 = 64;
/// Descriptors on a line.
const PER_LINE: u64 = 4;
/// What a packet's place in the descriptor ring and beside it takes.
const DESCRIPTOR: u64 = 16;

/// What all stages know.
pub(super) struct World {
    pub(super) places: Places,
    pub(super) work: Instructions,
    pub(super) shared: Rc<RefCell<Shared>>,
}

/// What a stage takes from.
pub(super) enum Input {
    /// A port, and packets that came from it so far.
    Port { number: u64, ring: PortRing, taken: u64 },
    /// The stages before.
    Handoffs(Vec<Receiver>),
}

/// What a stage gives to.
pub(super) enum Output {
    /// A port, and packets that went to it so far.
    Port { ring: PortRing, sent: u64 },
    /// The stages behind, of which flows choose one.
    Handoffs(Vec<Sender>),
}

/// One stage.
pub(super) struct Stage {
    pub(super) world: Rc<World>,
    pub(super) input: Input,
    pub(super) output: Output,
    /// Whether it decides where packets go.
    pub(super) judges: bool,
    pub(super) heads: Heads,
    /// Which of its thread's caches it uses.
    pub(super) cache: usize,
}

/// A packet in the burst: its buffer where it has one, and what chooses its way.
#[derive(Clone, Copy, Debug)]
struct Packet {
    buffer: Option<u64>,
    flow: u64,
}

impl Stage {
    /// A look at each input. Whether there was any packet.
    pub(super) fn round(&mut self, memory: &mut Simulated<'_>, caches: &mut [Cache]) -> bool {
        let inputs = match &self.input {
            Input::Port { .. } => 1,
            Input::Handoffs(handoffs) => handoffs.len(),
        };
        let mut worked = false;
        for at in 0..inputs {
            if !self.has_room(memory) {
                break;
            }
            let packets = self.take(memory, at);
            if !packets.is_empty() {
                self.pass(memory, &mut caches[self.cache], &packets);
                worked = true;
            }
        }
        worked
    }

    /// Whether every handoff queue behind has room for two bursts.
    fn has_room(&mut self, memory: &mut Simulated<'_>) -> bool {
        match &mut self.output {
            Output::Port { .. } => true,
            Output::Handoffs(handoffs) => {
                handoffs.iter_mut().all(|handoff| handoff.has_room(memory, 2 * BURST))
            }
        }
    }

    fn take(&mut self, memory: &mut Simulated<'_>, at: usize) -> Vec<Packet> {
        let world = Rc::clone(&self.world);
        match &mut self.input {
            Input::Port { number, ring, taken } => {
                if world.shared.borrow().stopped {
                    return Vec::new();
                }
                let first = *taken;
                *taken += BURST;
                world.shared.borrow_mut().taken += BURST;
                receive(memory, &world, *ring, first);
                let packet = |n| Packet { buffer: None, flow: flow(*number, n) };
                (first..first + BURST).map(packet).collect()
            }
            Input::Handoffs(handoffs) => {
                let entries = handoffs[at].take(memory, BURST);
                memory.follows();
                for entry in &entries {
                    let packet = world.places.packet(entry.buffer);
                    memory.prefetch(packet, Intent::Read);
                    memory.prefetch(packet + LINE, Intent::Read);
                    memory.work(world.work.handoff);
                }
                entries
                    .into_iter()
                    .map(|entry| Packet { buffer: Some(entry.buffer), flow: entry.to })
                    .collect()
            }
        }
    }

    /// Loads heads, judges where that is this stage's task, sends, and gives back what it has no more use for.
    fn pass(&mut self, memory: &mut Simulated<'_>, cache: &mut Cache, packets: &[Packet]) {
        let world = Rc::clone(&self.world);
        for (n, packet) in (0..).zip(packets) {
            let from = match (packet.buffer, &self.input) {
                (None, Input::Port { ring, taken, .. }) => ring.frame(*taken - packets.len() as u64 + n),
                (buffer, _) => world.places.packet(buffer.unwrap_or(0)),
            };
            memory.copy(from, self.heads.at(n), FRAME, Copying::Libc);
            if self.judges {
                memory.work(world.work.validate);
            }
        }
        match self.output {
            Output::Port { .. } => self.write(memory, cache, packets),
            Output::Handoffs(_) => self.hand_on(memory, cache, packets),
        }
        if let Input::Port { ring, taken, .. } = &self.input {
            give_back(memory, &world, *ring, *taken - packets.len() as u64);
        }
    }

    /// To the port, and buffers to the pool.
    fn write(&mut self, memory: &mut Simulated<'_>, cache: &mut Cache, packets: &[Packet]) {
        let Output::Port { ring, sent } = &mut self.output else { return };
        for n in 0..packets.len() as u64 {
            memory.copy(self.heads.at(n), ring.frame(*sent), FRAME, Copying::Libc);
            memory.write(ring.descriptor(*sent), DESCRIPTOR);
            memory.work(self.world.work.write);
            *sent += 1;
        }
        packets.iter().filter_map(|packet| packet.buffer).for_each(|buffer| cache.free(memory, buffer));
        self.world.shared.borrow_mut().send(memory, packets.len() as u64);
    }

    /// To the stages behind: what has no buffer yet is copied into one.
    fn hand_on(&mut self, memory: &mut Simulated<'_>, cache: &mut Cache, packets: &[Packet]) {
        let Output::Handoffs(handoffs) = &mut self.output else { return };
        let many = handoffs.len() as u64;
        for (at, handoff) in (0..).zip(handoffs) {
            let mut entries = Vec::new();
            for (n, packet) in (0..).zip(packets) {
                let (to, rest) =
                    if many > 1 { (packet.flow % many, packet.flow / many) } else { (0, packet.flow) };
                if to != at {
                    continue;
                }
                memory.work(self.world.work.handoff);
                let buffer = packet.buffer.or_else(|| {
                    let buffer = cache.alloc(memory)?;
                    memory.copy(self.heads.at(n), self.world.places.packet(buffer), FRAME, Copying::Libc);
                    Some(buffer)
                });
                match buffer {
                    Some(buffer) => entries.push(HandoffEntry { buffer, to: rest }),
                    None => self.world.shared.borrow_mut().lost += 1,
                }
            }
            handoff.push(memory, &entries);
        }
    }
}

/// The card has written frames and their descriptors; they are swept, and frames asked for.
fn receive(memory: &mut Simulated<'_>, world: &World, ring: PortRing, first: u64) {
    for n in first..first + BURST {
        memory.device_write(ring.frame(n), FRAME);
        if n % PER_LINE == 0 {
            memory.device_write(ring.descriptor(n), LINE);
        }
    }
    for n in first..first + BURST {
        memory.read(ring.descriptor(n), DESCRIPTOR);
        memory.prefetch(ring.frame(n), Intent::Read);
        memory.work(world.work.take);
    }
}

/// Descriptors of a burst are the card's again.
fn give_back(memory: &mut Simulated<'_>, world: &World, ring: PortRing, first: u64) {
    for n in first..first + BURST {
        memory.write(ring.descriptor(n), DESCRIPTOR);
        memory.work(world.work.give_back);
    }
}
