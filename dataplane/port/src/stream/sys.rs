//! What the queues ask of the kernel: bytes from the socket into memory of our own, and bytes to it. Neither waits.

use mem::VolatileSlice;
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::Errno;
use rustix::net::SendFlags;

/// Why nothing moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// Nothing is there to be read, or there is no room to write to.
    Now,
    /// The connection has ended.
    Ended,
}

impl From<Errno> for Stop {
    /// Whatever broke a connection, it is of no use any more.
    fn from(errno: Errno) -> Self {
        if matches!(errno, Errno::AGAIN | Errno::INTR) { Stop::Now } else { Stop::Ended }
    }
}

/// Reads what is there to the front of `to`, as far as it fits.
///
/// # Safety
/// The map that made `to` is alive, and there is no other access to these bytes until this returns.
pub(super) unsafe fn receive(socket: BorrowedFd<'_>, to: VolatileSlice) -> Result<usize, Stop> {
    // SAFETY: the kernel writes at most `to.len()` bytes, which lie inside the mapping by contract.
    let got = unsafe { libc::recv(socket.as_raw_fd(), to.as_ptr().cast(), to.len(), libc::MSG_DONTWAIT) };
    match usize::try_from(got) {
        Ok(0) => Err(Stop::Ended),
        Ok(bytes) => Ok(bytes),
        Err(_) => {
            let errno = Errno::from_io_error(&std::io::Error::last_os_error());
            Err(errno.map_or(Stop::Ended, Stop::from))
        }
    }
}

/// Writes as much of `bytes` as there is room for.
pub(super) fn send(socket: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Stop> {
    Ok(rustix::net::send(socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?)
}
