//! Stages of the simulated switch: memory accesses of a round, in the order of `dataplane/engine/src/worker.rs` and
//! `dataplane/engine/src/handoff`.
//!
//! `conformance` compares the accesses to handoff queues with a pipeline of the engine; the other accesses are kept
//! equal by hand. The other instructions of a stage are in [`Instructions`]. Frames come from a network card that
//! always has more (DDIO: frames and descriptors lie in the shared cache), and go to the memory of another port; device
//! reads there cost no core time.

use super::handoff::{HandoffEntry, Receiver, Sender};
use super::places::{BURST, FRAME, Heads, Places, PortRing};
use super::pool::Cache;
use super::{Instructions, Shared, flow};
use sim::Simulated;
use sim::memory::{Copying, Intent, LINE, Memory};
use std::cell::RefCell;
use std::rc::Rc;

/// Descriptors per line.
const PER_LINE: u64 = 4;
/// Size of a descriptor in bytes.
const DESCRIPTOR: u64 = 16;

/// State shared by all stages.
pub(super) struct ChainContext {
    pub(super) places: Places,
    pub(super) work: Instructions,
    pub(super) shared: Rc<RefCell<Shared>>,
}

/// Input of a stage.
pub(super) enum Input {
    /// A port, and the packets received from it so far.
    Port { number: u64, ring: PortRing, taken: u64 },
    /// Handoff queues of the previous stages.
    Handoffs(Vec<Receiver>),
}

/// Output of a stage.
pub(super) enum Output {
    /// A port, and the packets sent to it so far.
    Port { ring: PortRing, sent: u64 },
    /// Handoff queues of the next stages, selected by flow.
    Handoffs(Vec<Sender>),
}

/// One stage.
pub(super) struct Stage {
    pub(super) context: Rc<ChainContext>,
    pub(super) input: Input,
    pub(super) output: Output,
    /// Whether the stage classifies packets.
    pub(super) classifies: bool,
    pub(super) heads: Heads,
    /// Index of the stage's cache among its thread's caches.
    pub(super) cache: usize,
}

/// A packet in the burst: its buffer, if it has one, and its flow.
#[derive(Clone, Copy, Debug)]
struct Packet {
    buffer: Option<u64>,
    flow: u64,
}

impl Stage {
    /// Polls each input once; returns whether there was a packet.
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

    /// Whether every output handoff queue has room for two bursts.
    fn has_room(&mut self, memory: &mut Simulated<'_>) -> bool {
        match &mut self.output {
            Output::Port { .. } => true,
            Output::Handoffs(handoffs) => {
                handoffs.iter_mut().all(|handoff| handoff.has_room(memory, 2 * BURST))
            }
        }
    }

    fn take(&mut self, memory: &mut Simulated<'_>, at: usize) -> Vec<Packet> {
        let context = Rc::clone(&self.context);
        match &mut self.input {
            Input::Port { number, ring, taken } => {
                if context.shared.borrow().stopped {
                    return Vec::new();
                }
                let first = *taken;
                *taken += BURST;
                context.shared.borrow_mut().taken += BURST;
                receive(memory, &context, *ring, first);
                let packet = |n| Packet { buffer: None, flow: flow(*number, n) };
                (first..first + BURST).map(packet).collect()
            }
            Input::Handoffs(handoffs) => {
                let entries = handoffs[at].take(memory, BURST);
                memory.follows();
                for entry in &entries {
                    let packet = context.places.packet(entry.buffer);
                    memory.prefetch(packet, Intent::Read);
                    memory.prefetch(packet + LINE, Intent::Read);
                    memory.work(context.work.handoff);
                }
                entries
                    .into_iter()
                    .map(|entry| Packet { buffer: Some(entry.buffer), flow: entry.to })
                    .collect()
            }
        }
    }

    /// Loads heads, classifies if this stage does, sends, and gives buffers or descriptors back.
    fn pass(&mut self, memory: &mut Simulated<'_>, cache: &mut Cache, packets: &[Packet]) {
        let context = Rc::clone(&self.context);
        for (n, packet) in (0..).zip(packets) {
            let from = match (packet.buffer, &self.input) {
                (None, Input::Port { ring, taken, .. }) => ring.frame(*taken - packets.len() as u64 + n),
                (buffer, _) => context.places.packet(buffer.unwrap_or(0)),
            };
            memory.copy(from, self.heads.at(n), FRAME, Copying::Libc);
            if self.classifies {
                memory.work(context.work.validate);
            }
        }
        match self.output {
            Output::Port { .. } => self.write(memory, cache, packets),
            Output::Handoffs(_) => self.hand_over(memory, cache, packets),
        }
        if let Input::Port { ring, taken, .. } = &self.input {
            give_back(memory, &context, *ring, *taken - packets.len() as u64);
        }
    }

    /// Writes packets to the port, and gives buffers back to the pool.
    fn write(&mut self, memory: &mut Simulated<'_>, cache: &mut Cache, packets: &[Packet]) {
        let Output::Port { ring, sent } = &mut self.output else { return };
        for n in 0..packets.len() as u64 {
            memory.copy(self.heads.at(n), ring.frame(*sent), FRAME, Copying::Libc);
            memory.write(ring.descriptor(*sent), DESCRIPTOR);
            memory.work(self.context.work.write);
            *sent += 1;
        }
        packets.iter().filter_map(|packet| packet.buffer).for_each(|buffer| cache.free(memory, buffer));
        self.context.shared.borrow_mut().send(memory, packets.len() as u64);
    }

    /// Hands packets to the next stages; packets without a buffer are copied into one.
    fn hand_over(&mut self, memory: &mut Simulated<'_>, cache: &mut Cache, packets: &[Packet]) {
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
                memory.work(self.context.work.handoff);
                let buffer = packet.buffer.or_else(|| {
                    let buffer = cache.alloc(memory)?;
                    memory.copy(self.heads.at(n), self.context.places.packet(buffer), FRAME, Copying::Libc);
                    Some(buffer)
                });
                match buffer {
                    Some(buffer) => entries.push(HandoffEntry { buffer, to: rest }),
                    None => self.context.shared.borrow_mut().lost += 1,
                }
            }
            handoff.push(memory, &entries);
        }
    }
}

/// The card writes frames and their descriptors; the stage pops the descriptors and prefetches the frames.
fn receive(memory: &mut Simulated<'_>, context: &ChainContext, ring: PortRing, first: u64) {
    for n in first..first + BURST {
        memory.device_write(ring.frame(n), FRAME);
        if n % PER_LINE == 0 {
            memory.device_write(ring.descriptor(n), LINE);
        }
    }
    for n in first..first + BURST {
        memory.read(ring.descriptor(n), DESCRIPTOR);
        memory.prefetch(ring.frame(n), Intent::Read);
        memory.work(context.work.take);
    }
}

/// Returns a burst's descriptors to the card.
fn give_back(memory: &mut Simulated<'_>, context: &ChainContext, ring: PortRing, first: u64) {
    for n in first..first + BURST {
        memory.write(ring.descriptor(n), DESCRIPTOR);
        memory.work(context.work.give_back);
    }
}
