//! Private heads: loaded once, then the only copy of a packet's first bytes that is read.

use super::{Burst, ETHERNET_HEADER, HEAD, HEADROOM, Heads, SLOT, Shape, layout};
use mem::VolatileSlice;
use mem::copy::{Kernel, Lines, heads};
use mem::line::LINE;

/// Zero if and only if the two are equal. Branch-free, because several results are combined.
#[inline(always)]
fn difference<const N: usize>(a: &[u8; N], b: &[u8; N]) -> u64 {
    let word = |bytes: &[u8; N], at: usize| {
        bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u64::from_ne_bytes(*word))
    };
    let part = |at: usize| word(a, at) ^ word(b, at);
    const { assert!(N >= 8 && N <= 24) };
    part(0) | part(N - 8) | if N > 16 { part(8) } else { 0 }
}

impl Burst {
    /// Copies every packet's head into the burst. Afterwards the source cannot change validated bytes. Callers that
    /// need heads earlier than the pipeline may call it; heads are loaded only once.
    #[inline]
    pub fn load_heads<K: Kernel>(&mut self) {
        if self.heads != Heads::Absent {
            return;
        }
        self.heads = Heads::Loaded;
        let n = self.n;
        if self.shape != Shape::Wide {
            (0..n).for_each(|i| self.load_head::<K>(i));
            return self.validate_heads();
        }
        let lens = &self.len[..n];
        // Minimum and maximum take several instructions on the baseline vector extension, these expressions one or
        // two. `longest` must be a power of two.
        let fit = |longest: usize| lens.iter().fold(0, |all, len| all | len.wrapping_sub(1)) < longest as u32;
        let exceed = |most: usize| {
            lens.iter().fold(-1, |all, len| all & (most as u32).wrapping_sub(*len).cast_signed()) < 0
        };
        let are_short = fit(LINE);
        let are_long = !are_short && exceed(HEAD - 1);
        let lines = match are_short {
            true => Lines::One,
            false if are_long || exceed(LINE) => Lines::Two,
            false => Lines::Own,
        };
        // SAFETY: the segments belong to the map pinned for this source, and all of them were wide.
        unsafe { heads::<K, SLOT>(&mut self.slots.0[..n], HEADROOM, &self.rest[..n], lines) };
        self.start[..n].fill(HEADROOM as u16);
        self.heads = Heads::InPlace;
        if are_long {
            self.head[..n].fill(HEAD as u16);
            for rest in &mut self.rest[..n] {
                // SAFETY: each packet consists of this one segment, and the shortest has at least `HEAD` bytes.
                *rest = unsafe { rest.skip(HEAD as u32) };
            }
            return;
        }
        if are_short || fit(HEAD) {
            self.heads = Heads::Whole;
            return self.head[..n].iter_mut().zip(lens).for_each(|(head, len)| *head = *len as u16);
        }
        for ((rest, head), len) in self.rest[..n].iter_mut().zip(&mut self.head).zip(&self.len) {
            let first = (*len as usize).min(HEAD);
            *head = first as u16;
            *rest = rest.split_at(first).1;
        }
    }

    /// Updates the state of heads that were loaded individually: in place if each packet has an Ethernet header.
    fn validate_heads(&mut self) {
        let lens = &self.len[..self.n];
        let (shortest, all) = lens.iter().fold((u32::MAX, 0), |(min, all), &len| (min.min(len), all | len));
        if self.shape == Shape::Single && shortest >= ETHERNET_HEADER as u32 {
            self.heads = if all < HEAD as u32 { Heads::Whole } else { Heads::InPlace };
        }
    }

    /// Allows heads at any position in their slots from now on.
    #[inline]
    pub(super) fn settle(&mut self) {
        self.settle_rests();
        self.heads = self.heads.min(Heads::Loaded);
    }

    /// Allows packets with more than their heads from now on.
    #[inline]
    pub(super) fn settle_rests(&mut self) {
        if self.heads == Heads::Whole {
            self.heads = Heads::InPlace;
            self.rest[..self.n].fill(VolatileSlice::EMPTY);
        }
    }

    /// Segment after the head of packet `i`, without spilled segments.
    #[inline(always)]
    pub(super) fn rest(&self, i: usize) -> VolatileSlice {
        if self.is_whole() { VolatileSlice::EMPTY } else { self.rest[i] }
    }

    /// Whether each packet is completely in its head, directly after the headroom.
    #[inline(always)]
    pub(crate) fn is_whole(&self) -> bool {
        self.heads == Heads::Whole
    }

