//! What is known of packets beside their bytes: where their headers begin, their flow's hash, and what pipelines note for later
//! steps. By packet, computed once, on first use; a burst that is begun anew knows nothing.
//!
//! Offsets and hashes are those of the head as it was received. A burst of edited packets has its own.

use super::{BURST, Burst, SLOT};
use crate::Steering;
use mem::copy::Kernel;
use wire::Layers;

/// The state of the connection that a packet belongs to, for pipelines that track connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConnectionState {
    /// Not looked up, or not tracked.
    #[default]
    Untracked,
    /// The first packet of a connection.
    New,
    /// Of a connection with packets in both directions.
    Established,
    /// Belongs to another connection, such as an ICMP error.
    Related,
    /// Contradicts its connection.
    Invalid,
}

/// What pipelines note for a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// The identifier of the tunnel that the packet came out of (VXLAN or Geneve VNI, GRE key); 0 without one.
    pub tunnel: u32,
    /// The state of its connection.
    pub connection: ConnectionState,
    /// The class for queueing.
    pub class: u8,
}

/// By packet; a bit says whether its value is known.
pub(super) struct Meta {
    parsed: u64,
    /// Where the network and the transport header begin; 0 without one.
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

    /// Forgets offsets and hashes: packets get other numbers. Notes move with them ([`Meta::move_notes`]).
    pub(super) fn forget_heads(&mut self) {
        (self.parsed, self.hashed) = (0, 0);
    }

    /// Packet `to` has the notes of packet `i` from here on.
    pub(super) fn move_notes(&mut self, i: usize, to: usize) {
        self.noted = self.noted & !(1 << to) | (self.noted >> i & 1) << to;
        self.notes[to] = self.notes[i];
    }

    /// Forgets the notes of packets from number `n` on.
    pub(super) fn truncate(&mut self, n: usize) {
        self.noted &= !u64::MAX.unbounded_shl(n as u32);
    }
}

impl Burst {
    /// Where the network header (IPv4, IPv6) and the transport header (TCP, UDP) of packet `i` begin; `None` if the private
    /// head has no such headers. Heads are loaded.
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

    /// The hash of the flow of packet `i`; `None` where it belongs to none. Heads are loaded. A burst is hashed by one steering.
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

    /// What was noted for packet `i`.
    #[inline]
    pub fn notes(&self, i: usize) -> Notes {
        if self.meta.noted & 1 << (i % BURST) == 0 { Notes::default() } else { self.meta.notes[i] }
    }

    /// Notes something for packet `i`.
    #[inline]
    pub fn set_notes(&mut self, i: usize, notes: Notes) {
        self.meta.notes[i] = notes;
        self.meta.noted |= 1 << (i % BURST);
    }

    /// Whether nothing is noted for any packet and nothing is left to be done.
    #[inline(always)]
    pub(crate) fn is_bare(&self) -> bool {
        self.meta.noted | u64::from(self.offloads) == 0
    }

    /// Notes for packet `number` what is noted for packet `i` of `source`.
    #[inline]
    pub(crate) fn copy_notes(&mut self, number: usize, source: &Burst, i: usize) {
        if source.meta.noted != 0 {
            self.set_notes(number, source.notes(i));
        }
    }

    /// Has the private head of packet `i` hold at least `len` bytes, for headers that lie behind those of a tunnel. Returns
    /// `false` if the packet is shorter, or `len` is more than [`crate::LONGEST_HEAD`] allows. Heads are loaded.
    ///
    /// A packet that passes through a pipeline again has the head that was pulled before, and this returns `false` for more of
    /// it: edits apply to the head that was received, and what is read from shared memory twice may read differently.
    pub fn pull_head<K: Kernel>(&mut self, i: usize, len: usize) -> bool {
        let (start, have) = (self.start[i] as usize, self.head[i] as usize);
        if have >= len {
            return true;
        }
        if self.is_made || len > self.frame_len(i) || start + len > SLOT {
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
        // A longer head may have headers that the shorter one did not reach.
        self.meta.parsed &= !(1 << (i % BURST));
        self.meta.hashed &= !(1 << (i % BURST));
        at == len
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BufId, HEAD, LONGEST_HEAD, Rss};
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
    fn offsets_and_hashes_are_those_of_the_packet_and_notes_last_as_long_as_the_burst() {
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
            let notes = Notes { tunnel: 7, connection: ConnectionState::New, class: 3 };
            burst.set_notes(1, notes);
            assert_eq!((burst.notes(0), burst.notes(1)), (Notes::default(), notes));
        }
    }

    #[test]
    fn notes_stay_with_their_packets_when_others_are_taken_out() {
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
    fn a_head_that_is_pulled_is_parsed_and_hashed_anew() {
        // IPv6 with 80 bytes of hop-by-hop options: the ports stand behind the head that is loaded.
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
    fn a_head_is_pulled_to_any_length_that_packet_and_slot_have() {
        let bytes: Vec<u8> = (0..400).map(|i| (i % 251) as u8).collect();
        let region = Arc::new(Region::of_bytes(bytes.clone().into()).unwrap());
        let map = Arc::new(GuestMemory::new(vec![region.clone()]).unwrap());
        for pieces in [&[400][..], &[130, 20, 250], &[10, 10, 380]] {
            for len in [1, HEAD, HEAD + 1, 150, 151, LONGEST_HEAD, LONGEST_HEAD + 1, 401] {
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
                assert_eq!(burst.pull_head::<Portable>(0, len), len <= LONGEST_HEAD, "{len}");
                let wanted = if len <= LONGEST_HEAD { len.max(HEAD) } else { HEAD };
                assert_eq!(burst.head(0), &bytes[..wanted], "{len} of {pieces:?}");
                let mut all = vec![0; 400];
                assert_eq!(burst.frame(0).copy_to::<Portable>(&mut all), 400);
                assert_eq!(all, bytes, "{len} of {pieces:?}");
                let mut again = Burst::new();
                again.begin_from(&burst);
                again.push_edited(&burst, 0, &crate::Edits::default(), crate::EditId::NONE).unwrap();
                assert!(!again.pull_head::<Portable>(0, wanted + 1), "what is shared is read once");
            }
        }
    }
}
