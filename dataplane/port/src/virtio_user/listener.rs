//! Server mode: the guest listens and the switch connects, so that the guest can outlive the switch.

use super::{FrontEnd, FrontEndError, ListenError};
use crate::socket::rights;
use crate::socket::{Listener, sys as socket};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Listening socket for back ends. Its file is removed when it is dropped.
#[derive(Debug)]
pub struct FrontEndListener {
    listener: Listener,
    path: PathBuf,
}

impl FrontEndListener {
    /// Listens at `path`; a stale socket file is replaced.
    pub fn bind(path: impl AsRef<Path>) -> Result<Self, ListenError> {
        let path = path.as_ref();
        Ok(Self { listener: Listener::bind(path)?, path: path.into() })
    }

    /// Accepts the next back end. Waits up to `timeout`, which also bounds the wait for each reply.
    pub fn accept(&self, timeout: Duration) -> Result<FrontEnd, FrontEndError> {
        FrontEnd::over(self.accept_socket(timeout)?, timeout)
    }

    /// Accepts the next connection as a non-blocking socket, for either side of the protocol. Waits up to `timeout`.
    pub fn accept_socket(&self, timeout: Duration) -> Result<OwnedFd, FrontEndError> {
        let failed = |errno| FrontEndError::Kernel("accepting a back end", errno);
        if !rights::wait_readable(self.listener.as_fd(), timeout).map_err(failed)? {
            return Err(FrontEndError::AcceptTimeout(self.path.clone()));
        }
        let socket = socket::accept(self.listener.as_fd()).map_err(failed)?;
        socket.ok_or_else(|| FrontEndError::AcceptTimeout(self.path.clone()))
    }
}

impl AsFd for FrontEndListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}
