//! Reassembly of IPv4 (RFC 791, RFC 815) and IPv6 fragments (RFC 8200 section 4.5, RFC 5722, RFC 6946).
//!
//! Holds copies of the fragments, because their source can change the originals. Must not hold more packets, fragments
//! or bytes than the limits allow, and must not deliver a packet of which fragments overlapped: such a packet, with
//! fragments that come later, is discarded. Neighbor Discovery must not accept reassembled packets (RFC 6980).

mod fragment;
mod packet;

use crate::{Counters, Limits, Time};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
pub(crate) use fragment::Fragment;
use fragment::Key;
use packet::{Fault, Packet};

/// Result of [`Reassembly::receive`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reassembled {
    /// The fragment is held.
    Pending,
    /// The packet is complete: a frame with the link header of its last fragment, and an IP packet without fragment
    /// header, lengths and header checksum valid.
    Complete(Vec<u8>),
    /// The fragment, and possibly the packet, was discarded.
    Discarded,
    /// The fragment was discarded, and is answered with ICMPv6 Parameter Problem: its code, and the offset of the field
    /// from the start of the IP header (RFC 8200 section 4.5).
    Refused { code: u8, pointer: u32 },
}

/// A packet under reassembly, or discarded.
struct Entry {
    key: Key,
    deadline: Time,
    /// `None` if the packet was discarded: its other fragments are dropped until the deadline.
    packet: Option<Packet>,
}

/// Packets under reassembly.
pub(crate) struct Reassembly {
    /// In the order of their first fragments, and so of their deadlines.
    entries: VecDeque<Entry>,
    /// Bytes held.
    bytes: usize,
    limits: Limits,
}

impl Reassembly {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self { entries: VecDeque::new(), bytes: 0, limits: limits.clone() }
    }

    /// Takes a fragment. `copy` writes the fragment's bytes [`Fragment::payload`] to the given slice, of that length.
    pub(crate) fn receive(
        &mut self,
        fragment: &Fragment<'_>,
        copy: impl FnOnce(&mut [u8]),
        now: Time,
        counters: &mut Counters,
    ) -> Reassembled {
        counters.fragments_in += 1;
        if let Err(refused) = fragment.check() {
            counters.reassembly_failed += 1;
            return refused;
        }
        // A packet of one fragment is independent of others with its identification (RFC 6946 section 4).
        if fragment.is_atomic() {
            let mut packet = Packet::default();
            return match packet.add(fragment, copy, 1) {
                Ok(_) => complete(&packet, fragment.link, counters),
                Err(fault) => refuse(fault, counters),
            };
        }
        self.add(fragment, copy, now, counters)
    }

    fn add(
        &mut self,
        fragment: &Fragment<'_>,
        copy: impl FnOnce(&mut [u8]),
        now: Time,
        counters: &mut Counters,
    ) -> Reassembled {
        let at = self.find(&fragment.key()).unwrap_or_else(|| self.open(fragment.key(), now, counters));
        let Some(entry) = self.entries.get_mut(at) else { return Reassembled::Discarded };
        let Some(packet) = &mut entry.packet else { return Reassembled::Discarded };
        let before = packet.cost();
        let added = packet.add(fragment, copy, self.limits.fragments.into());
        self.bytes = self.bytes - before + packet.cost();
        match added {
            Ok(true) => self
                .remove(at)
                .map_or(Reassembled::Discarded, |packet| complete(&packet, fragment.link, counters)),
            Ok(false) if self.evict(counters) > at => Reassembled::Discarded,
            Ok(false) | Err(Fault::Duplicate) => Reassembled::Pending,
            Err(fault) => {
                self.discard(at, &fault);
                refuse(fault, counters)
            }
        }
    }

    /// Discards a packet, or a new one of which the first fragment was refused.
    fn discard(&mut self, at: usize, fault: &Fault) {
        let Some(entry) = self.entries.get_mut(at) else { return };
        let is_empty = entry.packet.as_ref().is_none_or(|packet| packet.cost() == 0);
        if matches!(fault, Fault::Packet) {
            self.bytes -= entry.packet.take().map_or(0, |packet| packet.cost());
        } else if is_empty {
            self.entries.remove(at);
        }
    }

    fn remove(&mut self, at: usize) -> Option<Packet> {
        let packet = self.entries.remove(at)?.packet?;
        self.bytes -= packet.cost();
        Some(packet)
    }

    fn find(&self, key: &Key) -> Option<usize> {
        self.entries.iter().position(|entry| entry.key == *key)
    }

    /// Adds an entry, in place of the oldest one at the limit; returns its position.
    fn open(&mut self, key: Key, now: Time, counters: &mut Counters) -> usize {
        while self.entries.len() >= (self.limits.reassemblies as usize).max(1) {
            self.drop_oldest(counters);
        }
        // A deadline is never earlier than that of an older entry, even if time went back.
        let oldest = self.entries.back().map_or(Time(0), |entry| entry.deadline);
        let deadline = now.after(self.limits.reassembly_time).max(oldest);
        self.entries.push_back(Entry { key, deadline, packet: Some(Packet::default()) });
        self.entries.len() - 1
    }

    /// Drops the oldest entries while too many bytes are held; returns their number.
    fn evict(&mut self, counters: &mut Counters) -> usize {
        let before = self.entries.len();
        while self.bytes > self.limits.reassembly_bytes as usize && !self.entries.is_empty() {
            self.drop_oldest(counters);
        }
        before - self.entries.len()
    }

    fn drop_oldest(&mut self, counters: &mut Counters) -> Option<Packet> {
        let packet = self.remove(0)?;
        counters.reassembly_failed += 1;
        Some(packet)
    }

    /// Drops packets whose time is over, until one of them has its first fragment. Returns that fragment as an IP
    /// packet, which is answered with ICMP Time Exceeded, code 1. Call until it returns `None`.
    pub(crate) fn expire(&mut self, now: Time, counters: &mut Counters) -> Option<Vec<u8>> {
        while self.deadline() <= now && !self.entries.is_empty() {
            if let Some(first) = self.drop_oldest(counters).and_then(Packet::into_first) {
                return Some(first);
            }
        }
        None
    }

    /// Packets and bytes held.
    #[cfg(any(test, feature = "fuzz"))]
    pub(crate) fn usage(&self) -> (usize, usize) {
        (self.entries.len(), self.bytes)
    }

    /// Time of the next call of [`Reassembly::expire`]; [`Time::NEVER`] if nothing is held.
    pub(crate) fn deadline(&self) -> Time {
        self.entries.front().map_or(Time::NEVER, |entry| entry.deadline)
    }
}

fn complete(packet: &Packet, link: &[u8], counters: &mut Counters) -> Reassembled {
    let whole = packet.finish(link);
    *(if whole.is_some() { &mut counters.reassembled } else { &mut counters.reassembly_failed }) += 1;
    whole.map_or(Reassembled::Discarded, Reassembled::Complete)
}

fn refuse(fault: Fault, counters: &mut Counters) -> Reassembled {
    counters.reassembly_failed += 1;
    match fault {
        Fault::Fragment(refused) => refused,
        Fault::Packet | Fault::Duplicate => Reassembled::Discarded,
    }
}

#[cfg(test)]
mod tests;
