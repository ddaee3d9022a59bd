//! System calls of packet sockets without a wrapper crate: socket options, bind, and sending several messages whose
//! buffers are in other parties' memory.

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
    /// Milliseconds after which a partly filled block is passed on.
    pub(super) timeout: u32,
    pub(super) private: u32,
    pub(super) features: u32,
}

/// Binds a packet socket to an interface; the socket receives every frame from then on.
pub(super) fn bind(socket: BorrowedFd<'_>, interface: u32) -> Result<(), Errno> {
    // SAFETY: all-zero bytes are a valid `sockaddr_ll`.
    let mut address: libc::sockaddr_ll = unsafe { core::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = interface.cast_signed();
    let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the address outlives the call and has the length that is passed.
    let done = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
    if done < 0 { Err(last_error()) } else { Ok(()) }
}

/// Fanout group and mode of a socket.
pub(super) fn fanout(socket: BorrowedFd<'_>) -> Result<u32, Errno> {
    get(socket, libc::PACKET_FANOUT)
}

/// Frames dropped by the kernel for lack of space on this socket since the last call.
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

/// Reads a socket option. `T` consists of integers, so all byte values are valid.
fn get<T: Copy + Default>(socket: BorrowedFd<'_>, option: i32) -> Result<T, Errno> {
    let (mut value, mut len) = (T::default(), size_of::<T>() as libc::socklen_t);
    let (at, level) = ((&raw mut value).cast(), libc::SOL_PACKET);
    // SAFETY: both values are locals that outlive the call, and the length is that of the value.
    let done = unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, at, &raw mut len) };
    if done < 0 { Err(last_error()) } else { Ok(value) }
}

/// Messages to be sent in one call. The allocations are reused.
pub(super) struct Messages {
    headers: Vec<[u8; OFFLOAD_HEADER]>,
    pieces: Vec<libc::iovec>,
    /// Number of buffers of each message.
    counts: Vec<usize>,
    ready: Vec<libc::mmsghdr>,
}

// SAFETY: the pointers are set and used within one call of `send` and never dereferenced between calls.
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

    /// Sends the packets `indices` of `burst`, each with its offload header, in one non-blocking system call. Returns
    /// the number sent before the first failure; returns an error if the first packet failed.
    pub(super) fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        burst: &Burst,
        indices: &[u8],
    ) -> Result<usize, Errno> {
        self.gather(burst, indices);
        let (at, n) = (self.ready.as_mut_ptr(), self.ready.len() as u32);
        // SAFETY: `gather` laid out `n` messages over buffers, headers and heads that outlive this call, and over
        // segments of the map pinned by the burst. The kernel only reads them; concurrent writes to the segments by
        // their owner change only the contents of its own packet.
        let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), at, n, libc::MSG_DONTWAIT as _) };
        if sent < 0 { Err(last_error()) } else { Ok(sent as usize) }
    }

    fn gather(&mut self, burst: &Burst, indices: &[u8]) {
        self.headers.clear();
        self.pieces.clear();
        self.counts.clear();
        for &pick in indices {
            let (frame, before) = (burst.frame(usize::from(pick)), self.pieces.len());
            self.headers.push(frame.offload.header(frame.head));
            // The header's address is filled in below, when the vector of headers no longer reallocates.
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
    // SAFETY: all-zero bytes are a valid `mmsghdr`: no address, no buffers, no ancillary data.
    let mut message: libc::mmsghdr = unsafe { core::mem::zeroed() };
    message.msg_hdr.msg_iov = pieces.as_mut_ptr();
    // C libraries differ in the types of lengths, flags and requests.
    message.msg_hdr.msg_iovlen = pieces.len() as _;
    message
}
