//! Memory interface of a model's thread: the same code runs on real memory, under hardware counters, and in the
//! simulator.
//!
//! Addresses are offsets into an arena that the memory owns. Data that decides control flow (descriptors, indices) is
//! loaded and stored with its value; data that is only carried or touched (packets, headers) uses [`Memory::read`],
//! [`Memory::write`] and [`Memory::copy`], whose bytes a simulator need not store. Calls that only the simulator needs
//! (`follows`, `work`) must cost nothing on real memory.

/// Offset in the arena, in bytes.
pub type Address = u64;

/// Length of a cache line in bytes, the unit of coherence.
pub const LINE: u64 = 64;

/// Width of one access to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Width {
    /// 2 bytes
    Two,
    /// 4 bytes
    Four,
    /// 8 bytes
    Eight,
}

impl Width {
    /// Width in bytes.
    #[inline]
    pub const fn bytes(self) -> u64 {
        match self {
            Width::Two => 2,
            Width::Four => 4,
            Width::Eight => 8,
        }
    }
}

/// Copy method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Copying {
    /// The C library's `memcpy`
    Libc,
    /// 4 bytes at a time (`movl`)
    Words,
    /// 16 bytes at a time (SSE)
    Sse,
    /// 32 bytes at a time (AVX2, `vmovdqu`)
    Avx2,
    /// 64 bytes at a time (AVX-512)
    Avx512,
    /// 32 bytes at a time, non-temporal (`vmovntdq`)
    NonTemporal,
    /// One string instruction (`rep movsb`)
    RepMovsb,
    /// No copy: the address is passed on
    None,
}

impl Copying {
    /// Bytes moved by one load and one store.
    #[inline]
    pub const fn step(self) -> u64 {
        match self {
            Copying::Words => 4,
            Copying::Sse => 16,
            Copying::Libc | Copying::Avx2 | Copying::NonTemporal => 32,
            Copying::Avx512 | Copying::RepMovsb => 64,
            Copying::None => u64::MAX,
        }
    }
}

/// Intended use of a prefetched line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Intent {
    /// `prefetcht0`
    Read,
    /// `prefetchw`
    Write,
}

/// Cache line cleaning instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cleaning {
    /// Written to memory and removed from all caches (CLFLUSHOPT)
    Flush,
    /// Written to memory and kept (CLWB)
    WriteBack,
    /// Moved towards the shared cache (CLDEMOTE); a hint that many processors ignore
    Demote,
}

/// One thread's view of the arena.
pub trait Memory {
    /// Loads a value; a plain load on x86, which keeps loads in order.
    fn load(&mut self, at: Address, width: Width) -> u64;
    /// Stores a value; a plain store on x86, where stores become visible in order.
    fn store(&mut self, at: Address, width: Width, value: u64);
    /// Loads a value from an address produced by the previous load: it starts only after that load's value has arrived.
    fn load_next(&mut self, at: Address, width: Width) -> u64 {
        self.load(at, width)
    }
    /// Loads `length` bytes and discards them.
    fn read(&mut self, at: Address, length: u64);
    /// Stores `length` bytes of arbitrary content.
    fn write(&mut self, at: Address, length: u64);
    /// Copies `length` bytes.
    fn copy(&mut self, from: Address, to: Address, length: u64, how: Copying);
    /// Prefetches the line of `at`.
    fn prefetch(&mut self, at: Address, intent: Intent);
    /// Flushes, writes back or demotes the line of `at`.
    fn clean(&mut self, at: Address, how: Cleaning);
    /// Makes the next access depend on the last load: its address comes from that load's value.
    fn follows(&mut self);
    /// Executes instructions that access no memory of the arena.
    fn work(&mut self, instructions: u64);
    /// Pauses a poll: the value last loaded from `at` is not the wanted one.
    fn pause(&mut self, at: Address);
    /// Polls until `wanted` accepts the value, and returns it.
    #[inline]
    fn load_until(&mut self, at: Address, width: Width, wanted: impl Fn(u64) -> bool) -> u64
    where
        Self: Sized,
    {
        loop {
            let value = self.load(at, width);
            if wanted(value) {
                return value;
            }
            self.pause(at);
        }
    }
    /// Waits until all earlier loads have their values and all earlier stores are visible (MFENCE).
    fn fence(&mut self) {}
    /// Performs a device write of `length` bytes of arbitrary content (frame reception). Memory without a device model
    /// has the processor write them.
    fn device_write(&mut self, at: Address, length: u64) {
        self.write(at, length);
    }
}
