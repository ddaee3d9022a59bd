//! A socket of the service, with the time limits of its calls.

use crate::error;
use crate::mirror::Mirror;
use crate::options::Options;
use libc::c_int;
use service::Handle;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A socket of the service.
pub(crate) struct Active {
    pub(crate) mirror: Arc<Mirror>,
    /// Listeners of both IP versions, or one socket.
    pub(crate) handles: Vec<Handle>,
    pub(crate) is_listener: bool,
    pub(crate) options: Mutex<Options>,
    /// Whether connect(2) has reported success or failure.
    pub(crate) is_reported: std::sync::atomic::AtomicBool,
}

impl Active {
    /// The socket, or the first of two listeners.
    pub(crate) fn handle(&self) -> io::Result<&Handle> {
        self.handles.first().map_or_else(|| error::os(libc::ENOTCONN), Ok)
    }

    /// Time limit of a call with these flags.
    fn limit(&self, flags: c_int, timeout: Option<Duration>) -> Option<Duration> {
        let is_immediate = flags & libc::MSG_DONTWAIT != 0 || self.mirror.is_nonblocking();
        if is_immediate { Some(Duration::ZERO) } else { timeout }
    }

    pub(crate) fn options(&self) -> MutexGuard<'_, Options> {
        self.options.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a call without waiting, and again with the time limit of reads if it would block.
    pub(crate) fn reading<T>(
        &self,
        flags: c_int,
        call: impl FnMut(Option<Duration>) -> io::Result<T>,
    ) -> io::Result<T> {
        self.waiting(flags, |options| options.receive_timeout, call)
    }

    /// As [`Active::reading`], with the time limit of writes.
    pub(crate) fn writing<T>(
        &self,
        flags: c_int,
        call: impl FnMut(Option<Duration>) -> io::Result<T>,
    ) -> io::Result<T> {
        self.waiting(flags, |options| options.send_timeout, call)
    }

    fn waiting<T>(
        &self,
        flags: c_int,
        timeout: fn(&Options) -> Option<Duration>,
        mut call: impl FnMut(Option<Duration>) -> io::Result<T>,
    ) -> io::Result<T> {
        match call(Some(Duration::ZERO)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                // The lock is released before the call waits.
                let timeout = timeout(&self.options());
                call(self.limit(flags, timeout))
            }
            done => done,
        }
    }
}

/// The next connection of one or two listeners.
pub(super) fn accept_any(active: &Active) -> io::Result<Handle> {
    let deadline = active.limit(0, active.options().receive_timeout).map(|limit| Instant::now() + limit);
    loop {
        for handle in &active.handles {
            match handle.accept(Some(Duration::ZERO)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(handle) => return Ok(handle),
                Err(error) => {
                    active.mirror.quieten();
                    return Err(error);
                }
            }
        }
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        active.mirror.wait_readable(left);
    }
}

/// Lets the readiness of a mirror follow its sockets.
pub(super) fn follow(mirror: &Arc<Mirror>, handles: &[Handle]) {
    for (which, handle) in handles.iter().enumerate() {
        let mirror = mirror.clone();
        handle.observe(move |readiness| mirror.set(which, readiness));
    }
}
