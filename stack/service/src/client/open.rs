//! Opening sockets.

use super::lane::WorkerSet;
use super::socket::Socket;
use super::{Client, Handle};
use crate::entry::{Command, StreamOptions};
use stack::{Affinity, Endpoint};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Connections that a listener may accept on a worker before the program asks for them.
const PREFETCH: u32 = 8;

impl Client {
    /// Opens a socket with a local port. Segments to a port that a worker may choose arrive at this worker, and those
    /// to another one at any; so a socket that is found by its port alone (`is_passive`) is on all.
    fn open(&self, port: u16, is_passive: bool, command: impl FnOnce(u32) -> Command) -> io::Result<Handle> {
        let count = self.shared().lanes.len();
        let owner = Affinity::owner(port, count as u16).map(usize::from);
        let workers = owner.map_or(WorkerSet::all(count), WorkerSet::one);
        let socket = self.shared().open(workers)?;
        let is_everywhere = is_passive && port != 0;
        let workers = if is_everywhere { workers } else { WorkerSet::one(socket.home()) };
        let command = command(socket.id);
        let first = socket.lock().placement.begin(workers, command);
        socket.request(first, command);
        Ok(Handle { socket, _core: Arc::clone(&self.0) })
    }

    /// Starts to listen; with `shares`, together with other clients of the same user. [`Handle::wait_open`] has the
    /// result.
    ///
    /// # Errors
    /// If the service ended.
    pub fn listen(&self, local: Endpoint, shares: bool) -> io::Result<Handle> {
        self.open(local.port, true, |id| Command::Listen { id, local, shares })
    }

    /// Starts to connect. `local` with an unspecified address and port 0 is chosen by the stack. [`Handle::wait_open`]
    /// has the result. [`Handle::set_options`] and [`Handle::abort`] have no effect before [`Handle::wait_started`]
    /// returns, because another worker of the service may open the connection.
    ///
    /// # Errors
    /// If the service ended.
    pub fn open_stream(
        &self,
        local: Endpoint,
        remote: Endpoint,
        options: StreamOptions,
    ) -> io::Result<Handle> {
        self.open(local.port, false, |id| Command::Connect { id, local, remote, options })
    }

    /// Opens a UDP socket. [`Handle::wait_open`] has the result.
    ///
    /// # Errors
    /// If the service ended.
    pub fn open_udp(&self, local: Endpoint) -> io::Result<Handle> {
        self.open(local.port, true, |id| Command::UdpBind { id, local })
    }
}

impl Socket {
    /// Sends a command to workers; a listener may accept there at once.
    pub(super) fn request(&self, workers: WorkerSet, command: Command) {
        for lane in workers.iter().filter_map(|worker| self.shared.lanes.get(worker)) {
            lane.send(command);
            if let Command::Listen { id, .. } = command {
                lane.send(Command::Accept { id, count: PREFETCH });
            }
        }
    }
}

impl Handle {
    /// Limits a UDP socket to one remote end, and waits for the service's answer.
    ///
    /// # Errors
    /// If no route leads to it; [`io::ErrorKind::WouldBlock`] after `timeout`.
    pub fn udp_connect(&self, remote: Endpoint, timeout: Option<Duration>) -> io::Result<()> {
        let workers = self.socket.lock().placement.parts();
        self.socket.request(workers, Command::UdpConnect { id: self.socket.id, remote });
        self.socket.wait(timeout, |state| match state.error.take().or(state.closed) {
            Some(reason) => Err(reason.into()),
            None if state.remote == Some(remote) => Ok(()),
            None => Err(io::ErrorKind::WouldBlock.into()),
        })
    }

    /// The next connection of a listener.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if there is none within `timeout`; the reason if the listener has ended.
    pub fn accept(&self, timeout: Option<Duration>) -> io::Result<Handle> {
        let accepted = self.socket.wait(timeout, |state| {
            let accepted = state.receiving.accepted.pop_front();
            self.socket.observe(state);
            match (accepted, state.closed) {
                (Some(accepted), _) => Ok(accepted),
                (None, Some(reason)) => Err(reason.into()),
                (None, None) => Err(io::ErrorKind::WouldBlock.into()),
            }
        })?;
        let again = Command::Accept { id: self.socket.id, count: 1 };
        self.socket.request(WorkerSet::one(accepted.socket.home()), again);
        Ok(accepted)
    }
}
