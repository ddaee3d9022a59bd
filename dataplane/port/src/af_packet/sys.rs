//! The system calls of packet sockets that no crate wraps: their options, their address, and sending several messages
//! whose pieces lie in other parties' memory.

use crate::interface::sys::last_error;
use crate::{BURST, Burst, OFFLOAD_HEADER};
use core::ptr::null_mut;
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::Errno;

/// `struct tpacket_req3`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Ring {
    pub(super) block_size: u32,
    pub(super) blocks: u32,
    pub(super) frame_size: u32,
    pub(super) frames: u32,
    /// Milliseconds after which a block that is not full is handed over.
    pub(super) timeout: u32,
    pub(super) private: u32,
    pub(super) features: u32,
}

/// Binds a packet socket to an interface; from here on it receives every frame.
pub(super) fn bind(socket: BorrowedFd<'_>, interface: u32) -> Result<(), Errno> {
    // SAFETY: an address of zeros is one.
    let mut address: libc::sockaddr_ll = unsafe { core::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = interface.cast_signed();
    let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the address outlives the call and has the length that is passed.
    let done = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
    if done < 0 { Err(last_error()) } else { Ok(()) }
}

/// Which fanout group a socket has joined.
pub(super) fn fanout(socket: BorrowedFd<'_>) -> Result<u32, Errno> {
    get(socket, libc::PACKET_FANOUT)
}

/// Frames that the kernel had for this socket and found no place for since it was asked last.
pub(super) fn missed(socket: BorrowedFd<'_>) -> u32 {
    /// `struct tpacket_stats_v3`
    #[repr(C)]
    #[derive(Clone, Copy, Default)]
    struct Statistics {
        packets: u32,
        drops: u32,
        freezes: u32,
    }
    get::<Statistics>(socket, libc::PACKET_STATISTICS).map_or(0, |statistics| statistics.drops)
}

/// A socket's option. `T` is made of integers, so any bytes are one.
fn get<T: Copy + Default>(socket: BorrowedFd<'_>, option: i32) -> Result<T, Errno> {
    let (mut value, mut len) = (T::default(), size_of::<T>() as libc::socklen_t);
    let (at, level) = ((&raw mut value).cast(), libc::SOL_PACKET);
    // SAFETY: both values are ours, outlive the call, and the length is the value's.
    let done = unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, at, &raw mut len) };
    if done < 0 { Err(last_error()) } else { Ok(value) }
}

/// Messages to be sent together. Reused for ever.
pub(super) struct Messages {
    headers: Vec<[u8; OFFLOAD_HEADER]>,
    pieces: Vec<libc::iovec>,
    /// Pieces of each message.
    counts: Vec<usize>,
    ready: Vec<libc::mmsghdr>,
}

// SAFETY: the pointers in here are set and used within one call of `send` and are nothing between calls.
unsafe impl Send for Messages {}

impl Messages {
    pub(super) fn new() -> Self {
        Self {
            headers: Vec::with_capacity(BURST),
            pieces: Vec::with_capacity(3 * BURST),
            counts: Vec::with_capacity(BURST),
            ready: Vec::with_capacity(BURST),
        }
    }

    /// Sends the packets `indices` of `burst`, each behind its offload header, in one system call, which does not wait.
    /// How many were sent before the first that could not be; an error where that was the first of all.
    pub(super) fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        burst: &Burst,
        indices: &[u8],
    ) -> Result<usize, Errno> {
        self.gather(burst, indices);
        let (at, n) = (self.ready.as_mut_ptr(), self.ready.len() as u32);
        // SAFETY: `gather` laid out `n` messages over pieces, headers and heads that outlive this call, and over
        // segments of the map that the burst has pinned. The kernel only reads them, and what others write to the
        // segments meanwhile is the contents of their own packet.
        let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), at, n, libc::MSG_DONTWAIT) };
        if sent < 0 { Err(last_error()) } else { Ok(sent as usize) }
    }

    fn gather(&mut self, burst: &Burst, indices: &[u8]) {
        self.headers.clear();
        self.pieces.clear();
        self.counts.clear();
        for &pick in indices {
            let (frame, before) = (burst.frame(usize::from(pick)), self.pieces.len());
            self.headers.push(frame.offload.header(frame.head));
            // The header's place is filled in below, when no more headers move.
            self.pieces.push(piece(null_mut(), OFFLOAD_HEADER));
            self.pieces.push(piece(frame.head.as_ptr().cast_mut(), frame.head.len()));
            self.pieces.extend(frame.rest().map(|seg| piece(seg.as_ptr(), seg.len())));
            self.counts.push(self.pieces.len() - before);
        }
        self.ready.clear();
        let mut at = 0;
        for (header, &count) in self.headers.iter().zip(&self.counts) {
            let pieces = &mut self.pieces[at..at + count];
            pieces[0].iov_base = header.as_ptr().cast_mut().cast();
            self.ready.push(message(pieces));
            at += count;
        }
    }
}

fn piece(at: *mut u8, len: usize) -> libc::iovec {
    libc::iovec { iov_base: at.cast(), iov_len: len }
}

fn message(pieces: &mut [libc::iovec]) -> libc::mmsghdr {
    // SAFETY: a message of zeros is one: no address, no pieces, no ancillary data.
    let mut message: libc::mmsghdr = unsafe { core::mem::zeroed() };
    message.msg_hdr.msg_iov = pieces.as_mut_ptr();
    message.msg_hdr.msg_iovlen = pieces.len();
    message
}
