//! Connects clients of the service's own process.

use crate::link::shared_event;
use rustix::fd::{AsFd, OwnedFd};
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Connects clients of this process to a service, from any thread.
#[derive(Clone, Debug)]
pub struct Connector {
    sender: Sender<UnixStream>,
    event: Arc<OwnedFd>,
}

impl Connector {
    pub(crate) fn new() -> io::Result<(Self, Receiver<UnixStream>)> {
        let (sender, receiver) = channel();
        Ok((Self { sender, event: shared_event()? }, receiver))
    }

    /// Wakes the slow path.
    pub(crate) fn event(&self) -> &Arc<OwnedFd> {
        &self.event
    }

    /// Connects a new client. Waits until the slow path runs.
    ///
    /// # Errors
    /// If the service has ended or refuses the client.
    pub fn connect(&self) -> io::Result<crate::Client> {
        let (ours, theirs) = UnixStream::pair()?;
        self.sender.send(theirs).map_err(|_| crate::Reason::Service)?;
        port::eventfd::signal(self.event.as_fd());
        crate::Client::over(ours)
    }
}
