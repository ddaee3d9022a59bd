//! What a thread of a model may do to memory: the one interface under which the same code runs on real memory, under
//! hardware counters, and in the simulator.
//!
//! Addresses are offsets into an arena that the memory owns. Whatever decides the flow of the code (descriptors,
//! indices) is loaded and stored with its value; what is only carried or touched (packets, headers) goes through
//! [`Memory::read`], [`Memory::write`] and [`Memory::copy`], which a simulator need not remember byte for byte.
//! Calls that only the simulator needs (`follows`, `work`) must cost nothing on real memory.

/// A place in the arena, in bytes from its beginning.
pub type Address = u64;

/// The length of a cache line, in bytes: what coherence moves.
pub const LINE: u64 = 64;

/// How wide one access to a value is.
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
    /// In bytes.
    #[inline]
    pub const fn bytes(self) -> u64 {
        match self {
            Width::Two => 2,
            Width::Four => 4,
            Width::Eight => 8,
        }
    }
}

/// How bytes are moved from one place to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Copying {
    /// The C library's `memcpy`
    Libc,
    /// 4 bytes at a time (`movl`)
    Words,
    /// 16 bytes at a time (SSE)
    Sse,
    /// 32 bytes at a time (AVX2, `vmovdqa` where aligned)
    Avx2,
    /// 64 bytes at a time (AVX-512)
    Avx512,
    /// 32 bytes at a time past the caches (`vmovntdq`)
    NonTemporal,
    /// One string instruction (`rep movsb`)
    RepMovsb,
    /// Not at all: the place is handed on
    None,
}

impl Copying {
    /// Bytes that one load and one store of it move.
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

/// What a prefetched line is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Intent {
    /// `prefetcht0`
    Read,
    /// `prefetchw`
    Write,
}

/// How a line is sent away from the core.
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
    /// Loads a value; plain on x86, where loads stay in order.
    fn load(&mut self, at: Address, width: Width) -> u64;
    /// Stores a value; plain on x86, where stores become visible in order.
    fn store(&mut self, at: Address, width: Width, value: u64);
    /// Loads a value from an address that the load before gave: it cannot begin before that one's value is there.
    fn load_next(&mut self, at: Address, width: Width) -> u64 {
        self.load(at, width)
    }
    /// Loads `length` bytes and forgets them.
    fn read(&mut self, at: Address, length: u64);
    /// Stores `length` bytes of no meaning.
    fn write(&mut self, at: Address, length: u64);
    /// Moves `length` bytes.
    fn copy(&mut self, from: Address, to: Address, length: u64, how: Copying);
    /// Asks for the line of `at` ahead of its use.
    fn prefetch(&mut self, at: Address, intent: Intent);
    /// Sends the line of `at` away.
    fn clean(&mut self, at: Address, how: Cleaning);
    /// The next access's address comes from the last load: it cannot begin before.
    fn follows(&mut self);
    /// Instructions that touch no memory of the arena.
    fn work(&mut self, instructions: u64);
    /// The value last loaded from `at` is not the one wanted: ask again later.
    fn pause(&mut self, at: Address);
    /// Asks again and again until the value is one that is wanted, and returns it.
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
    /// Waits until everything before has happened: loads have their values and stores are visible (MFENCE).
    fn fence(&mut self) {}
    /// A device writes `length` bytes of no meaning (a frame arrives). Memory without a device has the processor write them.
    fn device_write(&mut self, at: Address, length: u64) {
        self.write(at, length);
    }
}
