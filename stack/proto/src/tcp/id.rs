//! Identifiers of connections and listeners.

/// A connection of one stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl ConnectionId {
    /// A number for tables of the application: below the stack's limit of connections, and used again after the
    /// connection ends.
    pub const fn index(self) -> usize {
        self.index as usize
    }

    /// As a number, for interfaces in other languages.
    pub const fn to_bits(self) -> u64 {
        (self.generation as u64) << 32 | self.index as u64
    }

    /// From the number of [`ConnectionId::to_bits`]. Any other number is an identifier that is not valid.
    pub const fn from_bits(bits: u64) -> Self {
        Self { index: bits as u32, generation: (bits >> 32) as u32 }
    }
}

/// A listener of one stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListenerId(pub(crate) u32);

impl ListenerId {
    /// As a number, for tables of the application and interfaces in other languages. Starts at 1 and is not used again.
    pub const fn to_bits(self) -> u32 {
        self.0
    }

    /// From the number of [`ListenerId::to_bits`]. Any other number is an identifier that is not valid.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }
}
