//! A socket of a client, and waiting for its changes.

use super::lane::{Lane, WorkerSet};
use super::state::{Phase, Readiness, State};
use super::{Core, Shared, lock};
use crate::Reason;
use crate::entry::{Command, StreamOptions};
use stack::Endpoint;
use std::fmt;
use std::io;
use std::net::Shutdown;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Called with a socket's readiness after each change, while the socket is locked: it must not use the socket.
type Observer = Box<dyn Fn(Readiness) + Send + Sync>;

/// A socket.
pub(super) struct Socket {
    pub(super) id: u32,
    /// Worker that sends what the program sends. Changed under the lock of the state before the socket is open.
    home: AtomicUsize,
    pub(super) shared: Arc<Shared>,
    pub(super) state: Mutex<State>,
    /// Held during a request that has an answer, so that there is one at a time.
    pub(super) asking: Mutex<()>,
    changed: Condvar,
    observer: OnceLock<Observer>,
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Socket").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Socket {
    pub(super) fn new(id: u32, home: usize, shared: Arc<Shared>) -> Self {
        let (state, asking) = (Mutex::default(), Mutex::default());
        let home = AtomicUsize::new(home);
        Self { id, home, shared, state, asking, changed: Condvar::new(), observer: OnceLock::new() }
    }

    /// Worker that sends what the program sends.
    #[inline]
    pub(super) fn home(&self) -> usize {
        // Threads that use an open socket have taken the lock of its state since the change.
        self.home.load(Ordering::Relaxed)
    }

    /// Ring and arenas of the home.
    #[inline]
    pub(super) fn lane(&self) -> &Lane {
        &self.shared.lanes[self.home()]
    }

    /// Opens the socket at another worker, to which its segments belong. The state is locked. Returns `false` if that
    /// is not possible.
    pub(super) fn move_to(&self, state: &mut State, worker: usize) -> bool {
        let Some((first, command)) = state.placement.begin_again(worker) else { return false };
        self.home.store(worker, Ordering::Relaxed);
        self.request(first, command);
        true
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Wakes waiting threads and reports a change to the observer.
    pub(super) fn notify(&self, state: &State) {
        self.changed.notify_all();
        self.observe(state);
    }

    /// Reports a change that no thread waits for to the observer.
    pub(super) fn observe(&self, state: &State) {
        if let Some(observer) = self.observer.get() {
            observer(state.readiness());
        }
    }

    /// Calls `step` until it does not return `WouldBlock`, after each change.
    ///
    /// # Errors
    /// Those of `step`; `WouldBlock` after `timeout`, as sockets of the kernel return it.
    pub(super) fn wait<T>(
        &self,
        timeout: Option<Duration>,
        mut step: impl FnMut(&mut State) -> io::Result<T>,
    ) -> io::Result<T> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let mut state = self.lock();
        loop {
            match step(&mut state) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            state = match left {
                Some(Duration::ZERO) => return Err(io::ErrorKind::WouldBlock.into()),
                Some(left) => {
                    self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

/// A socket of a program. It closes when the handle is dropped; then data that was not read resets the connection.
#[derive(Debug)]
pub struct Handle {
    pub(super) socket: Arc<Socket>,
    /// Keeps the client's thread.
    pub(super) _core: Arc<Core>,
}

impl Handle {
    /// Readiness for calls that do not block.
    pub fn readiness(&self) -> Readiness {
        self.socket.lock().readiness()
    }

    /// Sets a function that is called with the readiness after each change, and now. Only the first one is used. It
    /// must not use the socket.
    pub fn observe(&self, observer: impl Fn(Readiness) + Send + Sync + 'static) {
        let state = self.socket.lock();
        observer(state.readiness());
        // A second observer is refused.
        let _ = self.socket.observer.set(Box::new(observer));
    }

    /// Waits until the socket is open.
    ///
    /// # Errors
    /// If opening failed, or [`io::ErrorKind::WouldBlock`] after `timeout`.
    pub fn wait_open(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.socket.wait(timeout, |state| match (state.phase, state.closed, state.error.take()) {
            (_, _, Some(reason)) => Err(reason.into()),
            (Phase::Open, ..) => Ok(()),
            (_, Some(reason), _) => Err(reason.into()),
            _ => Err(io::ErrorKind::WouldBlock.into()),
        })
    }

    /// Waits until the service has begun to open the socket: errors of the other end follow later.
    ///
    /// # Errors
    /// As [`Handle::wait_open`].
    pub fn wait_started(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.socket.wait(timeout, |state| match (state.phase, state.closed) {
            (Phase::Opening, Some(reason)) => Err(reason.into()),
            (Phase::Opening, None) => Err(io::ErrorKind::WouldBlock.into()),
            _ => Ok(()),
        })
    }

    /// The local end.
    pub fn local(&self) -> Endpoint {
        self.socket.lock().local
    }

    /// The remote end; `None` if there is none.
    pub fn remote(&self) -> Option<Endpoint> {
        self.socket.lock().remote
    }

    /// Takes the pending error, as `SO_ERROR` reports it.
    pub fn take_error(&self) -> Option<Reason> {
        self.socket.lock().error.take()
    }

    /// Bytes that can be read without blocking.
    pub fn available(&self) -> usize {
        let state = self.socket.lock();
        match state.receiving.datagrams.front() {
            Some(datagram) => datagram.pieces.iter().map(|piece| piece.len as usize).sum(),
            None => state.receiving.data.iter().map(|piece| piece.len as usize).sum(),
        }
    }

    /// Bytes sent and not acknowledged.
    pub fn unacknowledged(&self) -> usize {
        self.socket.lock().sending.stream.held() as usize
    }

    /// Ends sending, receiving or both.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotConnected`] if the connection has ended.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        let mut state = self.socket.lock();
        if state.closed.is_some() || state.remote.is_none() {
            return Err(Reason::NotConnected.into());
        }
        if how != Shutdown::Write {
            state.receiving.is_shut = true;
        }
        if how != Shutdown::Read && !std::mem::replace(&mut state.sending.is_shut, true) {
            self.socket.lane().send(Command::Shutdown { id: self.socket.id });
        }
        self.socket.notify(&state);
        Ok(())
    }

    /// Changes the settings of a connection.
    pub fn set_options(&self, options: StreamOptions) {
        self.socket.lane().send(Command::SetOptions { id: self.socket.id, options });
    }

    /// Resets the connection.
    pub fn abort(&self) {
        self.socket.lane().send(Command::Abort { id: self.socket.id });
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let socket = &self.socket;
        let mut state = socket.lock();
        state.is_released = true;
        let accepted = std::mem::take(&mut state.receiving.accepted);
        let mut workers = state.placement.close();
        let is_over = workers.is_empty();
        // It keeps a connection that has ended until then.
        workers.add(WorkerSet::one(socket.home()));
        socket.request(workers, Command::Close { id: socket.id });
        drop(state);
        if is_over {
            socket.shared.forget(socket);
        }
        // Their handles lock other sockets.
        drop(accepted);
    }
}
