//! What sockets ask of the kernel. None of them blocks or is inherited by a child process.

use super::Site;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// A peer at the far end of TCP that has said nothing for this long is asked whether it is there.
const QUIET: Duration = Duration::from_secs(10);
/// How often it is asked, and how many questions may stay without an answer.
const QUESTIONS: (Duration, u32) = (Duration::from_secs(5), 3);

/// A connection that was asked for.
pub(crate) enum Dialed {
    /// It is there.
    Connected(OwnedFd),
    /// The answer is on its way; see [`answer`].
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

/// A listening socket of some kind at `path`, which must not exist yet.
pub(crate) fn listen(path: &Path, kind: SocketType) -> Result<OwnedFd, Errno> {
    let socket = socket(AddressFamily::UNIX, kind)?;
    rustix::net::bind(&socket, &address(path)?)?;
    rustix::net::listen(&socket, 16)?;
    Ok(socket)
}

/// A listening socket at `address`. Connections of an earlier one that still linger do not hinder it.
pub(crate) fn listen_tcp(address: &SocketAddr) -> Result<OwnedFd, Errno> {
    let socket = socket(family(address), SocketType::STREAM)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, address)?;
    rustix::net::listen(&socket, 16)?;
    Ok(socket)
}

/// A connection to the listening socket at `path`.
pub(crate) fn connect(path: &Path) -> Result<OwnedFd, Errno> {
    connect_by(path, SocketType::STREAM)
}

/// A connection to the listening socket of packets at `path`.
pub(crate) fn connect_packets(path: &Path) -> Result<OwnedFd, Errno> {
    connect_by(path, SocketType::SEQPACKET)
}

/// A connection to the listening socket of some kind at `path`.
pub(crate) fn connect_by(path: &Path, kind: SocketType) -> Result<OwnedFd, Errno> {
    let socket = socket(AddressFamily::UNIX, kind)?;
    rustix::net::connect(&socket, &address(path)?)?;
    Ok(socket)
}

/// Connects to the listener at `site`.
pub(crate) fn dial(site: &Site) -> Result<Dialed, Errno> {
    let address = match site {
        Site::Unix(path) => return connect(path).map(Dialed::Connected),
        Site::Packets(path) => return connect_packets(path).map(Dialed::Connected),
        Site::Tcp(address) => address,
    };
    let socket = socket(family(address), SocketType::STREAM)?;
    match rustix::net::connect(&socket, address) {
        Ok(()) => attended(socket).map(Dialed::Connected),
        Err(Errno::INPROGRESS) => Ok(Dialed::Waiting(socket)),
        Err(errno) => Err(errno),
    }
}

/// What became of a connection that was asked for; it comes back while there is no answer.
pub(crate) fn answer(socket: OwnedFd) -> Result<Dialed, Errno> {
    if !is_writable(&socket)? {
        return Ok(Dialed::Waiting(socket));
    }
    sockopt::socket_error(&socket)??;
    attended(socket).map(Dialed::Connected)
}

/// A connection over TCP whose frames leave at once and whose silent end is noticed.
fn attended(socket: OwnedFd) -> Result<OwnedFd, Errno> {
    if rustix::net::getpeername(&socket)? == Some(rustix::net::getsockname(&socket)?) {
        // Repeated connects to a local port may be given that very port as their source.
        return Err(Errno::CONNREFUSED);
    }
    sockopt::set_tcp_nodelay(&socket, true)?;
    sockopt::set_socket_keepalive(&socket, true)?;
    sockopt::set_tcp_keepidle(&socket, QUIET)?;
    sockopt::set_tcp_keepintvl(&socket, QUESTIONS.0)?;
    sockopt::set_tcp_keepcnt(&socket, QUESTIONS.1)?;
    Ok(socket)
}

/// The next connection, if one waits.
pub(crate) fn accept(listener: BorrowedFd<'_>) -> Result<Option<OwnedFd>, Errno> {
    match rustix::net::accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
        Ok(socket) => Ok(Some(socket)),
        // The other side may have gone between the wake-up and now.
        Err(Errno::AGAIN | Errno::CONNABORTED | Errno::INTR) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// As [`accept`], over TCP.
pub(crate) fn accept_tcp(listener: BorrowedFd<'_>) -> Result<Option<OwnedFd>, Errno> {
    // One that has gone again is no reason to stop listening.
    Ok(accept(listener)?.and_then(|socket| attended(socket).ok()))
}

/// Whether a write would do something now, be it fail.
fn is_writable(socket: &OwnedFd) -> Result<bool, Errno> {
    let mut fds = [PollFd::new(socket, PollFlags::OUT)];
    match poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(errno) => Err(errno),
    }
}
