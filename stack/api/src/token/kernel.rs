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
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
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

/// A socket, and whether it is one of datagrams.
#[derive(Debug)]
struct Socket {
    fd: OwnedFd,
    is_datagram: bool,
}

/// The kernel's sockets as a [`Device`].
pub struct Kernel {
    epoll: Arc<OwnedFd>,
    sockets: Slab<Socket>,
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
        Err(Errno::MSGSIZE) => Poll::Ready(Err(ErrorKind::InvalidInput)),
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
            epoll: Arc::new(epoll::create(epoll::CreateFlags::CLOEXEC)?),
            sockets: Slab::new(),
            pool: BufferPool::new(PoolLimits::default()),
            scratch: vec![0; MAX_COPY].into(),
        })
    }

    /// Readable while a socket is ready.
    pub(super) fn events(&self) -> Arc<OwnedFd> {
        self.epoll.clone()
    }

    /// The connection or listener with this number.
    fn socket(&self, end: u32) -> Result<&OwnedFd, ErrorKind> {
        fd(&self.sockets, end, false)
    }

    /// The socket for datagrams with this number.
    fn datagrams(&self, end: u32) -> Result<&OwnedFd, ErrorKind> {
        fd(&self.sockets, end, true)
    }

    /// Watches a socket for as long as it exists.
    fn add(&mut self, fd: OwnedFd, is_datagram: bool) -> Result<u32, Errno> {
        let entry = self.sockets.vacant_entry();
        let end = entry.key();
        let flags =
            epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        epoll::add(&*self.epoll, &fd, epoll::EventData::new_u64(end as u64), flags)?;
        entry.insert(Socket { fd, is_datagram });
        Ok(end as u32)
    }

    fn open(
        &mut self,
        kind: SocketType,
        address: SocketAddr,
        start: impl FnOnce(&OwnedFd) -> Result<(), Errno>,
    ) -> Result<u32, Errno> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = net::socket_with(family, kind, FLAGS, None)?;
        start(&socket)?;
        self.add(socket, kind == SocketType::DGRAM)
    }

    /// Sends the first bytes of a slice, to an address if the socket is one of datagrams. Returns their number.
    fn send(
        &mut self,
        end: u32,
        to: Option<SocketAddr>,
        data: &Slice<Buffer>,
    ) -> Poll<Result<usize, ErrorKind>> {
        let bytes = data.data().bytes().and_then(|bytes| bytes.get(data.range()));
        if bytes.is_none() {
            let n = data.len().min(MAX_COPY);
            data.copy_to(0, &mut self.scratch[..n]);
        }
        let bytes = bytes.unwrap_or(&self.scratch[..data.len().min(MAX_COPY)]);
        let socket = fd(&self.sockets, end, to.is_some())?;
        poll(rustix::io::retry_on_intr(|| match to {
            Some(to) => net::sendto(socket, bytes, SendFlags::NOSIGNAL, &to),
            None => net::send(socket, bytes, SendFlags::NOSIGNAL),
        }))
    }
}

impl Device for Kernel {
    fn listen(&mut self, local: SocketAddr) -> Result<u32, ErrorKind> {
        let start = |socket: &OwnedFd| {
            sockopt::set_socket_reuseaddr(socket, true)?;
            net::bind(socket, &local)?;
            net::listen(socket, BACKLOG)
        };
        self.open(SocketType::STREAM, local, start).map_err(Errno::kind)
    }

    fn connect(&mut self, remote: SocketAddr) -> Result<u32, ErrorKind> {
        let start = |socket: &OwnedFd| {
            sockopt::set_tcp_nodelay(socket, true)?;
            match net::connect(socket, &remote) {
                Err(Errno::INPROGRESS) => Ok(()),
                other => other,
            }
        };
        self.open(SocketType::STREAM, remote, start).map_err(Errno::kind)
    }

    fn bind(&mut self, local: SocketAddr) -> Result<u32, ErrorKind> {
        self.open(SocketType::DGRAM, local, |socket| net::bind(socket, &local)).map_err(Errno::kind)
    }

    fn bound(&mut self, end: u32) -> Result<SocketAddr, ErrorKind> {
        let local = net::getsockname(self.datagrams(end)?);
        local.and_then(SocketAddr::try_from).map_err(Errno::kind)
    }