    /// Layout of all packets, for [`Burst::write_to`].
    #[inline(always)]
    pub(crate) fn layout(&self) -> u8 {
        match self.heads {
            Heads::Whole => layout::WHOLE,
            Heads::InPlace if self.shape != Shape::Chained => layout::IN_PLACE,
            _ => layout::ANY,
        }
    }

    /// Leaves every packet in the source's memory, for pipelines that need no heads. Heads can still be loaded.
    #[inline]
    pub fn leave_heads(&mut self) {
        if self.heads == Heads::Absent {
            self.head[..self.n].fill(0);
        }
    }

    #[inline(always)]
    fn load_head<K: Kernel>(&mut self, i: usize) {
        let (first, rest) = self.rest[i].split_at(HEAD);
        let slot = &mut self.slots.0[i][HEADROOM..HEADROOM + first.len()];
        // SAFETY: the segment belongs to the map pinned for this source, and the slice has its length.
        unsafe { first.copy_out::<K>(slot) };
        self.rest[i] = rest;
        (self.start[i], self.head[i]) = (HEADROOM as u16, first.len() as u16);
        let (at, end) = self.more(i);
        if at != end && first.len() < HEAD {
            self.load_scattered_head::<K>(i);
        }
    }

    /// Loads the rest of a head whose first segment is shorter than a head.
    #[cold]
    fn load_scattered_head<K: Kernel>(&mut self, i: usize) {
        let (mut at, end) = self.more[i];
        let mut have = self.head[i] as usize;
        while at < end && have < HEAD {
            let (first, rest) = self.spill[at as usize].split_at(HEAD - have);
            let slot = &mut self.slots.0[i][HEADROOM + have..HEADROOM + have + first.len()];
            // SAFETY: as in `load_head`.
            unsafe { first.copy_out::<K>(slot) };
            have += first.len();
            self.rest[i] = rest;
            at += 1;
        }
        self.more[i].0 = at;
        self.head[i] = have as u16;
    }

    /// Private head of packet `i`.
    #[inline(always)]
    pub fn head(&self, i: usize) -> &[u8] {
        let start = self.start[i] as usize;
        &self.slots.0[i][start..start + self.head[i] as usize]
    }

    /// First `N` bytes of the private head of packet `i`. Returns `None` if it is shorter.
    #[inline(always)]
    pub fn first<const N: usize>(&self, i: usize) -> Option<&[u8; N]> {
        let start = self.start[i] as usize;
        if (self.head[i] as usize) < N { None } else { self.slots.0[i].get(start..start + N)?.first_chunk() }
    }

    /// Number of leading packets that start with these bytes.
    #[inline(always)]
    pub fn alike<const N: usize>(&self, bytes: &[u8; N]) -> usize {
        if self.heads < Heads::InPlace || N > ETHERNET_HEADER {
            return (0..self.n).take_while(|i| self.first(*i) == Some(bytes)).count();
        }
        // Every frame has an Ethernet header, and all heads start directly after the headroom.
        let slots = &self.slots.0[..self.n];
        let differ =
            |slot: &[u8; SLOT]| slot[HEADROOM..].first_chunk().map_or(1, |head| difference(head, bytes));
        let (fours, _) = slots.as_chunks::<4>();
        let are_alike = |four: &&[[u8; SLOT]; 4]| four.iter().fold(0, |all, slot| all | differ(slot)) == 0;
        let sure = 4 * fours.iter().take_while(are_alike).count();
        sure + slots[sure..].iter().take_while(|slot| differ(slot) == 0).count()
    }

    /// The private first bytes of packet `i`, for the port that receives or completes the packet. Pipelines have no
    /// access: a packet that goes to another stage leaves in the form in which it was received, and other outputs read
    /// the same head.
    #[inline(always)]
    pub fn head_mut(&mut self, i: usize) -> &mut [u8] {
        let start = self.start[i] as usize;
        &mut self.slots.0[i][start..start + self.head[i] as usize]
    }

    /// Adds `n` bytes with unspecified content before packet `i`. Returns `false` if the headroom is exhausted. Only
    /// for sources, like [`Burst::head_mut`].
    pub(crate) fn grow_head(&mut self, i: usize, n: usize) -> bool {
        if n > self.start[i] as usize {
            return false;
        }
        let len = self.frame_len(i) + n;
        let Ok(offload) = self.offload(i).spliced((0, 0, n), len) else { return false };
        self.settle();
        self.start[i] -= n as u16;
        self.head[i] += n as u16;
        self.len[i] = len as u32;
        self.set_offload(i, offload);
        true
    }
}
