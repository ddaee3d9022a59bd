//! The queues of one port: classes with rates ([`Htb`]), each leaf with fair queues ([`FqCodel`]).
//!
//! Packets, their class and hash, and time go in; packets that may be sent come out ([`Scheduler::dequeue`]). Every
//! packet that was added leaves exactly once: sent, or in the list of dropped ones. Nothing is allocated after
//! construction.

use crate::fq_codel::{ClassCounts, FqCodel, FqParams, Shared, Stored, Waiting};
use crate::htb::{ClassRates, Htb, Node};
use crate::store::Store;

/// A class of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassConfig {
    /// Place and rates.
    pub node: Node,
    /// Queues of a leaf; `None` for an inner class.
    pub leaf: Option<FqParams>,
}

/// Why packets were dropped since the last call of [`Scheduler::take_drops`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// Class or memory full.
    pub full: u64,
    /// CoDel.
    pub codel: u64,
}

/// Queues of one port.
pub struct Scheduler<T> {
    htb: Htb,
    leaves: Vec<Option<FqCodel>>,
    /// Leaf of packets whose class is not a leaf.
    first: usize,
    store: Store<Stored<T>>,
    dropped: Vec<T>,
    memory: u64,
    memory_limit: u64,
    reported: Drops,
}

impl<T: Waiting> Scheduler<T> {
    /// Queues with these classes, the first of which is the root, and at most `memory_limit` bytes of packets. Returns
    /// `None` if no class is a leaf.
    pub fn new(classes: &[ClassConfig], memory_limit: u64) -> Option<Self> {
        let nodes: Vec<_> = classes.iter().map(|class| class.node).collect();
        let most: u64 = classes.iter().filter_map(|class| class.leaf).map(|leaf| u64::from(leaf.limit)).sum();
        let most = u32::try_from(most).unwrap_or(u32::MAX - 1);
        Some(Self {
            htb: Htb::new(&nodes),
            leaves: classes.iter().map(|class| class.leaf.map(FqCodel::new)).collect(),
            first: classes.iter().position(|class| class.leaf.is_some())?,
            store: Store::new(most),
            dropped: Vec::with_capacity(most as usize),
            memory: 0,
            memory_limit,
            reported: Drops::default(),
        })
    }

    /// Adds a packet to a leaf. If the class or the memory is full, packets of the longest queue are dropped.
    pub fn enqueue(&mut self, class: usize, packet: T, hash: u32, now: u64) {
        let needed = u64::from(packet.memory());
        while self.memory + needed > self.memory_limit && self.drop_largest() {}
        let is_leaf = self.leaves.get(class).is_some_and(Option::is_some);
        let class = if is_leaf { class } else { self.first };
        self.memory += needed;
        self.with(class, |leaf, shared| leaf.enqueue(shared, packet, hash, now));
    }

    /// Takes the next packet that may be sent at `now`, with its class.
    pub fn dequeue(&mut self, now: u64) -> Option<(usize, T)> {
        self.htb.advance(now);
        loop {
            let leaves = &self.leaves;
            let class = self.htb.select(|class| has_packets(leaves, class))?;
            let packet = self.with(class, |leaf, shared| leaf.dequeue(shared, now)).flatten();
            if let Some(packet) = &packet {
                self.htb.charge(class, packet.bytes());
                self.memory -= u64::from(packet.memory());
            }
            if !has_packets(&self.leaves, class) {
                self.htb.idle(class);
            }
            // CoDel may have dropped the last packets of the class.
            if packet.is_some() {
                return packet.map(|packet| (class, packet));
            }
        }
    }

    /// Time at which the next packet may be sent; `None` if none waits.
    pub fn next(&self) -> Option<u64> {
        self.htb.next(|class| has_packets(&self.leaves, class))
    }

    /// Drops all packets.
    pub fn clear(&mut self) {
        for class in 0..self.leaves.len() {
            self.with(class, FqCodel::clear);
        }
    }

    /// Changes the rates of a class at `now`.
    pub fn set_rates(&mut self, class: usize, rates: ClassRates, now: u64) {
        self.htb.advance(now);
        self.htb.set_rates(class, rates);
    }

    /// Rates of a class.
    pub fn rates(&self, class: usize) -> Option<ClassRates> {
        self.htb.rates(class)
    }

    /// Counters of a leaf.
    pub fn counts(&self, class: usize) -> Option<&ClassCounts> {
        self.leaves.get(class)?.as_ref().map(FqCodel::counts)
    }

    /// Bytes of memory of the packets that wait.
    pub fn memory(&self) -> u64 {
        self.memory
    }

    /// Dropped packets, whose memory the caller frees.
    pub fn dropped(&mut self) -> impl Iterator<Item = T> {
        self.dropped.drain(..)
    }

    /// Numbers of packets that were dropped since the last call.
    pub fn take_drops(&mut self) -> Drops {
        let leaves = self.leaves.iter().flatten().map(FqCodel::counts);
        let total = leaves.fold(Drops::default(), |all, counts| Drops {
            full: all.full + counts.full,
            codel: all.codel + counts.codel,
        });
        let before = std::mem::replace(&mut self.reported, total);
        Drops { full: total.full - before.full, codel: total.codel - before.codel }
    }

    /// Drops packets of the class with the largest backlog. Returns `false` if no packet waits.
    fn drop_largest(&mut self) -> bool {
        let backlog = |leaf: &Option<FqCodel>| leaf.as_ref().map_or(0, |leaf| leaf.counts().backlog_bytes);
        let largest = (0..self.leaves.len()).max_by_key(|&class| backlog(&self.leaves[class]));
        let Some(class) = largest.filter(|&class| has_packets(&self.leaves, class)) else { return false };
        self.with(class, FqCodel::drop_longest);
        true
    }

    /// Runs `act` on a leaf, and frees the memory of the packets that it drops.
    fn with<R>(
        &mut self,
        class: usize,
        act: impl FnOnce(&mut FqCodel, &mut Shared<'_, T>) -> R,
    ) -> Option<R> {
        let leaf = self.leaves.get_mut(class)?.as_mut()?;
        let before = self.dropped.len();
        let result = act(leaf, &mut Shared { store: &mut self.store, dropped: &mut self.dropped });
        self.memory -= self.dropped[before..].iter().map(|packet| u64::from(packet.memory())).sum::<u64>();
        Some(result)
    }
}

fn has_packets(leaves: &[Option<FqCodel>], class: usize) -> bool {
    leaves.get(class).and_then(Option::as_ref).is_some_and(|leaf| !leaf.is_empty())
}

#[cfg(test)]
mod tests;
