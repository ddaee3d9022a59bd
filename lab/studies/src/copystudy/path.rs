//! The two threads of the path, one batch at a time.
//!
//! Protocol: two counts on separate lines; only the guest stores one, only the host the other. In a batch the guest
//! posts its buffer addresses and raises its count; the host copies into them and raises its count; the guest reads or
//! edits them and raises its count; the host copies them out and raises its count. Stores become visible in order, so a
//! thread that sees a count also sees all earlier stores. While one side times a copy, the other only waits.

use super::setting::Setting;
use sim::memory::{Address, Copying, Intent, LINE, Memory, Width};

/// Packets per batch.
const BATCH: u64 = 32;
/// Number of packets that warm copies repeat.
const WARM: u64 = 4;
const RING: u64 = 256;
const DESCRIPTOR: u64 = 16;
/// Instructions per packet besides copying: loop, lengths, addresses; as in the model of the first study.
const WORK: u64 = 24;
/// Instructions to enter the C library's copy: call, jump to the variant, length comparisons. An estimate, not counted
/// in any library; an inlined copy has none.
const CALL: u64 = 10;

const GUEST_SAYS: Address = 0;
const HOST_SAYS: Address = 2 * LINE;
/// Addresses of the two counts, which must be zero before a run.
pub(super) const COUNTS: [Address; 2] = [GUEST_SAYS, HOST_SAYS];
const DESCRIPTORS: Address = 4096;
const POOLS: Address = 1 << 14;
/// Distance between two buffers: the longest packet, one byte of offset, and padding to spread them over cache sets.
const STRIDE: u64 = 2048 + 128;

/// Memory layout.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    buffers: u64,
    offset: u64,
    moved: u64,
}

impl Layout {
    pub(super) fn new(setting: &Setting) -> Layout {
        assert!(setting.size + setting.offset <= STRIDE, "a packet of {} bytes has no room", setting.size);
        Layout { buffers: setting.buffers, offset: setting.offset, moved: setting.moved }
    }

    /// Size of the arena in bytes.
    pub(super) fn bytes(self) -> u64 {
        self.pool(3)
    }

    /// Address range of the guest's memory: counts, descriptors and its buffers.
    pub(super) fn guest(self) -> std::ops::Range<Address> {
        0..self.pool(1)
    }

    fn pool(self, n: u64) -> Address {
        POOLS + n * ((self.buffers * STRIDE).next_multiple_of(4096) + self.moved)
    }

    fn guest_buffer(self, n: u64) -> Address {
        self.pool(0) + n % self.buffers * STRIDE + self.offset
    }

    fn arrived(self, n: u64) -> Address {
        self.pool(1) + n % self.buffers * STRIDE
    }

    fn leaving(self, n: u64) -> Address {
        self.pool(2) + n % self.buffers * STRIDE + self.offset
    }
}

fn descriptor(n: u64) -> Address {
    DESCRIPTORS + n % RING * DESCRIPTOR
}

fn await_count<M: Memory>(memory: &mut M, at: Address, count: u64) {
    while memory.load(at, Width::Eight) != count {
        memory.pause(at);
    }
}

/// Returns the time of a batch, per packet.
#[inline]
pub(super) fn between_fences<M: Memory>(
    memory: &mut M,
    now: &impl Fn(&M) -> f64,
    work: impl FnOnce(&mut M),
) -> f64 {
    memory.fence();
    let begin = now(memory);
    work(memory);
    memory.fence();
    (now(memory) - begin) / BATCH as f64
}

/// Copies packets in and out.
///
/// Packets are at most [`super::MAX_SIZE`] bytes long; [`Host::new`] and [`Guest::new`] panic for longer ones.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    setting: Setting,
    layout: Layout,
    batches: u64,
}

impl Host {
    /// Creates the host of an experiment.
    pub fn new(setting: &Setting) -> Host {
        Host { setting: *setting, layout: Layout::new(setting), batches: 0 }
    }

