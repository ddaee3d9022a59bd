//! Work budgets of receive queues: cost of operations and limits, in work units.
//!
//! Workers schedule receive queues by cost, counted in units of work instead of packets, because a guest determines
//! the work per packet: a frame of 64 KiB, a chain of a thousand descriptors, a broadcast to every port, or a packet
//! to be cut into a thousand segments. A unit is about a nanosecond on the slowest supported machine
//! (`docs/decisions/0077-work-budgets.md` describes how the costs were chosen). Costs are constants and not measured
//! at run time, so the same packets are served in the same order on every machine, and tests can count.
//!
//! Independent of queues and workers.

/// Budget of one turn of a receive queue: a complete burst, or the first part of one.
pub const TURN: u64 = 32 << 10;
/// Budget of a turn that continues a carried-over burst. It ends after the first step that exceeds it; the longest
/// step is one frame of 64 KiB to one output, one chain of [`ring::MAX_CHAIN`] descriptors, or 64 segments. Smaller
/// than a turn, because other queues' packets wait, and a partial burst has no overlap with the next one to lose.
pub const SLICE: u64 = 8 << 10;
/// Maximum lead of a receive queue over the queue with the least cost, among those with packets, before it is
/// skipped. More than the cost of a burst of 64-byte packets, so that only queues with expensive packets are skipped.
pub const LEAD: u64 = 4 << 10;

/// Receiving and classifying a packet.
pub const RECEIVED: u64 = 20;
/// Sending a packet or a copy.
pub const SENT: u64 = 20;
/// Editing a packet.
pub const EDIT: u64 = 10;
/// Fixed cost of one output of a burst.
pub const OUTPUT: u64 = 60;
/// A descriptor of a chain or table, beyond a packet's first.
pub const DESCRIPTOR: u64 = 8;
/// A segment of a packet read or written, beyond the first.
pub const PIECE: u64 = 8;
/// Creating a segment in software.
pub const SEGMENT: u64 = 60;
/// Bytes copied or summed per unit.
pub const BYTES: u64 = 8;

/// Descriptors of chains after which a receive call stops.
pub const RECEIVE_DESCRIPTORS: usize = 256;
/// Segments beyond the first ones after which a burst takes no more chained packets.
pub const RECEIVE_PIECES: usize = 1024;
/// Bytes after which a receive call that copies stops.
pub const RECEIVE_BYTES: usize = 64 << 10;

/// Cost of sending `packets` packets of `bytes` bytes in total to one output.
#[inline(always)]
pub const fn sending(packets: u64, bytes: u64) -> u64 {
    OUTPUT + packets * SENT + bytes / BYTES
}

// A full burst of Ethernet frames fits in a turn, and one of short frames in the lead.
const _: () = assert!(64 * (RECEIVED + SENT) + OUTPUT + 64 * 1514 / BYTES < TURN);
const _: () = assert!(64 * (RECEIVED + SENT) + OUTPUT + 64 * 64 / BYTES < LEAD);
