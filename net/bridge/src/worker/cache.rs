//! Per-worker flow cache: exact match on both MAC addresses, so that a known flow costs one cache line instead of two
//! table look-ups.
//!
//! An entry is valid for one second, and only while no station has left the two ports of its flow, like a
//! [`super::pass::CachedVerdict`]. Flows without a slot in a second use the table: a source that varies its address
//! forces others to do so, and has no further effect. The index depends on a secret, so a sender cannot choose it.

use crate::hash::fold;
use port::PortId;
use std::hash::{BuildHasher, RandomState};

/// Length of both MAC addresses, in bytes.
pub(super) const ADDRESSES: usize = 12;
/// Number of cache lines, a power of two, of two flows each.
const LINES: usize = 2048;

/// A flow seen in one second: input and output port.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub(super) struct Entry {
    pub(super) addresses: [u8; ADDRESSES],
    pub(super) from: PortId,
    pub(super) to: PortId,
    pub(super) second: u32,
    /// Change counts of the source and destination ports, low 32 bits: fewer changes occur in one second.
    pub(super) changes: [u32; 2],
}

const _: () = assert!(size_of::<Entry>() == 32);

/// Empty entry, with a second that never occurs.
const EMPTY: Entry =
    Entry { addresses: [0; ADDRESSES], from: PortId(0), to: PortId(0), second: u32::MAX, changes: [0; 2] };

/// The two entries of one cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([Entry; 2]);

/// Flow cache of one worker.
pub(super) struct FlowCache {
    lines: Box<[Line]>,
    secret: [u64; 4],
}

impl FlowCache {
    pub(super) fn new() -> Self {
        let secret = RandomState::new();
        Self {
            lines: vec![Line([EMPTY; 2]); LINES].into_boxed_slice(),
            // Odd multipliers lose no bits.
            secret: [0, 1, 2, 3].map(|i| secret.hash_one(i) | 1),
        }
    }

    /// Removes all flows.
    pub(super) fn clear(&mut self) {
        self.lines.fill(Line([EMPTY; 2]));
    }

    #[inline(always)]
    fn place(&self, addresses: &[u8; ADDRESSES]) -> usize {
        let first = addresses.first_chunk().map_or(0, |first| u64::from_le_bytes(*first));
        let last = addresses.last_chunk().map_or(0, |last| u32::from_le_bytes(*last));
        let [a, b, c, d] = self.secret;
        fold(fold(first ^ a, u64::from(last) ^ b) ^ c, d) as usize % LINES
    }

    /// The entry of a flow with these addresses from port `from`, if it was seen in this second.
    #[inline(always)]
    pub(super) fn get(&self, addresses: &[u8; ADDRESSES], from: PortId, second: u32) -> Option<&Entry> {
        let Line(entries) = self.lines.get(self.place(addresses))?;
        let is_it =
            |entry: &&Entry| entry.addresses == *addresses && entry.from == from && entry.second == second;
        entries.iter().find(is_it)
    }

    /// The slot to store a flow in. Returns `None` if it is already stored, or if its line has two other flows of this
    /// second. Those are kept, so that flows that share a line do not evict each other repeatedly.
    #[inline(always)]
    pub(super) fn slot(&mut self, entry: &Entry) -> Option<&mut Entry> {
        let place = self.place(&entry.addresses);
        let Line(entries) = self.lines.get_mut(place)?;
        let is_same = |old: &Entry| old.addresses == entry.addresses && old.from == entry.from;
        match entries.iter().position(is_same) {
            Some(own) => Some(&mut entries[own])
                .filter(|old| old.second != entry.second || old.changes != entry.changes),
            None => entries.iter_mut().find(|old| old.second != entry.second),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(station: u32, second: u32) -> Entry {
        let mut addresses = [0x52; ADDRESSES];
        addresses[8..].copy_from_slice(&station.to_be_bytes());
        Entry { addresses, from: PortId(1), to: PortId(2), second, changes: [0; 2] }
    }

    fn put(cache: &mut FlowCache, entry: Entry) {
        if let Some(slot) = cache.slot(&entry) {
            *slot = entry;
        }
    }

    #[test]
    fn cached_flow_is_valid_for_its_port_and_second() {
        let (mut cache, flow) = (FlowCache::new(), entry(7, 5));
        assert!(cache.get(&flow.addresses, PortId(1), 5).is_none());
        put(&mut cache, flow);
        assert!(cache.slot(&flow).is_none(), "there already");
        assert!(cache.slot(&Entry { changes: [1, 0], ..flow }).is_some(), "a port has changed since");
        assert_eq!(cache.get(&flow.addresses, PortId(1), 5).map(|entry| entry.to), Some(PortId(2)));
        assert!(cache.get(&flow.addresses, PortId(1), 6).is_none(), "another second");
        assert!(cache.get(&flow.addresses, PortId(2), 5).is_none(), "another port");
        assert!(cache.get(&entry(8, 5).addresses, PortId(1), 5).is_none(), "other addresses");
    }

    #[test]
    fn most_of_a_thousand_flows_do_not_collide() {
        let mut cache = FlowCache::new();
        (0..1000).for_each(|station| put(&mut cache, entry(station, 1)));
        let known =
            (0..1000).filter(|&station| cache.get(&entry(station, 1).addresses, PortId(1), 1).is_some());
        // 1,000 random flows over 2,048 lines of two: on average 31 find no slot, hardly ever 50.
        assert!(known.count() > 900);
        (0..1000).for_each(|station| put(&mut cache, entry(station, 2)));
        let late =
            (0..1000).filter(|&station| cache.get(&entry(station, 1).addresses, PortId(1), 1).is_some());
        assert!(late.count() < 100, "those of the second before make room");
    }
}