    /// Runs one batch; returns the times of the copy to the guest and of the copy from it, per packet, by the given
    /// clock.
    #[inline]
    pub fn batch<M: Memory>(&mut self, memory: &mut M, now: &impl Fn(&M) -> f64) -> [f64; 2] {
        let (first, turn) = (self.batches * BATCH, 2 * self.batches);
        for n in first..first + BATCH {
            memory.device_write(self.layout.arrived(n), self.setting.size);
        }
        await_count(memory, GUEST_SAYS, turn + 1);
        let to = self.timed(memory, now, first, true);
        memory.store(HOST_SAYS, Width::Eight, turn + 1);
        await_count(memory, GUEST_SAYS, turn + 2);
        let from = self.timed(memory, now, first, false);
        memory.store(HOST_SAYS, Width::Eight, turn + 2);
        self.batches += 1;
        [to, from]
    }

    #[inline]
    fn timed<M: Memory>(&self, memory: &mut M, now: &impl Fn(&M) -> f64, first: u64, to_guest: bool) -> f64 {
        if self.setting.warm {
            self.copies(memory, first, to_guest);
            self.copies(memory, first, to_guest);
        }
        between_fences(memory, now, |memory| self.copies(memory, first, to_guest))
    }

    /// Returns the batch's packets; for warm copies a few repeated ones, which fit into the first level on both sides.
    fn taken(&self, first: u64) -> impl Iterator<Item = u64> {
        let few = if self.setting.warm { WARM } else { BATCH };
        (0..BATCH).map(move |n| first + n % few)
    }

    fn copies<M: Memory>(&self, memory: &mut M, first: u64, to_guest: bool) {
        if self.setting.prefetch {
            let intent = if to_guest { Intent::Write } else { Intent::Read };
            for n in self.taken(first) {
                let buffer = memory.load(descriptor(n), Width::Eight);
                memory.follows();
                memory.prefetch(buffer, intent);
            }
        }
        for n in self.taken(first) {
            let buffer = memory.load(descriptor(n), Width::Eight);
            memory.follows();
            if self.setting.how == Copying::Libc {
                memory.work(CALL);
            }
            let (from, to) =
                if to_guest { (self.layout.arrived(n), buffer) } else { (buffer, self.layout.leaving(n)) };
            memory.copy(from, to, self.setting.size, self.setting.how);
            memory.store(descriptor(n) + 8, Width::Four, self.setting.size);
            memory.work(WORK);
        }
    }
}

/// Posts buffers, and reads or edits incoming packets.
#[derive(Clone, Copy, Debug)]
pub struct Guest {
    setting: Setting,
    layout: Layout,
    batches: u64,
}

impl Guest {
    /// Creates the guest of an experiment.
    pub fn new(setting: &Setting) -> Guest {
        Guest { setting: *setting, layout: Layout::new(setting), batches: 0 }
    }

    /// Runs one batch.
    pub fn batch<M: Memory>(&mut self, memory: &mut M) {
        let (first, turn) = (self.batches * BATCH, 2 * self.batches);
        for n in first..first + BATCH {
            memory.store(descriptor(n), Width::Eight, self.layout.guest_buffer(n));
        }
        memory.store(GUEST_SAYS, Width::Eight, turn + 1);
        await_count(memory, HOST_SAYS, turn + 1);
        for n in first..first + BATCH {
            self.packet(memory, n);
        }
        memory.fence();
        memory.store(GUEST_SAYS, Width::Eight, turn + 2);
        await_count(memory, HOST_SAYS, turn + 2);
        self.batches += 1;
    }

    fn packet<M: Memory>(&self, memory: &mut M, n: u64) {
        let length = memory.load(descriptor(n) + 8, Width::Four);
        let at = self.layout.guest_buffer(n);
        memory.read(at, length);
        if self.setting.edited {
            memory.write(at, length);
        }
        memory.work(WORK);
    }
}
