//! Opening sockets.

use super::{Client, Handle};
use crate::entry::{Command, StreamOptions};
use stack::Endpoint;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Connections that a listener may accept before the program asks for them.
const PREFETCH: u32 = 8;

impl Client {
    fn open(&self, command: impl FnOnce(u32) -> Command) -> io::Result<Handle> {
        let socket = self.shared().open()?;
        self.shared().send(command(socket.id));
        Ok(Handle { socket, _core: Arc::clone(&self.0) })
    }

    /// Starts to listen; with `shares`, together with other clients of the same user. [`Handle::wait_open`] has the
    /// result.
    ///
    /// # Errors
    /// If the service ended.
    pub fn listen(&self, local: Endpoint, shares: bool) -> io::Result<Handle> {
        let handle = self.open(|id| Command::Listen { id, local, shares })?;
        self.shared().send(Command::Accept { id: handle.socket.id, count: PREFETCH });
        Ok(handle)
    }

    /// Starts to connect. `local` with an unspecified address and port 0 is chosen by the stack.
    /// [`Handle::wait_open`] has the result.
    ///
    /// # Errors
    /// If the service ended.
    pub fn open_stream(
        &self,
        local: Endpoint,
        remote: Endpoint,
        options: StreamOptions,
    ) -> io::Result<Handle> {
        self.open(|id| Command::Connect { id, local, remote, options })
    }

    /// Opens a UDP socket. [`Handle::wait_open`] has the result.
    ///
    /// # Errors
    /// If the service ended.
    pub fn open_udp(&self, local: Endpoint) -> io::Result<Handle> {
        self.open(|id| Command::UdpBind { id, local })
    }
}

impl Handle {
    /// Limits a UDP socket to one remote end, and waits for the service's answer.
    ///
    /// # Errors
    /// If no route leads to it; [`io::ErrorKind::WouldBlock`] after `timeout`.
    pub fn udp_connect(&self, remote: Endpoint, timeout: Option<Duration>) -> io::Result<()> {
        self.socket.shared.send(Command::UdpConnect { id: self.socket.id, remote });
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
        self.socket.shared.send(Command::Accept { id: self.socket.id, count: 1 });
        Ok(accepted)
    }
}
