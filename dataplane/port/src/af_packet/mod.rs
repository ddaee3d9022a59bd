//! Packet sockets (`AF_PACKET`): any interface as a port, also where no XDP program can be loaded.
//!
//! `control` makes one socket for each queue and joins them in a fanout group; received frames lie in `blocks` that the
//! kernel fills (`TPACKET_V3`) and `rx` hands on from where they lie; `tx` has the kernel gather what is sent from where
//! it lies in its source's memory. Either way the frame's offload header (`PACKET_VNET_HDR`) goes with it, so nothing is
//! summed or cut here. The kernel is trusted, and is the only one that writes the blocks.

mod blocks;
mod control;
mod options;
mod rx;
mod socket;
mod sys;
mod tx;

pub use control::open;
pub use options::{BLOCKS, MAX_BLOCKS, MIN_BLOCKS, Options};

#[cfg(test)]
mod tests;
