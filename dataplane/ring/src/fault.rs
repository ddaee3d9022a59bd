//! The ways the other side can break a virtqueue. Each stops its port and nobody else's.

/// Why a virtqueue cannot be used any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingFault {
    /// A split ring's size is no power of two, or either kind's is zero or above 32768.
    #[error("a queue of {0} entries is not allowed")]
    Size(u16),
    /// The base named at the start does not fit the ring.
    #[error("the base {0:#x} lies outside the ring")]
    Base(u32),
    /// A ring area lies outside the shared memory or is misaligned.
    #[error("the {0} area lies outside the shared memory or is misaligned")]
    Area(&'static str),
    /// The available index is further ahead than the ring has entries, or went back.
    #[error("the available index {index} is not within {size} entries after {used}")]
    IndexJump {
        /// What the driver wrote.
        index: u16,
        /// What was used so far.
        used: u16,
        /// Entries of the ring.
        size: u16,
    },
    /// A head or a next field names no descriptor.
    #[error("descriptor {0} does not exist")]
    NoSuchDescriptor(u16),
    /// A chain is longer than the queue, so it loops or breaks section 2.7.5.3.1, or longer than [`crate::MAX_CHAIN`].
    #[error("a descriptor chain is longer than the queue or than {most} descriptors", most = crate::MAX_CHAIN)]
    ChainTooLong,
    /// A buffer lies in more than [`crate::MAX_PIECES`] pieces.
    #[error("a buffer lies in more than {most} pieces", most = crate::MAX_PIECES)]
    TooManyPieces,
    /// A packed chain ends in a descriptor that was not made available.
    #[error("a descriptor chain runs into a descriptor that is not available")]
    ChainUnfinished,
    /// More packed descriptors are available than the ring has.
    #[error("more descriptors are available than the ring has entries")]
    Lapped,
    /// An indirect descriptor without the feature.
    #[error("an indirect descriptor is used but INDIRECT_DESC was not negotiated")]
    IndirectNotNegotiated,
    /// An indirect table inside an indirect table.
    #[error("an indirect table contains an indirect descriptor")]
    IndirectNested,
    /// INDIRECT and NEXT in one descriptor.
    #[error("an indirect descriptor has the NEXT flag")]
    IndirectWithNext,
    /// The table's length is zero, no multiple of 16, or above that of [`crate::MAX_CHAIN`] descriptors.
    #[error("an indirect table of {0} bytes is not allowed")]
    IndirectLength(u32),
    /// A receive buffer without a byte of room.
    #[error("a buffer to write has no room at all")]
    NoRoom,
    /// A buffer or table lies outside the shared memory.
    #[error("{len} bytes at guest address {address:#x} lie outside the shared memory")]
    Outside {
        /// Guest-physical address.
        address: u64,
        /// Bytes.
        len: u32,
    },
    /// The used index is further ahead than buffers are out, or went back.
    #[error("the used index {index} is not within {out} buffers after {taken}")]
    UsedJump {
        /// What the device wrote.
        index: u16,
        /// What was taken back so far.
        taken: u16,
        /// Buffers that the device has.
        out: u16,
    },
    /// A buffer came back that the device did not have.
    #[error("buffer {0} was used but not out")]
    NotOut(u32),
    /// The device says that it wrote past the end of a buffer.
    #[error("{len} bytes were written into a buffer of {room}")]
    UsedLength {
        /// What the device wrote.
        len: u32,
        /// Bytes of the buffer.
        room: u32,
    },
    /// A received frame spans no buffer, or more than any frame needs.
    #[error("a frame spans {0} buffers")]
    Merged(u16),
    /// A buffer for the device to read has the WRITE flag.
    #[error("a buffer to read has the WRITE flag")]
    WriteOnRead,
    /// A buffer for the device to write lacks the WRITE flag.
    #[error("a buffer to write lacks the WRITE flag")]
    ReadOnWrite,
}
