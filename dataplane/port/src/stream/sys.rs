//! Non-blocking socket reads into private memory, and writes.

use mem::VolatileSlice;
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::Errno;
use rustix::net::SendFlags;

/// Why no bytes were transferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// No data to read, or no space to write.
    Now,
    /// The connection has ended.
    Ended,
}

impl From<Errno> for Stop {
    /// Any other error ends the connection.
    fn from(errno: Errno) -> Self {
        if matches!(errno, Errno::AGAIN | Errno::INTR) { Stop::Now } else { Stop::Ended }
    }
}

/// Reads available data to the start of `to`, as far as it fits.
///
/// # Safety
/// The memory table of `to` is alive, and there is no other access to these bytes until this returns.
pub(super) unsafe fn receive(socket: BorrowedFd<'_>, to: VolatileSlice) -> Result<usize, Stop> {
    // SAFETY: the kernel writes at most `to.len()` bytes, which are inside the mapping as the caller guarantees.
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

/// Writes as much of `bytes` as fits.
pub(super) fn send(socket: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Stop> {
    Ok(rustix::net::send(socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?)
}
