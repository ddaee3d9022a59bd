//! Listening Unix socket with its file: created if no other process listens there, removed on drop.

use super::{SocketAddress, is_abstract, sys};
use crate::Remedy;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::SocketType;
use std::borrow::Cow;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Maximum length of a socket path in bytes, without the terminating zero (`unix(7)`).
const MAX_PATH: usize = 107;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 16;

/// A socket could not be created. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another process listens on the socket.
    #[error("{0}: another process listens on this socket")]
    Live(PathBuf),
    /// The file is not a socket.
    #[error("{0}: the path exists and is not a socket")]
    NotASocket(PathBuf),
    /// The directory does not exist.
    #[error("{0}: its directory does not exist")]
    NoDirectory(PathBuf),
    /// The path is too long.
    #[error("{0}: the path is longer than the {MAX_PATH} bytes that a socket's may have")]
    TooLong(PathBuf),
    /// Permission denied for the path.
    #[error("{0}: this process may not make the socket")]
    Denied(PathBuf),
    /// The address is in use.
    #[error("{0}: another process listens on this address")]
    Taken(SocketAddr),
    /// The address is not local.
    #[error("{0}: this machine has no such address")]
    NotHere(SocketAddr),
    /// Permission denied for the address.
    #[error("{0}: this process may not listen on this address")]
    Privileged(SocketAddr),
    /// Other kernel error for the address.
    #[error("{0}: this address cannot be listened on: {1}")]
    Address(SocketAddr, Errno),
    /// Other kernel error for the path.
    #[error("{0}: cannot create the socket: {1}")]
    Kernel(PathBuf, Errno),
}

impl Remedy for ListenError {
    fn remedy(&self) -> Option<Cow<'static, str>> {
        Some(match self {
            Self::Live(..) => "stop it or choose another path".into(),
            Self::NotASocket(..) => "remove it or choose another path".into(),
            Self::NoDirectory(..) => "create it first".into(),
            Self::TooLong(..) => "choose a shorter one".into(),
            Self::Denied(..) => "choose a folder that it may write to, or run it as another user".into(),
            Self::Taken(..) => "stop it or choose another port".into(),
            Self::NotHere(..) => "choose one that `ip address` shows".into(),
            Self::Privileged(..) => "choose a port from 1024 on, or give it CAP_NET_BIND_SERVICE".into(),
            Self::Address(..) | Self::Kernel(..) => return None,
        })
    }
}

impl ListenError {
    /// Maps an error of a file operation.
    fn of_file(path: &Path, errno: Errno) -> Self {
        match errno {
            Errno::ACCESS | Errno::PERM | Errno::ROFS => Self::Denied(path.into()),
            errno => Self::Kernel(path.into(), errno),
        }
    }

    /// Maps an error that does not depend on the path or address.
    pub(crate) fn at(site: &SocketAddress, errno: Errno) -> Self {
        match site {
            SocketAddress::Unix(path) | SocketAddress::Packets(path) => Self::Kernel(path.clone(), errno),
            SocketAddress::Tcp(address) => Self::Address(*address, errno),
        }
    }
}

/// A listening socket.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: OwnedFd,
    path: PathBuf,
    /// Device and inode of the created file, to detect a replacement.
    file: Option<(u64, u64)>,
}

impl Listener {
    /// Listens at `path`. Replaces a stale socket file.
    pub(crate) fn bind(path: &Path) -> Result<Self, ListenError> {
        Self::of(path, SocketType::STREAM)
    }

    /// [`Listener::bind`] with another socket type.
    pub(crate) fn of(path: &Path, kind: SocketType) -> Result<Self, ListenError> {
        if path.as_os_str().len() > MAX_PATH {
            return Err(ListenError::TooLong(path.into()));
        }
        let has_file = !is_abstract(path);
        if has_file {
            remove_stale(path, kind)?;
        }
        let bound = sys::bound(path, kind).map_err(|errno| match errno {
            Errno::NOENT | Errno::NOTDIR => ListenError::NoDirectory(path.into()),
            Errno::ADDRINUSE => ListenError::Live(path.into()),
            errno => ListenError::of_file(path, errno),
        })?;
        let listener = Self::over(bound, path);
        if has_file && listener.file.is_none() {
            // It was created just now, and nothing would remove it later.
            let _ = std::fs::remove_file(&listener.path);
            return Err(ListenError::Kernel(listener.path.clone(), Errno::NOENT));
        }
        // From here on an error removes the file.
        rustix::net::listen(&listener.socket, BACKLOG)
            .map_err(|errno| ListenError::of_file(&listener.path, errno))?;
        Ok(listener)
    }

    /// Uses a socket that listens at `path`.
    pub(crate) fn over(socket: OwnedFd, path: &Path) -> Self {
        let has_file = !is_abstract(path);
        let path = std::path::absolute(path).unwrap_or_else(|_| path.into());
        let file = identity(&path).filter(|_| has_file);
        Self { socket, path, file }
    }

    /// Keeps the file when dropped.
    pub(crate) fn leave_file(&mut self) {
        self.file = None;
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if self.file.is_some() && identity(&self.path) == self.file {
            // Another process may have removed it already.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}

/// Removes the socket file of a process that was killed.
fn remove_stale(path: &Path, kind: SocketType) -> Result<(), ListenError> {
    let Ok(meta) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !meta.file_type().is_socket() {
        return Err(ListenError::NotASocket(path.into()));
    }
    match sys::connect_by(path, kind) {
        Err(Errno::CONNREFUSED) => {}
        Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ACCESS | Errno::PERM) => return Err(ListenError::Denied(path.into())),
        // Connected, backlog full, or another socket type: it is in use.
        _ => return Err(ListenError::Live(path.into())),
    }
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(ListenError::of_file(path, Errno::from_io_error(&error).unwrap_or(Errno::PERM)))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_a_remedy() {
        let (path, address) = (PathBuf::from("/x"), SocketAddr::from(([127, 0, 0, 1], 80)));
        let errors = [
            ListenError::of_file(&path, Errno::ACCESS),
            ListenError::of_file(&path, Errno::ROFS),
            ListenError::TooLong(path.clone()),
            ListenError::Live(path.clone()),
            ListenError::NotASocket(path.clone()),
            ListenError::NoDirectory(path),
            ListenError::Taken(address),
            ListenError::NotHere(address),
            ListenError::Privileged(address),
        ];
        for error in &errors {
            let text = error.to_string();
            let (place, _) = text.split_once(": ").unwrap();
            assert!(["/x", "127.0.0.1:80"].contains(&place) && error.remedy().is_some(), "{text}");
        }
    }
}
