//! A socket pair of the kernel whose readiness is that of a socket of the service.
//!
//! The program has one end, of which the mirror keeps a duplicate. A byte that the other end sent makes the program's
//! end readable, and a byte that the program's end sent makes it not writable, because its send buffer has room for one
//! only. Shutting the other end down reports the end of the stream and the end of the connection; the end of a listener
//! makes it readable until the program has got the error.

use crate::error;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, sockopt};
use service::Readiness;
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes that fill the smallest send buffer of the kernel (`net/unix/af_unix.c`: a socket is writable while a quarter
/// of its buffer is used).
const FILL: usize = 2048;
/// Maximum number of bytes that announce arrivals to edge-triggered epoll.
const EDGES: u32 = 16;

/// State of the pair.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about the pair")]
struct State {
    /// Readiness of each socket behind the pair: a listener of both IP versions has two.
    all: [Readiness; 2],
    /// Bytes that make the program's end readable.
    bytes: u32,
    is_filled: bool,
    is_finished: bool,
    is_closed: bool,
    /// Whether the end of the listener was reported.
    is_quiet: bool,
}

/// The pair.
#[derive(Debug)]
pub(crate) struct Mirror {
    ours: OwnedFd,
    /// Duplicate of the program's end.
    theirs: OwnedFd,
    state: Mutex<State>,
    is_listener: bool,
    /// Whether each arrival is announced.
    is_edge_triggered: AtomicBool,
}

impl Mirror {
    /// Puts one end of a pair in the place of descriptor `fd`, with its status flags.
    pub(crate) fn over(fd: RawFd, is_listener: bool) -> io::Result<Self> {
        let (mut mirror, ours) = Self::pair()?;
        mirror.is_listener = is_listener;
        // SAFETY: plain descriptor calls of the C library.
        unsafe {
            let flags = crate::real::fcntl(fd, libc::F_GETFL, 0);
            let on_exec = crate::real::fcntl(fd, libc::F_GETFD, 0);
            let with = if on_exec & libc::FD_CLOEXEC != 0 { libc::O_CLOEXEC } else { 0 };
            if crate::real::dup3(ours.as_raw_fd(), fd, with) < 0 {
                return Err(io::Error::last_os_error());
            }
            crate::real::fcntl(fd, libc::F_SETFL, (flags & libc::O_NONBLOCK) as libc::c_ulong);
        }
        Ok(mirror)
    }

    /// A mirror, and the program's end of it. Neither readable nor writable.
    pub(crate) fn pair() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        // The kernel raises it to its minimum.
        sockopt::set_socket_send_buffer_size(&theirs, 1)?;
        let duplicate = rustix::io::fcntl_dupfd_cloexec(&theirs, 0)?;
        let is_edge_triggered = AtomicBool::new(false);
        let (state, is_listener) = (Mutex::default(), false);
        let mirror = Self { ours, theirs: duplicate, state, is_listener, is_edge_triggered };
        mirror.fill(&mut mirror.lock());
        Ok((mirror, theirs))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Announces nothing more: the program has got the error of a listener that ended, and would poll without sleeping.
    pub(crate) fn quieten(&self) {
        let mut state = self.lock();
        state.is_quiet = true;
        self.drain(&mut state);
    }

    /// Announces each arrival from now on.
    pub(crate) fn announce_edges(&self) {
        self.is_edge_triggered.store(true, Ordering::Relaxed);
    }

    /// Takes over the readiness of one of the sockets behind the pair.
    pub(crate) fn set(&self, which: usize, readiness: Readiness) {
        let mut state = self.lock();
        let has_arrival = state.all[which].arrivals != readiness.arrivals;
        state.all[which] = readiness;
        let all = state.all;
        let is = |part: fn(&Readiness) -> bool| all.iter().any(part);
        let is_readable = is(|one| one.readable) && !state.is_quiet;
        if is_readable && (state.bytes == 0 || has_arrival && self.is_edge_triggered.load(Ordering::Relaxed))
        {
            self.announce(&mut state);
        } else if !is_readable && state.bytes > 0 {
            self.drain(&mut state);
        }
        match is(|one| one.writable) {
            true if state.is_filled => self.empty(&mut state),
            false if !state.is_filled => self.fill(&mut state),
            _ => {}
        }
        if self.is_listener {
            return;
        }
        if is(|one| one.finished) && !std::mem::replace(&mut state.is_finished, true) {
            self.shut(Shutdown::Write);
        }
        if is(|one| one.closed) && !std::mem::replace(&mut state.is_closed, true) {
            self.shut(Shutdown::Both);
        }
    }

    fn announce(&self, state: &mut State) {
        if state.bytes >= EDGES {
            self.drain(state);
        }
        state.bytes += u32::from(send(&self.ours, &[0], SendFlags::DONTWAIT | SendFlags::NOSIGNAL).is_ok());
    }

    fn drain(&self, state: &mut State) {
        let _ = recv(&self.theirs, &mut [0; EDGES as usize], RecvFlags::DONTWAIT);
        state.bytes = 0;
    }

    fn fill(&self, state: &mut State) {
        let sent = send(&self.theirs, &[0; FILL], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        state.is_filled = sent.is_ok();
    }

    fn empty(&self, state: &mut State) {
        let _ = recv(&self.ours, &mut [0; 2 * FILL], RecvFlags::DONTWAIT);
        state.is_filled = false;
    }

    fn shut(&self, how: Shutdown) {
        let how = match how {
            Shutdown::Write => rustix::net::Shutdown::Write,
            _ => rustix::net::Shutdown::Both,
        };
        // The program may have closed its end.
        let _ = rustix::net::shutdown(&self.ours, how);
    }

    /// Waits until the program's end is readable, at most for `limit`.
    pub(crate) fn wait_readable(&self, limit: Option<Duration>) {
        let limit = limit.map(|limit| Timespec {
            tv_sec: limit.as_secs().cast_signed(),
            tv_nsec: limit.subsec_nanos().into(),
        });
        // An interrupted wait counts as an arrival.
        let _ = rustix::event::poll(&mut [PollFd::new(&self.theirs, PollFlags::IN)], limit.as_ref());
    }

    /// Whether the program has made its end non-blocking.
    pub(crate) fn is_nonblocking(&self) -> bool {
        let flags = rustix::fs::fcntl_getfl(self.theirs.as_fd());
        flags.is_ok_and(|flags| flags.contains(rustix::fs::OFlags::NONBLOCK))
    }
}

/// Moves the program's end to its own descriptor with the flags of `accept4`.
pub(crate) fn release(end: OwnedFd, flags: libc::c_int) -> io::Result<RawFd> {
    use std::os::fd::IntoRawFd;
    let fd = end.into_raw_fd();
    // SAFETY: plain descriptor calls of the C library.
    let done = unsafe {
        let on_exec = if flags & libc::SOCK_CLOEXEC != 0 { libc::FD_CLOEXEC } else { 0 };
        let mode = if flags & libc::SOCK_NONBLOCK != 0 { libc::O_NONBLOCK } else { 0 };
        crate::real::fcntl(fd, libc::F_SETFD, on_exec as libc::c_ulong)
            | crate::real::fcntl(fd, libc::F_SETFL, mode as libc::c_ulong)
    };
    if done < 0 { error::os(libc::EMFILE) } else { Ok(fd) }
}
