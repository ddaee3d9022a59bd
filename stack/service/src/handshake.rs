//! The handshake over a Unix socket, in one process and between processes.
//!
//! The service sends one message: a magic number, the numbers of workers and of active ones, the sizes of a region, and
//! descriptors (`SCM_RIGHTS`): the eventfd to the client, and for each worker its memory and the eventfd to it. The
//! client sends nothing, then or later; the socket signals each side that the other ended. So the service parses no
//! bytes of a client outside of the rings.

use crate::limits::Sizes;
use crate::region::{Descriptors, Own};
use host::MAX_WORKERS;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;

/// First word of the message: name and version of the protocol.
const MAGIC: u32 = 0x4c52_5333;
const LEN: usize = 28;
/// Maximum number of descriptors, which is below the kernel's limit of 253.
const MAX_FDS: usize = 1 + 2 * MAX_WORKERS;

/// Sends the message. Must not block: a new connection has room for it.
pub(crate) fn send(socket: BorrowedFd<'_>, sizes: &Sizes, fds: &Descriptors) -> io::Result<()> {
    let mut message = [0; LEN];
    let Sizes { workers, active, ring, arena, send_bytes, sends } = *sizes;
    let words = [MAGIC, workers, active, ring, arena, send_bytes, sends];
    for (to, word) in message.chunks_exact_mut(4).zip(words) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = fds.as_fds();
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    rustix::net::sendmsg(socket, &[IoSlice::new(&message)], &mut control, flags)?;
    Ok(())
}

/// Receives the message.
///
/// # Errors
/// If the socket was closed, or its peer is not a service of this version.
pub(crate) fn receive(socket: BorrowedFd<'_>) -> io::Result<(Sizes, Descriptors)> {
    let mut message = [0; LEN];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let read = || {
        let to = &mut [IoSliceMut::new(&mut message)];
        rustix::net::recvmsg(socket, to, &mut control, RecvFlags::CMSG_CLOEXEC)
    };
    let got = rustix::io::retry_on_intr(read)?;
    let mut fds: Vec<OwnedFd> = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = part {
            fds.extend(rights);
        }
    }
    parse(&message[..got.bytes.min(LEN)], fds).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, "the peer is not a service of this version")
    })
}

fn parse(message: &[u8], fds: Vec<OwnedFd>) -> Option<(Sizes, Descriptors)> {
    let words: &[u8; LEN] = message.try_into().ok()?;
    let word = |i: usize| u32::from_ne_bytes([words[i], words[i + 1], words[i + 2], words[i + 3]]);
    let [workers, active, ring, arena, send_bytes, sends] = [4, 8, 12, 16, 20, 24].map(word);
    let sizes = Sizes { workers, active, ring, arena, send_bytes, sends };
    let mut fds = fds.into_iter();
    let to_client = fds.next()?;
    let mut own = Vec::new();
    while let Some(memory) = fds.next() {
        own.push(Own { memory, to_service: fds.next()? });
    }
    let is_valid = word(0) == MAGIC && sizes.are_valid() && own.len() == sizes.workers as usize;
    is_valid.then_some((sizes, Descriptors { to_client, own }))
}

/// Whether the peer closed its end, or sent bytes, which the protocol does not have.
pub(crate) fn has_ended(socket: &impl AsFd) -> bool {
    let got = rustix::net::recv(socket, &mut [0; 1], RecvFlags::DONTWAIT);
    !matches!(got, Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::Limits;
    use std::os::unix::net::UnixStream;

    #[test]
    fn descriptors_of_all_workers_pass() {
        for workers in [1, 2, MAX_WORKERS] {
            let sizes = Limits { arena: 1 << 16, ..Limits::default() }.sizes(workers);
            let (ours, theirs) = UnixStream::pair().unwrap();
            send(ours.as_fd(), &sizes, &Descriptors::new(&sizes).unwrap()).unwrap();
            let (received, fds) = receive(theirs.as_fd()).unwrap();
            assert_eq!((received, fds.own.len()), (sizes, workers));
            assert!(!has_ended(&theirs));
            drop(ours);
            assert!(has_ended(&theirs));
        }
    }

    #[test]
    fn a_message_without_its_descriptors_is_refused() {
        let sizes = Limits { arena: 1 << 16, ..Limits::default() }.sizes(2);
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut fds = Descriptors::new(&sizes).unwrap();
        fds.own.pop();
        send(ours.as_fd(), &sizes, &fds).unwrap();
        assert!(receive(theirs.as_fd()).is_err());
    }
}
