//! One packet socket with its receive ring: creation, binding and fanout group.

use super::blocks::{BLOCK, Blocks};
use super::options::Options;
use super::sys::{self, Ring};
use crate::interface::sys::{packet_socket, promiscuous, set};
use crate::interface::{InterfaceError, Watch};
use mem::{GuestMemory, Region};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::sync::Arc;

// Options of linux/if_packet.h.
const PACKET_VERSION: i32 = 10;
const PACKET_RX_RING: i32 = 5;
const PACKET_VNET_HDR: i32 = 15;
const PACKET_FANOUT: i32 = 18;
const PACKET_QDISC_BYPASS: i32 = 20;
const PACKET_IGNORE_OUTGOING: i32 = 23;
const TPACKET_V3: i32 = 2;
/// `PACKET_FANOUT_HASH`: all frames of a flow go to one socket.
const BY_FLOW: u32 = 0;
/// `PACKET_FANOUT_FLAG_UNIQUEID`: the kernel chooses an unused group.
const UNIQUE: u32 = 0x2000 << 16;

/// Milliseconds after which the kernel passes on a partly filled block; the minimum.
const TIMEOUT: u32 = 1;
/// Send buffer size: maximum bytes of packets in flight.
const SEND_BUFFER: usize = 4 << 20;
/// Nominal frame size, required for a consistent request; frames in a block have any length.
const FRAME: u32 = 2048;

/// A socket with its blocks.
#[derive(Debug)]
pub(super) struct BoundSocket {
    pub(super) socket: Arc<OwnedFd>,
    pub(super) blocks: Blocks,
}

/// Creates the port's sockets, which start receiving.
pub(super) fn make(options: &Options, watch: &Watch) -> Result<Vec<BoundSocket>, InterfaceError> {
    let mut made: Vec<BoundSocket> = Vec::new();
    for _ in 0..options.queue_pairs {
        let first = made.first().map(|made| made.socket.as_fd());
        let next = one(options, watch.index, first)?;
        made.push(next);
    }
    Ok(made)
}

fn one(
    options: &Options,
    interface: u32,
    first: Option<BorrowedFd<'_>>,
) -> Result<BoundSocket, InterfaceError> {
    let place = &options.place;
    let socket = packet_socket().map_err(place.refused("making a packet socket"))?;
    prepare(socket.as_fd(), interface).map_err(place.refused("setting up a packet socket"))?;
    ring(socket.as_fd(), options.blocks).map_err(place.refused("making a packet socket's ring"))?;
    let blocks = blocks(options, socket.as_fd())?;
    sys::bind(socket.as_fd(), interface).map_err(place.refused("binding a packet socket"))?;
    if options.queue_pairs > 1 {
        join(socket.as_fd(), first).map_err(place.refused("joining packet sockets"))?;
    }
    Ok(BoundSocket { socket: Arc::new(socket), blocks })
}

/// Uses a socket of another process.
pub(super) fn adopt(options: &Options, socket: Arc<OwnedFd>) -> Result<BoundSocket, InterfaceError> {
    Ok(BoundSocket { blocks: blocks(options, socket.as_fd())?, socket })
}

/// Maps the blocks of a socket. Fails if it has another number of blocks.
fn blocks(options: &Options, socket: BorrowedFd<'_>) -> Result<Blocks, InterfaceError> {
    let memory = |why: &dyn std::fmt::Display| InterfaceError::Memory(options.place.clone(), why.to_string());
    let region = Region::device(socket, options.bytes()).map_err(|e| memory(&e))?;
    let map = GuestMemory::new(vec![Arc::new(region)]).map_err(|e| memory(&e))?;
    Ok(Blocks::new(Arc::new(map), options.blocks))
}

/// Sets the options that must be set before the socket is bound.
fn prepare(socket: BorrowedFd<'_>, interface: u32) -> Result<(), Errno> {
    let packet = |option, value: i32| set(socket, libc::SOL_PACKET, option, &value);
    packet(PACKET_VERSION, TPACKET_V3)?;
    packet(PACKET_VNET_HDR, 1)?;
    packet(PACKET_IGNORE_OUTGOING, 1)?;
    packet(PACKET_QDISC_BYPASS, 1)?;
    // Allows several bursts of long packets in flight on a slow interface. Fails without CAP_NET_ADMIN; then fewer
    // packets are in flight.
    let _ = rustix::net::sockopt::set_socket_send_buffer_size_force(socket, SEND_BUFFER);
    promiscuous(interface, socket)
}

fn ring(socket: BorrowedFd<'_>, blocks: u16) -> Result<(), Errno> {
    let blocks = u32::from(blocks);
    let ring = Ring {
        block_size: BLOCK,
        blocks,
        frame_size: FRAME,
        frames: blocks * (BLOCK / FRAME),
        timeout: TIMEOUT,
        private: 0,
        features: 0,
    };
    set(socket, libc::SOL_PACKET, PACKET_RX_RING, &ring)
}

/// Creates the fanout group for the first socket; joins it for the others.
fn join(socket: BorrowedFd<'_>, first: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
    let group = match first {
        None => BY_FLOW << 16 | UNIQUE,
        Some(first) => BY_FLOW << 16 | sys::fanout(first)? & 0xffff,
    };
    set(socket, libc::SOL_PACKET, PACKET_FANOUT, &group)
}
