//! Per-packet metadata of a burst: header offsets, flow hash and notes of pipelines. Offsets and hashes are computed
//! on first use and cached; a new burst has none.
//!
//! Offsets and hashes refer to the head as received. A burst of edited packets has its own.

use super::{BURST, Burst, SLOT};
use crate::Steering;
use mem::copy::Kernel;
use wire::Layers;

/// Connection-tracking state of a packet, for pipelines that track connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConnectionState {
    /// Not looked up, or not tracked.
    #[default]
    Untracked,
    /// First packet of a connection.
    New,
    /// The connection has packets in both directions.
    Established,
    /// Related to another connection, such as an ICMP error.
    Related,
    /// Inconsistent with the state of its connection.
    Invalid,
}

/// Notes of a pipeline for a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// Identifier of the tunnel that the packet was decapsulated from (VXLAN or Geneve VNI, GRE key); 0 if none.
    pub tunnel: u32,
    /// Connection state.
    pub connection: ConnectionState,
    /// Traffic class for queueing.
    pub class: u8,
    /// Number of the packet's sample among those of its burst, from 1; 0 if it is not sampled.
    pub sample: u8,
    /// Mirrors that have a copy of the packet, one bit for each.
    pub mirrors: u32,
}

/// Metadata, indexed by packet. One bit per packet and field records whether the value is valid.
pub(super) struct Meta {
    parsed: u64,
    /// Offsets of the network and the transport header; 0 if absent.
    offsets: [(u16, u16); BURST],
    hashed: u64,
    has_hash: u64,
    hash: [u32; BURST],
    noted: u64,
    notes: [Notes; BURST],
}

impl Default for Meta {
    fn default() -> Self {
        Self {
            parsed: 0,
            offsets: [(0, 0); BURST],
            hashed: 0,
            has_hash: 0,
            hash: [0; BURST],
            noted: 0,
            notes: [Notes::default(); BURST],
        }
    }
}

impl Meta {
    #[inline(always)]
    pub(super) fn clear(&mut self) {
        (self.parsed, self.hashed, self.noted) = (0, 0, 0);
    }

    /// Invalidates offsets and hashes, because packets change their indices. Notes are moved by [`Meta::move_notes`].
    pub(super) fn forget_heads(&mut self) {
        (self.parsed, self.hashed) = (0, 0);
    }

    /// Moves the notes of packet `i` to packet `to`.
    pub(super) fn move_notes(&mut self, i: usize, to: usize) {
        self.noted = self.noted & !(1 << to) | (self.noted >> i & 1) << to;
        self.notes[to] = self.notes[i];
    }

    /// Removes the notes of packets `n` and above.
    pub(super) fn truncate(&mut self, n: usize) {
        self.noted &= !u64::MAX.unbounded_shl(n as u32);
    }
}

impl Burst {
    /// Offsets of the network header (IPv4, IPv6) and the transport header (TCP, UDP) of packet `i`. Returns `None`
    /// if the private head has no such headers. Heads must be loaded.
    #[inline]
    pub fn layers(&mut self, i: usize) -> Option<(usize, usize)> {
        let bit = 1 << (i % BURST);
        if self.meta.parsed & bit == 0 {
            let layers = Layers::of(self.head(i));
            self.meta.offsets[i] =
                layers.map_or((0, 0), |found| (found.network as u16, found.transport as u16));
            self.meta.parsed |= bit;
        }
        let (network, transport) = self.meta.offsets[i];
        (network > 0).then_some((network.into(), transport.into()))
    }

    /// Flow hash of packet `i`. Returns `None` if the packet belongs to no flow. Heads must be loaded. One burst must
    /// always be hashed with the same steering.
    #[inline]
    pub fn rss_hash(&mut self, i: usize, steering: &Steering) -> Option<u32> {
        let bit = 1 << (i % BURST);
        if self.meta.hashed & bit == 0 {
            let hash = steering.hash(self.head(i));
            self.meta.hash[i] = hash.unwrap_or(0);
            self.meta.hashed |= bit;
            self.meta.has_hash = self.meta.has_hash & !bit | if hash.is_some() { bit } else { 0 };
        }
        (self.meta.has_hash & bit != 0).then_some(self.meta.hash[i])
    }

