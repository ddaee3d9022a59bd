//! A packet of a burst as the stack receives it.

use crate::{Buffer, BufferPool};
use mem::copy::{Kernel, copy_private};
use port::{Burst, MAX_HEAD, Retainer};
use stack::Slice;
use std::marker::PhantomData;
use std::ops::Range;

/// Minimum length in bytes of a packet that stays in the port's memory. Shorter ones are copied, which takes less time
/// than lending.
const MIN_LENT: usize = 8192;

/// Memory for retained packets.
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) pool: BufferPool,
    pub(crate) retainer: Retainer,
}

/// Packet `i` of a burst with loaded heads.
#[derive(Debug)]
pub struct Received<'a, K> {
    burst: &'a mut Burst,
    i: usize,
    memory: &'a mut Memory,
    kernel: PhantomData<K>,
}

impl<'a, K: Kernel> Received<'a, K> {
    /// Completes the private head of a short packet, so that its checksum and its copy need no second piece.
    #[inline]
    pub(crate) fn new(burst: &'a mut Burst, i: usize, memory: &'a mut Memory) -> Self {
        let len = burst.frame_len(i);
        if len <= MAX_HEAD {
            burst.pull_head::<K>(i, len);
        }
        Self { burst, i, memory, kernel: PhantomData }
    }
}

impl<K: Kernel> stack::Frame for Received<'_, K> {
    type Payload = Buffer;

    #[inline]
    fn head(&self) -> &[u8] {
        self.burst.head(self.i)
    }

    #[inline]
    fn len(&self) -> usize {
        self.burst.frame_len(self.i)
    }

    #[inline]
    fn segment(&self) -> Option<u16> {
        let offload = self.burst.offload(self.i);
        (offload.segmentation() == Some(port::Segmentation::Udp)).then(|| offload.segment() as u16)
    }

    /// A checksum that the source left to offload protects nothing: the bytes never left memory.
    #[inline]
    fn is_checksum_valid(&self) -> bool {
        let offload = self.burst.offload(self.i);
        offload.is_valid() || offload.is_work()
    }

    #[inline]
    fn sum(&self, range: Range<usize>) -> u64 {
        match self.head().get(range.clone()) {
            Some(bytes) => mem::sum::private_words(bytes),
            None => self.burst.frame(self.i).sum(range),
        }
    }

    fn copy_to(&self, at: usize, to: &mut [u8]) {
        self.burst.frame(self.i).copy_behind::<K>(at, to);
    }

    #[inline]
    fn retain(&mut self, range: Range<usize>) -> Option<Slice<Buffer>> {
        if range.len() >= MIN_LENT
            && let Some(packet) = self.burst.retain_in_place(self.i, &mut self.memory.retainer)
        {
            return Some(Slice::of(packet.into(), range));
        }
        let Self { burst, i, memory, .. } = self;
        let copy = |to: &mut [u8]| match burst.head(*i).get(range.clone()) {
            Some(bytes) => copy_private(to, bytes),
            None => {
                burst.frame(*i).copy_behind::<K>(range.start, to);
            }
        };
        Some(Slice::new(memory.pool.fill(range.len(), copy)?))
    }
}
