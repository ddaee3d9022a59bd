//! Errors between a front end and its back end.

use crate::socket::rights::ReceiveError;
use crate::vhost::message::MessageError;
use crate::vhost::wire::WireError;
use rustix::io::Errno;
use std::path::PathBuf;

/// Front-end error. Every variant names the step. The connection must not be used after any error except
/// [`FrontEndError::Refused`] and [`FrontEndError::NotNegotiated`].
#[derive(Debug, thiserror::Error)]
pub enum FrontEndError {
    /// Nothing listens at this path.
    #[error("{0}: no back end listens on this socket: {1}; start the switch first, or try again")]
    NoBackEnd(PathBuf, Errno),
    /// No back end connected within the timeout.
    #[error("{0}: no back end connected in time")]
    AcceptTimeout(PathBuf),
    /// A system call failed.
    #[error("{0} failed: {1}")]
    Kernel(&'static str, Errno),
    /// The back end did not reply within the timeout.
    #[error("the back end did not answer {0} in time")]
    Timeout(&'static str),
    /// The back end closed the connection.
    #[error("the back end closed the connection at {0}; see its log")]
    Closed(&'static str),
    /// The back end replied with a failure.
    #[error("the back end refused {0}")]
    Refused(&'static str),
    /// Unexpected reply.
    #[error("the back end answered {asked} with {got}")]
    WrongAnswer {
        /// Request.
        asked: &'static str,
        /// Reply.
        got: &'static str,
    },
    /// Invalid message.
    #[error("the back end violated the vhost-user protocol: {0}")]
    Message(#[from] MessageError),
    /// The request needs a feature that was not negotiated.
    #[error("{0} needs the protocol feature {1}, which the back end does not offer")]
    NotNegotiated(&'static str, &'static str),
    /// More memory regions than one message can carry.
    #[error("{0} memory regions were to be shared at once; the back end takes at most {1}")]
    TooManyRegions(usize, usize),
    /// `FEATURES_OK` did not stay set (VIRTIO 1.2 section 3.1.1).
    #[error("the back end does not accept the features {0:#x}")]
    Features(u64),
}

impl FrontEndError {
    /// Converts the error of step `name`.
    pub(super) fn at(name: &'static str, error: WireError) -> Self {
        match error {
            WireError::Message(error) => Self::Message(error),
            WireError::Receive(ReceiveError::Closed) => Self::Closed(name),
            WireError::Receive(ReceiveError::Io(errno)) => Self::Kernel(name, errno),
            WireError::Receive(ReceiveError::Descriptors) => Self::Kernel(name, Errno::MFILE),
        }
    }
}
