//! A back end for a program that uses rings of its own: a peer for tests of front ends, and no port of the switch.
//!
//! The protocol is the [`Session`]'s; its queues here move no packet. A program connects, serves requests until both rings
//! of the first queue pair run, and uses them as their setups say. Never blocks but in [`BackEnd::wait`], which is told for
//! how long.

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

/// Why a back end has no front end. The connection is of no use afterwards.
#[derive(Debug, thiserror::Error)]
pub enum BackEndError {
    /// No front end listens there, yet or any more.
    #[error("{0}: no front end listens on this socket: {1}; start it first, or try again")]
    NoFrontEnd(PathBuf, Errno),
    /// The front end is gone.
    #[error("the front end closed the connection; its log says why")]
    Closed,
    /// The bytes are no message.
    #[error("the front end violated the vhost-user protocol: {0}")]
    Message(#[from] MessageError),
    /// A request that cannot be carried out.
    #[error("the front end was refused: {0}")]
    Fault(#[from] PortFault),
    /// The kernel refused.
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

    /// A back end over a connected socket that does not block.
    pub fn over(socket: OwnedFd, offer: Offer) -> Self {
        let channel = Channel::new(socket, Header::expect_request);
        Self { channel, session: Session::new(offer, QUEUES), queues: FakeEngine::default() }
    }

    /// Carries out the requests that are there.
    ///
    /// # Errors
    /// The front end is gone, or broke the protocol.
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

    /// Waits for a request. `false` when `timeout` passes first.
    ///
    /// # Errors
    /// [`BackEndError::Wait`].
    pub fn wait(&self, timeout: Duration) -> Result<bool, BackEndError> {
        rights::wait_readable(self.channel.as_fd(), timeout).map_err(BackEndError::Wait)
    }

    /// The ring by which the front end receives and the one by which it sends. Returns `None` until both run.
    pub fn rings(&self) -> Option<[QueueSetup; 2]> {
        Some([self.session.running(0)?, self.session.running(1)?])
    }

    /// Whether the front end has gone.
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
    fn both_rings_of_a_front_end_come_to_run() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let offer = Offer {
            features: Features(Features::VERSION_1 | Features::PROTOCOL),
            protocol: ProtocolFeatures(ProtocolFeatures::REPLY_ACK),
            queue_pairs: 1,
            mtu: None,
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