    /// Notes of packet `i`.
    #[inline]
    pub fn notes(&self, i: usize) -> Notes {
        if self.meta.noted & 1 << (i % BURST) == 0 { Notes::default() } else { self.meta.notes[i] }
    }

    /// Sets the notes of packet `i`.
    #[inline]
    pub fn set_notes(&mut self, i: usize, notes: Notes) {
        self.meta.notes[i] = notes;
        self.meta.noted |= 1 << (i % BURST);
    }

    /// Whether no packet has notes or offloads.
    #[inline(always)]
    pub(crate) fn is_bare(&self) -> bool {
        self.meta.noted | u64::from(self.offloads) == 0
    }

    /// Copies the notes of packet `i` of `source` to packet `number`.
    #[inline]
    pub(crate) fn copy_notes(&mut self, number: usize, source: &Burst, i: usize) {
        if source.meta.noted != 0 {
            self.set_notes(number, source.notes(i));
        }
    }

    /// Extends the private head of packet `i` to at least `len` bytes, for headers inside a tunnel. Returns `false`
    /// if the packet is shorter, or if `len` exceeds [`crate::MAX_HEAD`]. Heads must be loaded.
    ///
    /// A packet that passes through a pipeline again keeps its extended head, and the method returns `false` for
    /// more: edits apply to the head as received, and shared memory may change between two reads.
    pub fn pull_head<K: Kernel>(&mut self, i: usize, len: usize) -> bool {
        if self.head[i] as usize >= len {
            return true;
        }
        !self.is_derived && self.pull::<K>(i, len)
    }

    /// [`Burst::pull_head`] for a longer head, also in a derived burst.
    pub(crate) fn pull<K: Kernel>(&mut self, i: usize, len: usize) -> bool {
        let (start, have) = (self.start[i] as usize, self.head[i] as usize);
        if len > self.frame_len(i) || start + len > SLOT {
            return false;
        }
        self.settle();
        let (mut at, (mut next, end)) = (have, self.more(i));
        loop {
            let (piece, rest) = self.rest[i].split_at(len - at);
            let slot = &mut self.slots.0[i][start + at..start + at + piece.len()];
            // SAFETY: the segment belongs to the map pinned for this source, and the slice has its length.
            unsafe { piece.copy_out::<K>(slot) };
            at += piece.len();
            self.rest[i] = rest;
            if at == len || next == end {
                break;
            }
            self.rest[i] = self.spill[next as usize];
            next += 1;
        }
        if self.shape == super::Shape::Chained {
            self.more[i].0 = next;
        }
        self.head[i] = at as u16;
        // The extended head may contain headers beyond the previous one.
        self.meta.parsed &= !(1 << (i % BURST));
        self.meta.hashed &= !(1 << (i % BURST));
        at == len
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BufId, HEAD, MAX_HEAD, Rss};
    use mem::copy::Portable;
    use mem::{GuestMemory, Region, VolatileSlice};
    use std::sync::Arc;

    fn udp(source: u8) -> Vec<u8> {
        let mut frame = vec![2; 12];
        frame.extend([8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, source, 10, 0, 1, 1]);
        frame.extend([0, 1, 0, 2, 0, 26, 0, 0]);
        frame.resize(60, 0);
        frame
    }

    #[test]
    fn offsets_and_hash_match_the_packet_and_notes_last_for_the_burst() {
        let (mut burst, steering) = (Burst::new(), Steering::new(Rss::Symmetric));
        for source in [1, 2] {
            burst.begin(0);
            assert!(burst.push_own(&udp(source)) && burst.push_own(&[1; 60]));
            for _ in 0..2 {
                assert_eq!((burst.layers(0), burst.layers(1)), (Some((14, 34)), None));
                assert_eq!(burst.rss_hash(0, &steering), steering.hash(&udp(source)));
                assert_eq!(burst.rss_hash(1, &steering), None);
            }
            assert_eq!(burst.notes(1), Notes::default());
            let notes =
                Notes { tunnel: 7, connection: ConnectionState::New, class: 3, sample: 9, mirrors: 5 };
            burst.set_notes(1, notes);
            assert_eq!((burst.notes(0), burst.notes(1)), (Notes::default(), notes));
        }
    }

