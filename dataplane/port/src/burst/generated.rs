//! Bursts of a program that generates its packets, such as a traffic generator or a TCP/IP stack.
//!
//! Only the owner of a [`GeneratedBurst`] can change heads. A pipeline gets a [`Burst`], which has no such access: its
//! packets leave in the form in which they were received, or as an edit describes.

use super::{BURST, Burst, HEADROOM, Heads, MAX_HEAD, Shape};
use mem::VolatileSlice;
use mem::copy::copy_private;
use std::ops::{Deref, DerefMut};

/// A burst whose heads its owner can change.
#[derive(Debug, Default)]
pub struct GeneratedBurst(Burst);

impl GeneratedBurst {
    /// An empty burst.
    pub fn new() -> Self {
        Self::default()
    }

    /// The private first bytes of packet `i`.
    #[inline(always)]
    pub fn head_mut(&mut self, i: usize) -> &mut [u8] {
        self.0.head_mut(i)
    }

    /// Clears the burst, for packets that are added by [`GeneratedBurst::start_packet`] only.
    #[inline]
    pub fn restart(&mut self) {
        self.0.begin(0);
        self.0.heads = Heads::Whole;
        self.0.is_at_least(Shape::Single);
    }

    /// Adds a packet with this private head and no more bytes. Returns `false` if the burst is full or the head longer
    /// than [`MAX_HEAD`].
    #[inline]
    pub fn start_packet(&mut self, head: &[u8]) -> bool {
        let (i, burst) = (self.0.n, &mut self.0);
        if i == BURST || head.len() > MAX_HEAD {
            return false;
        }
        copy_private(&mut burst.slots.0[i][HEADROOM..HEADROOM + head.len()], head);
        (burst.start[i], burst.head[i], burst.len[i]) =
            (HEADROOM as u16, head.len() as u16, head.len() as u32);
        burst.rest[i] = VolatileSlice::EMPTY;
        if burst.shape == Shape::Chained {
            burst.more[i] = (0, 0);
        }
        burst.n += 1;
        true
    }

    /// Appends `len` bytes to the private head of the last packet and returns them; their content is unspecified.
    /// Returns `None` if they do not fit or the packet has segments.
    #[inline]
    pub fn extend_head(&mut self, len: usize) -> Option<&mut [u8]> {
        let i = self.0.n.checked_sub(1)?;
        let have = self.0.head[i] as usize;
        if have + len > MAX_HEAD || self.0.len[i] as usize != have {
            return None;
        }
        (self.0.head[i], self.0.len[i]) = ((have + len) as u16, (have + len) as u32);
        Some(&mut self.0.slots.0[i][HEADROOM + have..HEADROOM + have + len])
    }

    /// Appends a segment to the last packet. Its memory must stay alive and unchanged until the burst was sent.
    #[inline]
    pub fn push_segment(&mut self, seg: VolatileSlice) {
        let burst = &mut self.0;
        let Some(i) = burst.n.checked_sub(1) else { return };
        burst.settle_rests();
        if burst.rest[i].is_empty() {
            burst.rest[i] = seg;
        } else {
            let (from, to) = burst.more(i);
            let from = if from == to { burst.spill.len() as u32 } else { from };
            burst.spill.push(seg);
            burst.set_more(i, from);
        }
        burst.len[i] += seg.len() as u32;
    }
}

impl Deref for GeneratedBurst {
    type Target = Burst;

    fn deref(&self) -> &Burst {
        &self.0
    }
}

impl DerefMut for GeneratedBurst {
    fn deref_mut(&mut self) -> &mut Burst {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::burst::layout;
    use mem::copy::Portable;

    fn bytes(burst: &Burst, i: usize) -> Vec<u8> {
        let mut bytes = vec![0; burst.frame_len(i)];
        assert_eq!(burst.frame(i).copy_to::<Portable>(&mut bytes), bytes.len());
        bytes
    }

    #[test]
    fn packets_are_heads_and_segments() {
        let (body, mut burst) = ((0..200).collect::<Vec<u8>>(), GeneratedBurst::new());
        let seg = VolatileSlice::of_private(&body);
        for _ in 0..2 {
            burst.restart();
            assert!(burst.start_packet(&[1; 60]));
            burst.extend_head(4).unwrap().copy_from_slice(&[2; 4]);
            assert_eq!((burst.layout(), burst.extend_head(MAX_HEAD - 63).is_none()), (layout::WHOLE, true));
            assert!(burst.start_packet(&[3; 60]));
            burst.push_segment(seg);
            assert_eq!((burst.layout(), burst.extend_head(1).is_none()), (layout::IN_PLACE, true));
            assert!(burst.start_packet(&[4; 54]));
            burst.push_segment(seg.split_at(3).0);
            burst.push_segment(seg.split_at(100).1);
            burst.push_segment(seg.split_at(7).0);
            assert_eq!(burst.layout(), layout::ANY);
            assert!(burst.start_packet(&[5; MAX_HEAD]) && !burst.start_packet(&[5; MAX_HEAD + 1]));
            assert_eq!(bytes(&burst, 0), [&[1; 60][..], &[2; 4]].concat());
            assert_eq!(bytes(&burst, 1), [&[3; 60], &body[..]].concat());
            assert_eq!(bytes(&burst, 2), [&[4; 54], &body[..3], &body[100..], &body[..7]].concat());
            assert_eq!(bytes(&burst, 3), [5; MAX_HEAD]);
            let whole = bytes(&burst, 2);
            let expected = wire::checksum::Sum::of(&whole[51..160]).total();
            assert_eq!(wire::checksum::fold(burst.frame(2).sum(51..160)), wire::checksum::fold(expected));
        }
    }
}
