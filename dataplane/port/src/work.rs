//! What a turn of a receive queue may cost: the one place where work has a price and a limit.
//!
//! Workers serve receive queues by what they cost, and cost is counted in units of work instead of packets, because a guest chooses how much work one packet is: a frame of 64 KiB, a chain of a thousand descriptors, a broadcast to
//! every port, a packet to be cut into a thousand segments. A unit is about a nanosecond on the slowest machine that is
//! supported (`docs/decisions/0077-work-budgets.md` says how the prices were chosen). Prices are constants and not measured
//! while packets flow, so the same packets are served in the same order on every machine and a test can count.
//!
//! Nothing here knows a queue or a worker.

/// Units that one turn of a receive queue may use, for a burst that is sent whole or for the beginning of one that is not.
pub const TURN: u64 = 32 << 10;
/// Units that a turn may use that goes on with a burst which was carried over. It ends at the first step behind them; the
/// longest step is one frame of 64 KiB to one output, one chain of [`ring::MAX_CHAIN`] descriptors, or 64 segments. Less than
/// a turn, because others' packets wait for it, and a burst in parts has no overlap with the next to be lost.
pub const SLICE: u64 = 8 << 10;
/// Units that a receive queue may have used beyond the one that used least, among those with packets, before it is skipped.
/// More than a burst of 64-byte packets costs, so that only queues with expensive packets ever wait.
pub const LEAD: u64 = 4 << 10;

/// A packet that was received and classified.
pub const RECEIVED: u64 = 20;
/// A packet or a copy of one that was sent.
pub const SENT: u64 = 20;
/// A packet that leaves otherwise than it was received.
pub const EDIT: u64 = 10;
/// One output of a burst, whatever it takes.
pub const OUTPUT: u64 = 60;
/// A descriptor of a chain or table beyond the first of a packet.
pub const DESCRIPTOR: u64 = 8;
/// A piece of a packet beyond the first, read or written.
pub const PIECE: u64 = 8;
/// A segment that is made in software.
pub const SEGMENT: u64 = 60;
/// Bytes that are copied, or summed up for a checksum, for one unit.
pub const BYTES: u64 = 8;

/// Descriptors of chains after which one receive call takes nothing more.
pub const RECEIVE_DESCRIPTORS: usize = 256;
/// Pieces beyond first ones that a burst holds before it takes no further packet of several.
pub const RECEIVE_PIECES: usize = 1024;
/// Bytes after which a receive call that copies takes nothing more.
pub const RECEIVE_BYTES: usize = 64 << 10;

/// What it costs to send `packets` packets of `bytes` bytes together to one output.
#[inline(always)]
pub const fn sending(packets: u64, bytes: u64) -> u64 {
    OUTPUT + packets * SENT + bytes / BYTES
}

// A full burst of Ethernet frames fits into a turn, and one of short frames into the lead.
const _: () = assert!(64 * (RECEIVED + SENT) + OUTPUT + 64 * 1514 / BYTES < TURN);
const _: () = assert!(64 * (RECEIVED + SENT) + OUTPUT + 64 * 64 / BYTES < LEAD);
