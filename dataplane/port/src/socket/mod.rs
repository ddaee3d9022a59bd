//! Sockets over which ports are reached: made, found again, let go of. What is said over them is each port's own.
//!
//! Nothing here blocks, reads a clock or knows a protocol.

mod connector;
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

/// Where a socket is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Site {
    /// A path in the file system.
    Unix(PathBuf),
    /// A path in the file system, of a socket that keeps messages apart (`SOCK_SEQPACKET`). One that [`is_abstract`] is
    /// a name without a file.
    Packets(PathBuf),
    /// An address and a port of TCP.
    Tcp(SocketAddr),
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Site::Unix(path) | Site::Packets(path) => path.display().fmt(f),
            Site::Tcp(address) => address.fmt(f),
        }
    }
}

/// Whether a path begins with `@`, as names of the abstract namespace are written (`unix(7)`): no file stands for such a
/// socket, any process in the same network namespace may connect to it, and it disappears with its listener.
pub fn is_abstract(path: &Path) -> bool {
    path.as_os_str().as_bytes().starts_with(b"@")
}
