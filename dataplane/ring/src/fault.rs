//! Protocol violations of the other side of a virtqueue. Each stops only the affected port.

/// Virtqueue fault; the queue cannot be used any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingFault {
    /// The ring size is zero or above 32768, or not a power of two (split).
    #[error("a queue of {0} entries is not allowed")]
    Size(u16),
    /// The initial base is outside the ring.
    #[error("the base {0:#x} lies outside the ring")]
    Base(u32),
    /// A ring area is outside the shared memory or misaligned.
    #[error("the {0} area lies outside the shared memory or is misaligned")]
    Area(&'static str),
    /// The available index is more than the ring size ahead, or moved back.
    #[error("the available index {index} is not within {size} entries after {used}")]
    IndexJump {
        /// Available index written by the driver.
        index: u16,
        /// Used index so far.
        used: u16,
        /// Ring size in entries.
        size: u16,
    },
    /// A head or `next` field is not a valid descriptor index.
    #[error("descriptor {0} does not exist")]
    NoSuchDescriptor(u16),
    /// A chain is longer than the queue (a loop, or a violation of section 2.7.5.3.1) or than [`crate::MAX_CHAIN`].
    #[error("a descriptor chain is longer than the queue or than {most} descriptors", most = crate::MAX_CHAIN)]
    ChainTooLong,
    /// A buffer has more than [`crate::MAX_PIECES`] segments.
    #[error("a buffer lies in more than {most} pieces", most = crate::MAX_PIECES)]
    TooManyPieces,
    /// A packed chain continues in a descriptor that is not available.
    #[error("a descriptor chain runs into a descriptor that is not available")]
    ChainUnfinished,
    /// More packed descriptors are available than the ring has entries.
    #[error("more descriptors are available than the ring has entries")]
    Lapped,
    /// An indirect descriptor is used but `INDIRECT_DESC` was not negotiated.
    #[error("an indirect descriptor is used but INDIRECT_DESC was not negotiated")]
    IndirectNotNegotiated,
    /// An indirect table contains an indirect descriptor.
    #[error("an indirect table contains an indirect descriptor")]
    IndirectNested,
    /// The state of a stopped ring does not fit the ring that is to continue from it.
    #[error("the state of the stopped ring is invalid: {0}")]
    State(&'static str),
    /// A descriptor has both INDIRECT and NEXT.
    #[error("an indirect descriptor has the NEXT flag")]
    IndirectWithNext,
    /// The length of an indirect table is zero, not a multiple of 16, or above [`crate::MAX_CHAIN`] descriptors.
    #[error("an indirect table of {0} bytes is not allowed")]
    IndirectLength(u32),
    /// A receive buffer has zero length.
    #[error("a buffer to write has no room at all")]
    NoRoom,
    /// A buffer or table is outside the shared memory.
    #[error("{len} bytes at guest address {address:#x} lie outside the shared memory")]
    Outside {
        /// Guest-physical address.
        address: u64,
        /// Length in bytes.
        len: u32,
    },
    /// The used index is further ahead than buffers are outstanding, or moved back.
    #[error("the used index {index} is not within {out} buffers after {taken}")]
    UsedJump {
        /// Used index written by the device.
        index: u16,
        /// Number of buffers reclaimed so far (16-bit index).
        taken: u16,
        /// Outstanding buffers.
        out: u16,
    },
    /// The device returned a buffer that was not outstanding.
    #[error("buffer {0} was used but not out")]
    NotOut(u32),
    /// The used length exceeds the buffer.
    #[error("{len} bytes were written into a buffer of {room}")]
    UsedLength {
        /// Used length written by the device, in bytes.
        len: u32,
        /// Buffer size in bytes.
        room: u32,
    },
    /// A received frame spans zero buffers, or more than a frame can need.
    #[error("a frame spans {0} buffers")]
    Merged(u16),
    /// A device-readable buffer has the WRITE flag.
    #[error("a buffer to read has the WRITE flag")]
    WriteOnRead,
    /// A device-writable buffer lacks the WRITE flag.
    #[error("a buffer to write lacks the WRITE flag")]
    ReadOnWrite,
}