    fn change_group(
        &mut self,
        end: u32,
        group: IpAddr,
        local: Option<IpAddr>,
        joins: bool,
    ) -> Result<(), ErrorKind> {
        let socket = self.datagrams(end)?;
        let own = match local {
            Some(IpAddr::V4(own)) => own,
            None => Ipv4Addr::UNSPECIFIED,
            Some(IpAddr::V6(_)) => return Err(ErrorKind::InvalidInput),
        };
        let done = match (group, joins) {
            (IpAddr::V4(group), true) => sockopt::set_ip_add_membership(socket, &group, &own),
            (IpAddr::V4(group), false) => sockopt::set_ip_drop_membership(socket, &group, &own),
            (IpAddr::V6(_), _) if local.is_some() => return Err(ErrorKind::InvalidInput),
            (IpAddr::V6(group), true) => sockopt::set_ipv6_add_membership(socket, &group, 0),
            (IpAddr::V6(group), false) => sockopt::set_ipv6_drop_membership(socket, &group, 0),
        };
        done.map_err(Errno::kind)
    }

    fn poll_accept(&mut self, end: u32) -> Poll<Result<(u32, SocketAddr), ErrorKind>> {
        let listener = self.socket(end)?;
        let accepted = rustix::io::retry_on_intr(|| net::acceptfrom_with(listener, FLAGS));
        poll(accepted.and_then(|(socket, remote)| {
            sockopt::set_tcp_nodelay(&socket, true)?;
            let remote = remote.ok_or(Errno::NOTCONN)?.try_into()?;
            Ok((self.add(socket, false)?, remote))
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
            match self.send(end, None, &rest) {
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
        let socket = fd(sockets, end, false)?;
        let received = rustix::io::retry_on_intr(|| net::recv(socket, &mut scratch[..], RecvFlags::empty()));
        poll(received).map_ok(|(n, _)| (n > 0).then(|| copy(&mut self.pool, &self.scratch[..n])))
    }

    fn poll_push_to(
        &mut self,
        end: u32,
        to: SocketAddr,
        data: &Slice<Buffer>,
    ) -> Poll<Result<(), ErrorKind>> {
        if data.len() > MAX_COPY {
            return Poll::Ready(Err(ErrorKind::InvalidInput));
        }
        self.send(end, Some(to), data).map_ok(drop)
    }

    fn poll_pop_from(&mut self, end: u32) -> Poll<Result<(SocketAddr, Slice<Buffer>), ErrorKind>> {
        let Self { sockets, scratch, .. } = self;
        let socket = fd(sockets, end, true)?;
        let flags = RecvFlags::empty();
        let received = rustix::io::retry_on_intr(|| net::recvfrom(socket, &mut scratch[..], flags));
        poll(received.and_then(|(n, _, from)| Ok((n, from.ok_or(Errno::NOTCONN)?.try_into()?))))
            .map_ok(|(n, from)| (from, copy(&mut self.pool, &self.scratch[..n])))
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
            let _ = sockopt::set_socket_linger(socket.fd.as_fd(), Some(Duration::ZERO));
        }
    }

    fn copy(&mut self, bytes: &[u8]) -> Slice<Buffer> {
        copy(&mut self.pool, bytes)
    }

    fn run(&mut self, limit: Duration, ready: &mut Vec<u32>) {
        let limit = Timespec { tv_sec: limit.as_secs().cast_signed(), tv_nsec: limit.subsec_nanos().into() };
        let mut events = [MaybeUninit::uninit(); EVENTS];
        // An interrupted wait has no events.
        if let Ok((events, _)) = epoll::wait(&*self.epoll, &mut events[..], Some(&limit)) {
            ready.extend(events.iter().map(|event| event.data.u64() as u32));
        }
    }
}

/// The descriptor with this number, which must be of this kind.
fn fd(sockets: &Slab<Socket>, end: u32, is_datagram: bool) -> Result<&OwnedFd, ErrorKind> {
    let socket = sockets.get(end as usize).ok_or(ErrorKind::NotConnected)?;
    (socket.is_datagram == is_datagram).then_some(&socket.fd).ok_or(ErrorKind::InvalidInput)
}

fn copy(pool: &mut BufferPool, bytes: &[u8]) -> Slice<Buffer> {
    let copied = pool.fill(bytes.len(), |to| to.copy_from_slice(bytes));
    Slice::new(copied.unwrap_or_else(|| Buffer::copy_of(bytes)))
}
