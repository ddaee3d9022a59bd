//! Connects clients of the service's own process.

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
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
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok((Self { sender, event: Arc::new(event) }, receiver))
    }

    /// Wakes the service.
    pub(crate) fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Connects a new client. Waits until the service runs.
    ///
    /// # Errors
    /// If the service has ended or refuses the client.
    pub fn connect(&self) -> io::Result<crate::Client> {
        let (ours, theirs) = UnixStream::pair()?;
        self.sender.send(theirs).map_err(|_| crate::Reason::Service)?;
        port::eventfd::signal(self.event());
        crate::Client::over(ours)
    }
}
