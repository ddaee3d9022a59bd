//! Back end for a program with its own rings: a peer for tests of front ends, not a port of the switch.
//!
//! [`Session`] implements the protocol; its queues here move no packets. A program connects, serves requests until
//! both rings of the first queue pair run, and uses them as their setups describe. Only [`BackEnd::wait`] blocks, at
//! most for its timeout.

use super::fake::{FakeEngine, QUEUES};
use super::session::{Offer, Session};
use super::setup::QueueSetup;
use crate::PortFault;
use crate::socket::rights::{self, ReceiveError};
use crate::socket::sys as socket;
use crate::vhost::message::{Header, MessageError};
use crate::vhost::wire::{Channel, WireError};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Back-end error. The connection must not be used afterwards.
#[derive(Debug, thiserror::Error)]
pub enum BackEndError {
    /// No front end listens at this path.
    #[error("{0}: no front end listens on this socket: {1}; start it first, or try again")]
    NoFrontEnd(PathBuf, Errno),
    /// The front end closed the connection.
    #[error("the front end closed the connection; see its log")]
    Closed,
    /// Invalid message.
    #[error("the front end violated the vhost-user protocol: {0}")]
    Message(#[from] MessageError),
    /// The request cannot be executed.
    #[error("the front end was rejected: {0}")]
    Fault(#[from] PortFault),
    /// A system call failed.
    #[error("waiting for the front end failed: {0}")]
    Wait(Errno),
}

/// A connection to a front end.
#[derive(Debug)]
pub struct BackEnd {
    channel: Channel,
    session: Session,
    queues: FakeEngine,
}

impl BackEnd {
    /// Connects to the front end that listens at `path`.
    ///
    /// # Errors
    /// [`BackEndError::NoFrontEnd`].
    pub fn connect(path: impl AsRef<Path>, offer: Offer) -> Result<Self, BackEndError> {
        let path = path.as_ref();
        let socket = socket::connect(path).map_err(|errno| BackEndError::NoFrontEnd(path.into(), errno))?;
        Ok(Self::over(socket, offer))
    }

    /// Creates a back end on a connected non-blocking socket.
    pub fn over(socket: OwnedFd, offer: Offer) -> Self {
        let channel = Channel::new(socket, Header::expect_request);
        Self { channel, session: Session::new(offer, QUEUES), queues: FakeEngine::default() }
    }

    /// Processes the available requests.
    ///
    /// # Errors
    /// The front end closed the connection or violated the protocol.
    pub fn serve(&mut self) -> Result<(), BackEndError> {
        while let Some(message) = self.channel.receive().map_err(ended)? {
            let answer = self.session.receive(
                message.header,
                message.payload,
                message.descriptors,
                &mut self.queues,
            )?;
            if let Some(bytes) = answer {
                self.channel.send(&bytes, &[]).map_err(|_| BackEndError::Closed)?;
            }
        }
        Ok(())
    }

    /// Waits for a request. Returns `false` on timeout.
    ///
    /// # Errors
    /// [`BackEndError::Wait`].
    pub fn wait(&self, timeout: Duration) -> Result<bool, BackEndError> {
        rights::wait_readable(self.channel.as_fd(), timeout).map_err(BackEndError::Wait)
    }

    /// Setups of the front end's receive ring and transmit ring. Returns `None` until both run.
    pub fn rings(&self) -> Option<[QueueSetup; 2]> {
        Some([self.session.running(0)?, self.session.running(1)?])
    }

    /// Whether the front end has closed the connection.
    pub fn is_closed(&self) -> bool {
        rights::is_closed(self.channel.as_fd())
    }
}

fn ended(error: WireError) -> BackEndError {
    match error {
        WireError::Message(error) => BackEndError::Message(error),
        WireError::Receive(ReceiveError::Closed | ReceiveError::Io(_)) => BackEndError::Closed,
        WireError::Receive(ReceiveError::Descriptors) => BackEndError::Wait(Errno::MFILE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PortControl;
    use crate::vhost::Features;
    use crate::vhost::message::ProtocolFeatures;
    use crate::virtio_user::{Options, VirtioUser};
    use std::time::Instant;

    #[test]
    fn both_rings_of_a_front_end_start() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let offer = Offer {
            features: Features(Features::VERSION_1 | Features::PROTOCOL),
            protocol: ProtocolFeatures(ProtocolFeatures::REPLY_ACK),
            queue_pairs: 1,
            mtu: None,
            memory: crate::vhost_user::MAX_BYTES,
        };
        assert!(matches!(BackEnd::connect(&path, offer), Err(BackEndError::NoFrontEnd(..))));
        let mut port = VirtioUser::listen(&path, Options::default()).unwrap();
        let (mut back, mut engine) = (BackEnd::connect(&path, offer).unwrap(), FakeEngine::default());
        assert!(back.rings().is_none());
        while engine.rx.is_empty() {
            port.handle(Instant::now(), &mut engine);
            back.serve().unwrap();
        }
        let [receive, send] = back.rings().unwrap();
        assert_eq!((receive.size, send.size), (1024, 1024));
        assert!(receive.descriptors != send.descriptors && !back.is_closed());
        port.close(&mut engine);
        assert!(matches!(back.serve(), Err(BackEndError::Closed)) && back.is_closed());
    }
}
