//! Sockets of the kernel, with one edge-triggered epoll instance.
//!
//! A call is tried before it waits, so a message costs no system call beside its own while its queue is busy. Data is
//! copied, once by the kernel and once into a buffer of its length.

use super::Device;
use host::{Buffer, BufferPool, PoolLimits};
use rustix::event::{Timespec, epoll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, sockopt};
use slab::Slab;
use stack::{Payload, Slice};
use std::io::ErrorKind;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::task::Poll;
use std::time::Duration;

/// Connections that wait for an accept.
const BACKLOG: i32 = 1024;
/// Maximum bytes that one call copies from or to a socket.
const MAX_COPY: usize = 65_536;
/// Maximum events of one round.
const EVENTS: usize = 256;
/// Flags of every socket.
const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

/// The kernel's sockets as a [`Device`].
pub struct Kernel {
    epoll: OwnedFd,
    sockets: Slab<OwnedFd>,
    pool: BufferPool,
    scratch: Box<[u8]>,
}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kernel").field("sockets", &self.sockets.len()).finish_non_exhaustive()
    }
}

/// The result of a call, or pending if it would block.
fn poll<T>(result: Result<T, Errno>) -> Poll<Result<T, ErrorKind>> {
    match result {
        Err(Errno::AGAIN) => Poll::Pending,
        other => Poll::Ready(other.map_err(Errno::kind)),
    }
}

impl Kernel {
    /// No sockets yet.
    ///
    /// # Errors
    /// If epoll is not available.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            sockets: Slab::new(),
            pool: BufferPool::new(PoolLimits::default()),
            scratch: vec![0; MAX_COPY].into(),
        })
    }

    fn socket(&self, end: u32) -> Result<&OwnedFd, ErrorKind> {
        self.sockets.get(end as usize).ok_or(ErrorKind::NotConnected)
    }

    /// Watches a socket for as long as it exists.
    fn add(&mut self, socket: OwnedFd) -> Result<u32, Errno> {
        let entry = self.sockets.vacant_entry();
        let end = entry.key();
        let flags =
            epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        epoll::add(&self.epoll, &socket, epoll::EventData::new_u64(end as u64), flags)?;
        entry.insert(socket);
        Ok(end as u32)
    }

    fn open(
        &mut self,
        address: SocketAddr,
        start: impl FnOnce(&OwnedFd) -> Result<(), Errno>,
    ) -> Result<u32, Errno> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = net::socket_with(family, SocketType::STREAM, FLAGS, None)?;
        start(&socket)?;
        self.add(socket)
    }

    /// Sends the first bytes of a slice. Returns their number.
    fn send(&mut self, end: u32, data: &Slice<Buffer>) -> Poll<Result<usize, ErrorKind>> {
        let bytes = data.data().bytes().and_then(|bytes| bytes.get(data.range()));
        if bytes.is_none() {
            let n = data.len().min(MAX_COPY);
            data.copy_to(0, &mut self.scratch[..n]);
        }
        let bytes = bytes.unwrap_or(&self.scratch[..data.len().min(MAX_COPY)]);
        let socket = self.socket(end)?;
        poll(rustix::io::retry_on_intr(|| net::send(socket, bytes, SendFlags::NOSIGNAL)))
    }
}

impl Device for Kernel {
    fn listen(&mut self, local: SocketAddr) -> Result<u32, ErrorKind> {
        let start = |socket: &OwnedFd| {
            sockopt::set_socket_reuseaddr(socket, true)?;
            net::bind(socket, &local)?;
            net::listen(socket, BACKLOG)
        };
        self.open(local, start).map_err(Errno::kind)
    }

    fn connect(&mut self, remote: SocketAddr) -> Result<u32, ErrorKind> {
        let start = |socket: &OwnedFd| {
            sockopt::set_tcp_nodelay(socket, true)?;
            match net::connect(socket, &remote) {
                Err(Errno::INPROGRESS) => Ok(()),
                other => other,
            }
        };
        self.open(remote, start).map_err(Errno::kind)
    }

    fn poll_accept(&mut self, end: u32) -> Poll<Result<(u32, SocketAddr), ErrorKind>> {
        let listener = self.socket(end)?;
        let accepted = rustix::io::retry_on_intr(|| net::acceptfrom_with(listener, FLAGS));
        poll(accepted.and_then(|(socket, remote)| {
            sockopt::set_tcp_nodelay(&socket, true)?;
            let remote = remote.ok_or(Errno::NOTCONN)?.try_into()?;
            Ok((self.add(socket)?, remote))
        }))
    }

    fn poll_connect(&mut self, end: u32) -> Poll<Result<(), ErrorKind>> {
        let socket = self.socket(end)?;
        sockopt::socket_error(socket).and_then(|result| result).map_err(Errno::kind)?;
        match net::getpeername(socket) {
            Err(Errno::NOTCONN) => Poll::Pending,
            other => poll(other.map(drop)),
        }
    }

    fn poll_push(&mut self, end: u32, data: &mut Option<Slice<Buffer>>) -> Poll<Result<(), ErrorKind>> {
        while let Some(mut rest) = data.take_if(|data| !data.is_empty()) {
            match self.send(end, &rest) {
                Poll::Ready(Ok(n)) => rest.narrow(n..rest.len()),
                other => {
                    *data = Some(rest);
                    return other.map_ok(drop);
                }
            }
            *data = Some(rest);
        }
        *data = None;
        Poll::Ready(Ok(()))
    }

    fn poll_pop(&mut self, end: u32) -> Poll<Result<Option<Slice<Buffer>>, ErrorKind>> {
        let Self { sockets, scratch, .. } = self;
        let socket = sockets.get(end as usize).ok_or(ErrorKind::NotConnected)?;
        let received = rustix::io::retry_on_intr(|| net::recv(socket, &mut scratch[..], RecvFlags::empty()));
        poll(received).map_ok(|(n, _)| (n > 0).then(|| copy(&mut self.pool, &self.scratch[..n])))
    }

    fn finish(&mut self, end: u32) -> Result<(), ErrorKind> {
        net::shutdown(self.socket(end)?, Shutdown::Write).map_err(Errno::kind)
    }

    fn close(&mut self, end: u32) {
        self.sockets.try_remove(end as usize);
    }

    fn abort(&mut self, end: u32) {
        if let Some(socket) = self.sockets.try_remove(end as usize) {
            // Without the option, the socket is closed without a reset.
            let _ = sockopt::set_socket_linger(socket.as_fd(), Some(Duration::ZERO));
        }
    }

    fn copy(&mut self, bytes: &[u8]) -> Slice<Buffer> {
        copy(&mut self.pool, bytes)
    }

    fn run(&mut self, limit: Duration, ready: &mut Vec<u32>) {
        let limit = Timespec { tv_sec: limit.as_secs().cast_signed(), tv_nsec: limit.subsec_nanos().into() };
        let mut events = [MaybeUninit::uninit(); EVENTS];
        // An interrupted wait has no events.
        if let Ok((events, _)) = epoll::wait(&self.epoll, &mut events[..], Some(&limit)) {
            ready.extend(events.iter().map(|event| event.data.u64() as u32));
        }
    }
}

fn copy(pool: &mut BufferPool, bytes: &[u8]) -> Slice<Buffer> {
    let copied = pool.fill(bytes.len(), |to| to.copy_from_slice(bytes));
    Slice::new(copied.unwrap_or_else(|| Buffer::copy_of(bytes)))
}
