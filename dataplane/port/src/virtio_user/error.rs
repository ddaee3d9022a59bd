//! What can go wrong between a front end and its back end.

use crate::socket::rights::ReceiveError;
use crate::vhost::message::MessageError;
use crate::vhost::wire::WireError;
use rustix::io::Errno;
use std::path::PathBuf;

/// Why the guest has no network. Every variant names the step; the connection is of no use after any of them
/// except [`FrontEndError::Refused`] and [`FrontEndError::NotNegotiated`].
#[derive(Debug, thiserror::Error)]
pub enum FrontEndError {
    /// Nobody listens there, yet or any more.
    #[error("{0}: no back end listens on this socket: {1}; start the switch first, or try again")]
    NoBackEnd(PathBuf, Errno),
    /// Nobody connected in time.
    #[error("{0}: no back end connected in time")]
    NobodyCame(PathBuf),
    /// The kernel refused.
    #[error("{0} failed: {1}")]
    Kernel(&'static str, Errno),
    /// The back end said nothing in time.
    #[error("the back end did not answer {0} in time")]
    Timeout(&'static str),
    /// The back end closed the connection.
    #[error("the back end closed the connection at {0}; its log says why")]
    Closed(&'static str),
    /// The back end answered with a failure.
    #[error("the back end refused {0}")]
    Refused(&'static str),
    /// The back end answered something else.
    #[error("the back end answered {asked} with {got}")]
    WrongAnswer {
        /// What it was asked.
        asked: &'static str,
        /// What it answered.
        got: &'static str,
    },
    /// The answer is no message.
    #[error("the back end violated the vhost-user protocol: {0}")]
    Message(#[from] MessageError),
    /// The back end lacks what the call needs.
    #[error("{0} needs the protocol feature {1}, which the back end does not offer")]
    NotNegotiated(&'static str, &'static str),
    /// More than one message can carry.
    #[error("{0} memory regions were to be shared at once; the back end takes at most {1}")]
    TooManyRegions(usize, usize),
    /// `FEATURES_OK` did not stay set (VIRTIO 1.2 section 3.1.1).
    #[error("the back end does not accept the features {0:#x}")]
    Features(u64),
}

impl FrontEndError {
    /// As an error of the step `name`.
    pub(super) fn at(name: &'static str, error: WireError) -> Self {
        match error {
            WireError::Message(error) => Self::Message(error),
            WireError::Receive(ReceiveError::Closed) => Self::Closed(name),
            WireError::Receive(ReceiveError::Io(errno)) => Self::Kernel(name, errno),
            WireError::Receive(ReceiveError::Descriptors) => Self::Kernel(name, Errno::MFILE),
        }
    }
}
