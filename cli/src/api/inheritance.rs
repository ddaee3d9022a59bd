//! What a process that takes the switch over inherits from it.

use crate::takeover::SocketName;
use rustix::fd::{AsFd, OwnedFd};
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// What a successor inherits beside ports, and how it is started.
pub(crate) struct Inheritance {
    /// Path from which this process was started.
    pub(crate) program: PathBuf,
    pub(crate) sockets: Vec<(SocketName, OwnedFd)>,
    /// Token of the web page, unless it is in a file.
    pub(crate) web_token: Option<String>,
    /// Process that has taken over.
    successor: Mutex<Option<u32>>,
}

impl Inheritance {
    pub(crate) fn new(
        program: PathBuf,
        sockets: Vec<(SocketName, OwnedFd)>,
        web_token: Option<String>,
    ) -> Self {
        Self { program, sockets, web_token, successor: Mutex::default() }
    }

    /// Names the process that has taken over.
    pub(super) fn set_successor(&self, pid: u32) {
        *self.successor.lock().unwrap_or_else(PoisonError::into_inner) = Some(pid);
    }

    /// The process that has taken over, if one has.
    pub(crate) fn successor(&self) -> Option<u32> {
        *self.successor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn duplicates(&self) -> io::Result<Vec<OwnedFd>> {
        self.sockets.iter().map(|(_, socket)| socket.as_fd().try_clone_to_owned()).collect()
    }
}
