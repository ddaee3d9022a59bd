//! File descriptor passing (`SCM_RIGHTS`, unix(7)), and waiting for sockets.
//!
//! Independent of message formats. Received descriptors are owned immediately, so they are always closed, and they are
//! close-on-exec.

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, sockopt,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::time::Duration;

/// Maximum number of descriptors per message: that of `VHOST_USER_SET_MEM_TABLE`, the longest vhost-user message.
pub const MAX_DESCRIPTORS: usize = 8;

/// The connection cannot be read further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReceiveError {
    /// The peer closed the connection.
    #[error("the connection was closed")]
    Closed,
    /// Received descriptors were truncated.
    #[error("a message brought more than {MAX_DESCRIPTORS} descriptors, or more than this process may open")]
    Descriptors,
    /// Other kernel error.
    #[error("the connection broke: {0}")]
    Io(Errno),
}

impl ReceiveError {
    /// Whether the message is still in the socket, because the kernel had no memory to pass it on.
    pub(crate) fn is_temporary(self) -> bool {
        matches!(self, Self::Io(Errno::NOMEM | Errno::NOBUFS))
    }
}

/// Reads at most `to.len()` bytes, and the descriptors sent with them. Returns `Ok(None)` if no data is available.
pub(crate) fn receive(
    socket: BorrowedFd<'_>,
    to: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
) -> Result<Option<usize>, ReceiveError> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let iov = &mut [IoSliceMut::new(to)];
    let read = || rustix::net::recvmsg(socket, iov, &mut control, RecvFlags::CMSG_CLOEXEC);
    let got = match rustix::io::retry_on_intr(read) {
        Ok(got) => got,
        Err(Errno::AGAIN) => return Ok(None),
        Err(Errno::CONNRESET) => return Err(ReceiveError::Closed),
        Err(errno) => return Err(ReceiveError::Io(errno)),
    };
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    if got.flags.contains(ReturnFlags::CTRUNC) || descriptors.len() > MAX_DESCRIPTORS {
        return Err(ReceiveError::Descriptors);
    }
    if got.bytes == 0 { Err(ReceiveError::Closed) } else { Ok(Some(got.bytes)) }
}

/// Writes all of `bytes`, with `descriptors` attached to the first byte. After an error the stream is unusable.
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> Result<(), Errno> {
    // One more than allowed, so that tests can send it.
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS + 1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::INVAL);
    }
    let mut sent = 0;
    while sent < bytes.len() {
        let iov = [IoSlice::new(&bytes[sent..])];
        match rustix::net::sendmsg(socket, &iov, &mut control, SendFlags::NOSIGNAL) {
            Ok(n) => sent += n,
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno),
        }
        control.clear();
    }
    Ok(())
}

/// Makes `socket` blocking, with `timeout` per call; on timeout, calls return `AGAIN`.
pub(crate) fn block_for(socket: &OwnedFd, timeout: Duration) -> Result<(), Errno> {
    let flags = rustix::fs::fcntl_getfl(socket)?;
    rustix::fs::fcntl_setfl(socket, flags - OFlags::NONBLOCK)?;
    sockopt::set_socket_timeout(socket, sockopt::Timeout::Recv, Some(timeout))?;
    sockopt::set_socket_timeout(socket, sockopt::Timeout::Send, Some(timeout))
}

/// Whether the peer has closed `socket`.
pub(crate) fn is_closed(socket: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::new(&socket, PollFlags::RDHUP)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(rustix::event::poll(&mut fds, Some(&now)), Ok(1))
}

/// Waits until `fd` is readable. Returns `false` on timeout.
pub(crate) fn wait_readable(fd: BorrowedFd<'_>, timeout: Duration) -> Result<bool, Errno> {
    let timeout =
        Timespec { tv_sec: timeout.as_secs().cast_signed(), tv_nsec: timeout.subsec_nanos().into() };
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    loop {
        match rustix::event::poll(&mut fds, Some(&timeout)) {
            Ok(n) => return Ok(n > 0),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}
