//! What can be varied about the model: one value that describes one experiment.
//!
//! The default is the study's base. Sizes are in bytes unless said otherwise.

use serde::Serialize;

use sim::Prefetchers;
use sim::memory::{Cleaning, Copying};

/// What each thread does to the header before a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeaderUse {
    /// Its first line is read, all of it is written
    ReadWrite,
    /// Prefetched for writing at the beginning of the batch, then as `ReadWrite`
    PrefetchWrite,
    /// Only read
    NotWritten,
    /// 4 bytes are read, all of it is written
    ReadFour,
    /// Its first line is read, 4 bytes are written
    WriteFour,
}

/// Whose header each thread uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeaderOwner {
    /// Rx and Tx use those of their own pools
    Private,
    /// All use the guest's buffer
    Shared,
}

/// In which order a pool's buffers are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// A fixed permutation, as in a pool that has been used for long
    Permuted,
    /// One after the other
    Sequential,
}

/// One experiment: everything that the study varies.
// Independent switches of a list of experiments: a state machine of them would be 2^7 states.
#[allow(clippy::struct_excessive_bools)]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Config {
    /// `last_avail` on a line of its own
    pub own_avail: bool,
    /// `last_used` on a line of its own
    pub own_used: bool,
    /// `last_pool` on a line of its own
    pub own_pool: bool,
    /// Each ring, and the descriptors in it, begin on a line
    pub aligned: bool,
    /// Indices of 8 bytes instead of 2
    pub wide_indices: bool,
    /// Descriptors stand before the indices
    pub descriptors_first: bool,
    /// A batch's first line of descriptors is published after the others
    pub first_line_last: bool,
    /// Descriptors between two that follow each other
    pub stride: u64,
    /// Bytes of a descriptor
    pub descriptor: u64,
    /// Descriptors in a ring
    pub ring: u64,
    /// How Rx copies
    #[serde(skip)]
    pub copy_rx: Copying,
    /// How Tx copies
    #[serde(skip)]
    pub copy_tx: Copying,
    /// What is done to a line after it was copied
    #[serde(skip)]
    pub after_copy: Option<Cleaning>,
    /// The packet is prefetched before it is copied
    pub prefetch_packet: bool,
    /// Bytes of the header in front of each buffer
    pub header: u64,
    /// What is done to it
    pub header_use: HeaderUse,
    /// Whose it is
    pub header_owner: HeaderOwner,
    /// As few headers as this are used again and again, apart from the buffers
    pub reused_headers: Option<u64>,
    /// Bytes between header and packet
    pub headroom: u64,
    /// Bytes for the packet
    pub data: u64,
    /// Bytes of a packet
    pub packet: u64,
    /// Buffers in each pool
    pub pool: u64,
    /// In which order they are taken
    pub order: Order,
    /// Which of many permutations the order is, where it is one; 1 is the base's
    pub seed: u64,
    /// Packets in a batch
    pub batch: u64,
    /// The processor's prefetchers
    pub prefetchers: Prefetchers,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            own_avail: false,
            own_used: false,
            own_pool: false,
            aligned: false,
            wide_indices: false,
            descriptors_first: false,
            first_line_last: false,
            stride: 1,
            descriptor: 16,
            ring: 256,
            copy_rx: Copying::Libc,
            copy_tx: Copying::Libc,
            after_copy: None,
            prefetch_packet: false,
            header: 128,
            header_use: HeaderUse::ReadWrite,
            header_owner: HeaderOwner::Private,
            reused_headers: None,
            headroom: 128,
            data: 2048,
            packet: 64,
            pool: 163_456,
            order: Order::Permuted,
            seed: 1,
            batch: 32,
            prefetchers: Prefetchers { stream: true, adjacent: true },
        }
    }
}
