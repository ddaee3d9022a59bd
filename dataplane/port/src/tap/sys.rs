//! Unsafe code of TAP interfaces: ioctls, reads into slots, and writes from the memory of a packet's source.
//!
//! Every ioctl gets its own value, which outlives the call. A packet is written directly from its source memory; the
//! kernel checks the addresses, and lost memory causes an error of that call only.

use crate::{Frame, OFFLOAD_HEADER};
use mem::VolatileSlice;
use mem::copy::Portable;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, Result};
use std::mem::MaybeUninit;

/// Maximum number of iovecs per packet written without a copy: header, head and rest.
pub(super) const PIECES: usize = 20;

/// Opens `/dev/net/tun`, unattached, in the network namespace of the calling thread.
pub(super) fn open() -> Result<OwnedFd> {
    rustix::fs::open("/dev/net/tun", OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())
}

/// An `ifreq` for an interface.
fn request(name: &str) -> libc::ifreq {
    // SAFETY: a structure of integers and arrays of them, for which zeros are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(libc::IFNAMSIZ - 1)) {
        // `c_char` is signed on some architectures.
        *to = libc::c_char::from_ne_bytes([from]);
    }
    request
}

fn done(result: libc::c_int) -> Result<()> {
    if result < 0 { Err(last()) } else { Ok(()) }
}

/// Error of the last libc call.
fn last() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Attaches `tun` as a queue of interface `name`, which is created if missing (`TUNSETIFF`).
pub(super) fn attach(tun: BorrowedFd<'_>, name: &str, flags: libc::c_int) -> Result<()> {
    let mut request = request(name);
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: the request is a complete `ifreq` that outlives the call.
    done(unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETIFF, &raw mut request) })
}

/// Whether `tun` is a queue of an interface: until the interface is deleted (`TUNGETIFF`).
pub(super) fn is_attached(tun: BorrowedFd<'_>) -> bool {
    let mut request = request("");
    // SAFETY: the kernel writes an `ifreq`, which outlives the call.
    let asked = done(unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNGETIFF, &raw mut request) });
    asked != Err(Errno::BADFD)
}

/// Sets the virtio-net header size, and little-endian header fields.
pub(super) fn set_header(tun: BorrowedFd<'_>, bytes: libc::c_int) -> Result<()> {
    let little: libc::c_int = 1;
    // SAFETY: both read one integer, which outlives the call.
    unsafe {
        done(libc::ioctl(tun.as_raw_fd(), libc::TUNSETVNETHDRSZ, &raw const bytes))?;
        done(libc::ioctl(tun.as_raw_fd(), libc::TUNSETVNETLE, &raw const little))
    }
}

/// Sets the offloads accepted for packets that are read (`TUN_F_*`).
pub(super) fn set_offload(tun: BorrowedFd<'_>, bits: libc::c_uint) -> Result<()> {
    // SAFETY: takes its argument by value.
    done(unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(bits)) })
}

/// Makes the interface persistent.
pub(super) fn persist(tun: BorrowedFd<'_>) -> Result<()> {
    // SAFETY: takes its argument by value.
    done(unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETPERSIST, 1 as libc::c_ulong) })
}

/// Sets the MTU of interface `name`; `socket` is any socket of its namespace.
pub(super) fn set_mtu(socket: BorrowedFd<'_>, name: &str, mtu: u16) -> Result<()> {
    let mut request = request(name);
    request.ifr_ifru.ifru_mtu = mtu.into();
    // SAFETY: the request is a complete `ifreq` that outlives the call.
    done(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFMTU as _, &raw mut request) })
}

/// Brings interface `name` up; `socket` is any socket of its namespace.
pub(super) fn bring_up(socket: BorrowedFd<'_>, name: &str) -> Result<()> {
    let mut request = request(name);
    // SAFETY: the request is a complete `ifreq` that outlives both calls; the first one sets the flags that are read.
    unsafe {
        done(libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS as _, &raw mut request))?;
        request.ifr_ifru.ifru_flags |= libc::IFF_UP as libc::c_short;
        done(libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw mut request))
    }
}

