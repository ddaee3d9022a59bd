//! Sockets of ports: listen, connect, reconnect, pass file descriptors. Protocols are implemented by the ports.
//!
//! Never blocks, never reads a clock, independent of protocols.

mod connector;
mod handover;
mod listener;
pub(crate) mod rights;
pub(crate) mod sys;

pub(crate) use connector::Connector;
pub use listener::ListenError;
pub(crate) use listener::Listener;

use std::fmt;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Socket address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SocketAddress {
    /// Path of a stream socket.
    Unix(PathBuf),
    /// Path of a `SOCK_SEQPACKET` socket. If it [`is_abstract`], it is a name without a file.
    Packets(PathBuf),
    /// TCP address and port.
    Tcp(SocketAddr),
}

impl fmt::Display for SocketAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SocketAddress::Unix(path) | SocketAddress::Packets(path) => path.display().fmt(f),
            SocketAddress::Tcp(address) => address.fmt(f),
        }
    }
}

/// Whether a path starts with `@`, the notation for the abstract namespace (`unix(7)`): such a socket has no file, any
/// process in the same network namespace may connect to it, and it disappears with its listener.
pub fn is_abstract(path: &Path) -> bool {
    path.as_os_str().as_bytes().starts_with(b"@")
}
