//! Socket system calls. All sockets are non-blocking and close-on-exec.

use super::SocketAddress;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// TCP keepalive: idle time before the first probe.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
/// TCP keepalive: probe interval and number of probes.
const KEEPALIVE_PROBES: (Duration, u32) = (Duration::from_secs(5), 3);

/// Result of a connection attempt.
pub(crate) enum Attempt {
    /// Connected.
    Connected(OwnedFd),
    /// In progress; see [`answer`].
    Waiting(OwnedFd),
}

fn socket(family: AddressFamily, kind: SocketType) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(family, kind, flags, None)
}

fn family(address: &SocketAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }
}

fn address(path: &Path) -> Result<SocketAddrUnix, Errno> {
    match path.as_os_str().as_bytes() {
        [b'@', name @ ..] => SocketAddrUnix::new_abstract_name(name),
        _ => SocketAddrUnix::new(path),
    }
}

/// Creates a socket of type `kind` at `path`, which must not exist.
pub(crate) fn bound(path: &Path, kind: SocketType) -> Result<OwnedFd, Errno> {
    let socket = socket(AddressFamily::UNIX, kind)?;
    rustix::net::bind(&socket, &address(path)?)?;
    Ok(socket)
}

/// Creates a listening socket at `address`, even if old connections are in `TIME_WAIT`.
pub(crate) fn listen_tcp(address: &SocketAddr) -> Result<OwnedFd, Errno> {
    let socket = socket(family(address), SocketType::STREAM)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, address)?;
    rustix::net::listen(&socket, 16)?;
    Ok(socket)
}

/// Connects to the stream socket at `path`.
pub(crate) fn connect(path: &Path) -> Result<OwnedFd, Errno> {
    connect_by(path, SocketType::STREAM)
}

/// Connects to the `SOCK_SEQPACKET` socket at `path`.
pub(crate) fn connect_packets(path: &Path) -> Result<OwnedFd, Errno> {
    connect_by(path, SocketType::SEQPACKET)
}

/// Connects to the socket of type `kind` at `path`.
pub(crate) fn connect_by(path: &Path, kind: SocketType) -> Result<OwnedFd, Errno> {
    let socket = socket(AddressFamily::UNIX, kind)?;
    rustix::net::connect(&socket, &address(path)?)?;
    Ok(socket)
}

/// Starts a connection to `site`.
pub(crate) fn start_connect(site: &SocketAddress) -> Result<Attempt, Errno> {
    let address = match site {
        SocketAddress::Unix(path) => return connect(path).map(Attempt::Connected),
        SocketAddress::Packets(path) => return connect_packets(path).map(Attempt::Connected),
        SocketAddress::Tcp(address) => address,
    };
    let socket = socket(family(address), SocketType::STREAM)?;
    match rustix::net::connect(&socket, address) {
        Ok(()) => with_keepalive(socket).map(Attempt::Connected),
        Err(Errno::INPROGRESS) => Ok(Attempt::Waiting(socket)),
        Err(errno) => Err(errno),
    }
}

/// Result of a connection in progress; returns `Attempt::Waiting` if it is not complete.
pub(crate) fn connect_result(socket: OwnedFd) -> Result<Attempt, Errno> {
    if !is_writable(&socket)? {
        return Ok(Attempt::Waiting(socket));
    }
    sockopt::socket_error(&socket)??;
    with_keepalive(socket).map(Attempt::Connected)
}

/// Enables `TCP_NODELAY` and keepalive.
fn with_keepalive(socket: OwnedFd) -> Result<OwnedFd, Errno> {
    if rustix::net::getpeername(&socket)? == Some(rustix::net::getsockname(&socket)?) {
        // Repeated connects to a local port can self-connect: the kernel may choose that port as source.
        return Err(Errno::CONNREFUSED);
    }
    sockopt::set_tcp_nodelay(&socket, true)?;
    sockopt::set_socket_keepalive(&socket, true)?;
    sockopt::set_tcp_keepidle(&socket, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(&socket, KEEPALIVE_PROBES.0)?;
    sockopt::set_tcp_keepcnt(&socket, KEEPALIVE_PROBES.1)?;
    Ok(socket)
}

/// The next pending connection, if any.
pub(crate) fn accept(listener: BorrowedFd<'_>) -> Result<Option<OwnedFd>, Errno> {
    match rustix::net::accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
        Ok(socket) => Ok(Some(socket)),
        // The peer may have closed the connection already.
        Err(Errno::AGAIN | Errno::CONNABORTED | Errno::INTR) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// [`accept`] for TCP.
pub(crate) fn accept_tcp(listener: BorrowedFd<'_>) -> Result<Option<OwnedFd>, Errno> {
    // A connection that was closed already is not an error of the listener.
    Ok(accept(listener)?.and_then(|socket| with_keepalive(socket).ok()))
}

/// Whether a write would return at once, with success or error.
fn is_writable(socket: &OwnedFd) -> Result<bool, Errno> {
    let mut fds = [PollFd::new(socket, PollFlags::OUT)];
    match poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(errno) => Err(errno),
    }
}