/// Reads one packet, header first, into `slot`, whose arena the caller holds. Returns its length in bytes; a packet
/// longer than the slot fills it.
#[inline(always)]
pub(super) fn read(tun: BorrowedFd<'_>, slot: VolatileSlice) -> Result<usize> {
    // SAFETY: the slot is in an arena that the caller holds, and is not accessed otherwise until its packet is
    // completed.
    let n = unsafe { libc::read(tun.as_raw_fd(), slot.as_ptr().cast(), slot.len()) };
    if n < 0 { Err(last()) } else { Ok(n as usize) }
}

/// The bytes of a slot in an arena that the caller holds, to which the kernel no longer writes.
pub(super) fn copy_out(slot: VolatileSlice) -> Box<[u8]> {
    let mut bytes = vec![0; slot.len()];
    // SAFETY: the caller holds the arena, and nothing writes to the slot.
    unsafe { slot.copy_out::<Portable>(&mut bytes) };
    bytes.into()
}

/// Writes to a slot that is in no packet, in an arena that the caller holds.
pub(super) fn copy_in(slot: VolatileSlice, bytes: &[u8]) {
    debug_assert!(slot.len() >= bytes.len());
    // SAFETY: the caller holds the arena, the slot has the length of the bytes, and nothing else uses it.
    unsafe { slot.copy_in::<Portable>(bytes) };
}

/// Header of a packet: the first bytes of `slot`, in an arena that the caller holds.
#[inline(always)]
pub(super) fn header(slot: VolatileSlice) -> [u8; OFFLOAD_HEADER] {
    debug_assert!(slot.len() >= OFFLOAD_HEADER);
    // SAFETY: the slot is longer than a header, and the kernel no longer writes to it. Byte arrays need no alignment.
    unsafe { slot.as_ptr().cast::<[u8; OFFLOAD_HEADER]>().read() }
}

/// iovecs of one packet, for a gathering system call.
pub(super) struct Gather {
    pieces: [MaybeUninit<libc::iovec>; PIECES],
    n: u16,
}

impl Gather {
    pub(super) const EMPTY: Self = Self { pieces: [MaybeUninit::uninit(); PIECES], n: 0 };

    /// Collects the iovecs of header and packet. Returns `false` if there are too many.
    #[inline(always)]
    pub(super) fn fill(&mut self, header: &[u8; OFFLOAD_HEADER], frame: &Frame<'_>) -> bool {
        self.n = 0;
        self.push(header.as_ptr(), header.len());
        self.push(frame.head.as_ptr(), frame.head.len());
        for piece in frame.rest() {
            if usize::from(self.n) == PIECES {
                return false;
            }
            self.push(piece.as_ptr(), piece.len());
        }
        true
    }

    #[inline(always)]
    fn push(&mut self, base: *const u8, len: usize) {
        self.pieces[usize::from(self.n)]
            .write(libc::iovec { iov_base: base.cast_mut().cast(), iov_len: len });
        self.n += 1;
    }
}

/// Writes one packet with one system call. Returns `None` if it has too many pieces.
#[inline(always)]
pub(super) fn write(
    tun: BorrowedFd<'_>,
    header: &[u8; OFFLOAD_HEADER],
    frame: &Frame<'_>,
) -> Option<Result<()>> {
    let mut gather = Gather::EMPTY;
    if !gather.fill(header, frame) {
        return None;
    }
    // SAFETY: the first `n` iovecs are initialised. Header and head are borrowed beyond the call, and the rest is in
    // memory tables pinned by the burst of the frame.
    let n = unsafe { libc::writev(tun.as_raw_fd(), gather.pieces.as_ptr().cast(), gather.n.into()) };
    Some(if n < 0 { Err(last()) } else { Ok(()) })
}

/// Writes one contiguous packet.
pub(super) fn write_bytes(tun: BorrowedFd<'_>, header: &[u8; OFFLOAD_HEADER], frame: &[u8]) -> Result<()> {
    let pieces = [std::io::IoSlice::new(header), std::io::IoSlice::new(frame)];
    rustix::io::writev(tun, &pieces).map(|_| ())
}

/// A socket for interface ioctls in the calling thread's network namespace.
pub(super) fn socket() -> Result<OwnedFd> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType};
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
}

/// Whether an interface of this name exists; `socket` is any socket of its namespace.
pub(super) fn exists(socket: &OwnedFd, name: &str) -> bool {
    rustix::net::netdevice::name_to_index(socket.as_fd(), name).is_ok()
}