    #[test]
    fn filter_keeps_notes_with_their_packets() {
        let mut burst = Burst::new();
        burst.begin(0);
        (0..BURST).for_each(|_| assert!(burst.push_own(&udp(1))));
        let notes = |i: usize| Notes { tunnel: i as u32, ..Notes::default() };
        (0..BURST).filter(|i| i % 3 != 0).for_each(|i| burst.set_notes(i, notes(i)));
        burst.filter(1, |_, _, i| i % 2 == 1);
        let kept: Vec<u32> = (0..burst.len()).map(|i| burst.notes(i).tunnel).collect();
        let wanted = |i: u32| if i.is_multiple_of(3) { 0 } else { i };
        assert_eq!(kept, std::iter::once(0).chain((1..64).step_by(2).map(wanted)).collect::<Vec<_>>());
        assert!(burst.push_own(&udp(1)));
        assert_eq!(burst.notes(burst.len() - 1), Notes::default());
    }

    #[test]
    fn pulled_head_is_parsed_and_hashed_again() {
        // IPv6 with 80 bytes of hop-by-hop options: the ports are beyond the loaded head.
        let mut frame = vec![2; 12];
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 88, 0, 64]);
        frame.extend([0xfe; 32]);
        frame.extend([17, 9]);
        frame.extend([0; 78]);
        frame.extend([0, 1, 0, 2, 0, 8, 0, 0]);
        let region = Arc::new(Region::of_bytes(frame.clone().into()).unwrap());
        let map = Arc::new(GuestMemory::new(vec![region.clone()]).unwrap());
        let steering = Steering::new(Rss::Symmetric);
        let mut burst = Burst::new();
        burst.begin(0);
        burst.pin(&map);
        burst.push(BufId::default(), region.seg(0, frame.len() as u32).unwrap());
        burst.load_heads::<Portable>();
        let short = burst.rss_hash(0, &steering);
        assert_eq!(short, steering.hash(&frame[..HEAD]));
        assert!(burst.pull_head::<Portable>(0, frame.len()));
        assert_eq!(burst.rss_hash(0, &steering), steering.hash(&frame));
        assert_ne!(short, steering.hash(&frame));
        assert_eq!(burst.layers(0), Some((14, 134)));
    }

    #[test]
    fn head_can_be_pulled_up_to_packet_and_slot_length() {
        let bytes: Vec<u8> = (0..400).map(|i| (i % 251) as u8).collect();
        let region = Arc::new(Region::of_bytes(bytes.clone().into()).unwrap());
        let map = Arc::new(GuestMemory::new(vec![region.clone()]).unwrap());
        for pieces in [&[400][..], &[130, 20, 250], &[10, 10, 380]] {
            for len in [1, HEAD, HEAD + 1, 150, 151, MAX_HEAD, MAX_HEAD + 1, 401] {
                let mut burst = Burst::new();
                burst.begin(0);
                burst.pin(&map);
                let mut at = 0;
                let segs: Vec<VolatileSlice> = pieces
                    .iter()
                    .map(|&n| {
                        at += n;
                        region.seg(u64::from(at - n), n).unwrap()
                    })
                    .collect();
                burst.push_chain(BufId::default(), &segs);
                burst.load_heads::<Portable>();
                assert_eq!(burst.pull_head::<Portable>(0, len), len <= MAX_HEAD, "{len}");
                let wanted = if len <= MAX_HEAD { len.max(HEAD) } else { HEAD };
                assert_eq!(burst.head(0), &bytes[..wanted], "{len} of {pieces:?}");
                let mut all = vec![0; 400];
                assert_eq!(burst.frame(0).copy_to::<Portable>(&mut all), 400);
                assert_eq!(all, bytes, "{len} of {pieces:?}");
                let mut again = Burst::new();
                again.begin_from(&burst);
                again.push_edited(&burst, 0, &crate::Edits::default(), crate::EditId::NONE).unwrap();
                assert!(!again.pull_head::<Portable>(0, wanted + 1), "shared memory is read once");
            }
        }
    }
}
