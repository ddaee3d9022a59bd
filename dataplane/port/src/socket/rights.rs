//! Messages with descriptors beside the bytes (`SCM_RIGHTS`, unix(7)), and waiting for a socket that carries them.
//!
//! Nothing here knows a message. Every descriptor that arrives is owned from its first moment, so that it is
//! closed whatever happens next, and none is inherited by a child process.

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

/// Most descriptors that come with one message: as many as vhost-user's longest has, `VHOST_USER_SET_MEM_TABLE`.
pub const MAX_DESCRIPTORS: usize = 8;

/// Why nothing more can be read from a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReceiveError {
    /// The other side closed it.
    #[error("the connection was closed")]
    Closed,
    /// The kernel had descriptors that did not fit.
    #[error("a message brought more than {MAX_DESCRIPTORS} descriptors, or more than this process may open")]
    Descriptors,
    /// The kernel refused.
    #[error("the connection broke: {0}")]
    Io(Errno),
}

/// Reads at most `to.len()` bytes, and the descriptors that came with them. `Ok(None)`: nothing is there now.
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

/// Writes all of `bytes`, with `descriptors` beside the first. An error leaves the stream unusable.
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> Result<(), Errno> {
    // One more than a message may have, so that tests can send it.
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

/// Makes `socket` block, but not longer than `timeout` in one call, which then ends with `AGAIN`.
pub(crate) fn block_for(socket: &OwnedFd, timeout: Duration) -> Result<(), Errno> {
    let flags = rustix::fs::fcntl_getfl(socket)?;
    rustix::fs::fcntl_setfl(socket, flags - OFlags::NONBLOCK)?;
    sockopt::set_socket_timeout(socket, sockopt::Timeout::Recv, Some(timeout))?;
    sockopt::set_socket_timeout(socket, sockopt::Timeout::Send, Some(timeout))
}

/// Whether the other side has closed `socket` or gone.
pub(crate) fn is_closed(socket: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::new(&socket, PollFlags::RDHUP)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(rustix::event::poll(&mut fds, Some(&now)), Ok(1))
}

/// Waits until `fd` is readable. `false` when `timeout` passes first.
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
