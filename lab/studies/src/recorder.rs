//! Comparison of a model's memory accesses with those of the code that it models.
//!
//! [`Recorder`] is the memory of one thread of a model, without caches or time, that records accesses; [`of_code`]
//! selects those that `mem::record` recorded in the real code. Both are reduced to the [`touches`] of an operation:
//! each line at its first read, write or prefetch, in order. Further accesses to the same line hit the first level and
//! are not compared.

use mem::record::{Access, Kind};
use sim::memory::{Address, Cleaning, Copying, Intent, LINE, Memory, Width};

/// Kind of a touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Op {
    Read,
    Write,
    PrefetchRead,
    PrefetchWrite,
}

/// Access to a range of bytes.
pub(crate) type Range = (Op, Address, u64);

/// First access of one kind to a line.
pub(crate) type Touch = (Op, u64);

/// Memory of one thread of a model.
#[derive(Debug)]
pub(crate) struct Recorder {
    bytes: Vec<u8>,
    accesses: Vec<Range>,
}

impl Recorder {
    pub(crate) fn new(bytes: u64) -> Recorder {
        Recorder { bytes: vec![0; bytes as usize], accesses: Vec::new() }
    }

    /// Returns and forgets the accesses so far.
    pub(crate) fn take(&mut self) -> Vec<Range> {
        std::mem::take(&mut self.accesses)
    }

    fn value(&mut self, at: Address, width: Width) -> &mut [u8] {
        &mut self.bytes[at as usize..][..width.bytes() as usize]
    }
}

impl Memory for Recorder {
    fn load(&mut self, at: Address, width: Width) -> u64 {
        self.read(at, width.bytes());
        self.value(at, width).iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
    }

    fn store(&mut self, at: Address, width: Width, value: u64) {
        self.write(at, width.bytes());
        let bytes = value.to_le_bytes();
        self.value(at, width).copy_from_slice(&bytes[..width.bytes() as usize]);
    }

    fn read(&mut self, at: Address, length: u64) {
        self.accesses.push((Op::Read, at, length));
    }

    fn write(&mut self, at: Address, length: u64) {
        self.accesses.push((Op::Write, at, length));
    }

    fn copy(&mut self, from: Address, to: Address, length: u64, _: Copying) {
        self.read(from, length);
        self.write(to, length);
    }

    fn prefetch(&mut self, at: Address, intent: Intent) {
        let op = if intent == Intent::Read { Op::PrefetchRead } else { Op::PrefetchWrite };
        self.accesses.push((op, at, 1));
    }

    fn clean(&mut self, _: Address, _: Cleaning) {}
    fn follows(&mut self) {}
    fn work(&mut self, _: u64) {}
    fn pause(&mut self, _: Address) {}
}

/// Address and length of memory that the real code accesses, and its address in the model's memory.
pub(crate) type Area = (usize, usize, Address);

/// Returns the real code's accesses to these areas. A read-modify-write is a read and a write.
pub(crate) fn of_code(accesses: &[Access], areas: &[Area]) -> Vec<Range> {
    let mut ranges = Vec::new();
    for access in accesses {
        let inside = areas.iter().find(|(at, bytes, _)| access.address.wrapping_sub(*at) < *bytes);
        let Some((start, _, to)) = inside else { continue };
        let ops: &[Op] = match access.kind {
            Kind::Load => &[Op::Read],
            Kind::Store => &[Op::Write],
            Kind::Exchange => &[Op::Read, Op::Write],
            Kind::PrefetchRead => &[Op::PrefetchRead],
            Kind::PrefetchWrite => &[Op::PrefetchWrite],
        };
        let (at, bytes) = (to + (access.address - start) as u64, access.bytes as u64);
        ranges.extend(ops.iter().map(|op| (*op, at, bytes)));
    }
    ranges
}

/// Reduces the accesses of one operation to the first of each kind and line.
pub(crate) fn touches(accesses: &[Range]) -> Vec<Touch> {
    let mut touches = Vec::new();
    for &(op, at, bytes) in accesses.iter().filter(|(_, _, bytes)| *bytes > 0) {
        for line in at / LINE..=(at + bytes - 1) / LINE {
            if !touches.contains(&(op, line)) {
                touches.push((op, line));
            }
        }
    }
    touches
}
