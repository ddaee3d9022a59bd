//! `AF_PACKET` port: works on any interface, also where no XDP program can be loaded.
//!
//! `control` creates one socket per queue and joins them in a fanout group. The kernel writes received frames to
//! `blocks` (`TPACKET_V3`), and `rx` passes them on in place. `tx` has the kernel read each packet in place from its
//! source's memory. In both directions the frame's offload header (`PACKET_VNET_HDR`) is passed along, so this port
//! computes no checksums and segments no packets. The kernel is trusted, and is the only writer of the blocks.

mod blocks;
mod control;
mod options;
mod rx;
mod socket;
mod sys;
mod tx;

pub use control::{open, successor};
pub use options::{BLOCKS, MAX_BLOCKS, MIN_BLOCKS, Options};

#[cfg(test)]
mod handover_tests;
#[cfg(test)]
mod tests;
