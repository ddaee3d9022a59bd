//! Parameters of the model: one value describes one experiment.
//!
//! The default is the study's base. Sizes are in bytes unless stated otherwise.

use serde::Serialize;

use sim::Prefetchers;
use sim::memory::{Cleaning, Copying};

/// Header accesses of each thread before a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeaderUse {
    /// Reads the first line, writes all
    ReadWrite,
    /// Prefetches for writing at the beginning of the batch, then as `ReadWrite`
    PrefetchWrite,
    /// Neither reads nor writes the header
    NotWritten,
    /// Reads 4 bytes, writes all
    ReadFour,
    /// Reads the first line, writes 4 bytes
    WriteFour,
}

/// Owner of the headers that each thread uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeaderOwner {
    /// Rx and Tx use the headers of their own pools
    Private,
    /// All threads use the header of the guest's buffer
    Shared,
}

/// Order in which a pool's buffers are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// A fixed permutation, as in a pool after long use
    Permuted,
    /// Sequential
    Sequential,
}

/// One experiment: all parameters varied by the study.
#[expect(clippy::struct_excessive_bools, reason = "independent switches of a list of experiments")]
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
    /// Descriptors precede the indices
    pub descriptors_first: bool,
    /// A batch's first line of descriptors is published after the others
    pub first_line_last: bool,
    /// Distance between consecutive descriptors, in descriptors
    pub stride: u64,
    /// Size of a descriptor in bytes
    pub descriptor: u64,
    /// Descriptors per ring
    pub ring: u64,
    /// Copy method of Rx
    #[serde(skip)]
    pub copy_rx: Copying,
    /// Copy method of Tx
    #[serde(skip)]
    pub copy_tx: Copying,
    /// Cleaning of a line after it was copied
    #[serde(skip)]
    pub after_copy: Option<Cleaning>,
    /// The packet is prefetched before it is copied
    pub prefetch_packet: bool,
    /// Size of the header in front of each buffer, in bytes
    pub header: u64,
    /// Header accesses
    pub header_use: HeaderUse,
    /// Header owner
    pub header_owner: HeaderOwner,
    /// Number of reused headers, stored apart from the buffers; `None`: one header per buffer
    pub reused_headers: Option<u64>,
    /// Bytes between header and packet
    pub headroom: u64,
    /// Bytes reserved for the packet
    pub data: u64,
    /// Packet size in bytes
    pub packet: u64,
    /// Buffers per pool
    pub pool: u64,
    /// Order in which buffers are taken
    pub order: Order,
    /// Seed of the permutation, if `order` is one; 1 is the base's
    pub seed: u64,
    /// Packets per batch
    pub batch: u64,
    /// Enabled hardware prefetchers
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
