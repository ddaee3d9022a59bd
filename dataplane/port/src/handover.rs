//! Hand-over of a running port to another process, which continues it without its peer noticing.
//!
//! The process that runs the port stops its queues and describes it ([`HandOver::hand_over`]): sockets, interfaces and
//! shared memory as descriptors, and the rest as messages of the port's protocol, which have a stable format and are
//! validated by the receiver as if they came from a peer. It then either releases the port ([`HandOver::release`]) or
//! continues it ([`HandOver::resume`]). Between these calls the port must not be used in any other way. Descriptors are
//! duplicates, so that the port is unchanged if it is resumed.
//!
//! The other process creates the port without its resources, and gives it the description ([`HandOver::take_over`]).

use crate::socket::rights::{self, ReceiveError};
use crate::{Attach, PortFault};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::time::Instant;

/// Maximum length of the bytes of a part: those of the longest frame or message.
const MAX_BYTES: usize = 1 << 17;

/// A port that another process can continue.
pub trait HandOver {
    /// Stops the queues and describes the port. Its peer and its files do not change.
    ///
    /// # Errors
    /// The reason why the port cannot be handed over now. The caller must call [`HandOver::resume`] then, too.
    fn hand_over(&mut self, engine: &mut dyn Attach) -> Result<Handover, PortFault>;

    /// Continues after [`HandOver::hand_over`].
    fn resume(&mut self, now: Instant, engine: &mut dyn Attach);

    /// Closes the port without any effect on its peer and its files, because another process has taken it over.
    fn release(&mut self, engine: &mut dyn Attach);

    /// Continues a port of another process. Must be the first call for this port.
    ///
    /// # Errors
    /// Why the description is not valid for this port; the port must be closed then.
    fn take_over(
        &mut self,
        handover: Handover,
        now: Instant,
        engine: &mut dyn Attach,
    ) -> Result<(), PortFault>;
}

/// Why a port cannot be handed over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotHandedOver {
    /// The kind of port has no hand-over.
    #[error("ports of kind {0} cannot be handed over")]
    Kind(&'static str),
    /// The port has no peer outside of the switch: another process creates it anew, without loss.
    #[error("it is internal to the switch")]
    Internal,
    /// The port has not been created yet, and has nothing to hand over.
    #[error("it has not been created yet")]
    NotMade,
    /// A wrapper of the port cannot be handed over.
    #[error("its {0} cannot be handed over")]
    Wrapper(&'static str),
    /// An application owns the port.
    #[error("it belongs to an application")]
    Granted,
}

/// Description of a running port.
#[derive(Debug, Default)]
pub struct Handover {
    /// Parts in the order in which they take effect.
    pub parts: Vec<Part>,
}

/// One part of a description.
#[derive(Debug)]
pub struct Part {
    /// Meaning, as defined by the kind of port.
    pub tag: u8,
    /// Content.
    pub bytes: Vec<u8>,
    /// At most [`MAX_DESCRIPTORS`] descriptors.
    pub descriptors: Vec<OwnedFd>,
}

/// Maximum number of descriptors of a part.
pub const MAX_DESCRIPTORS: usize = rights::MAX_DESCRIPTORS;

/// A description could not be received.
#[derive(Debug, thiserror::Error)]
pub enum HandoverError {
    /// The other process closed the connection.
    #[error("the other process closed the connection")]
    Closed,
    /// The bytes are not a description.
    #[error("invalid description of a port: {0}")]
    Invalid(&'static str),
    /// The kernel refused a call.
    #[error("the connection failed: {0}")]
    Io(#[from] Errno),
}

impl From<ReceiveError> for HandoverError {
    fn from(error: ReceiveError) -> Self {
        match error {
            ReceiveError::Closed => Self::Closed,
            ReceiveError::Descriptors => Self::Invalid("descriptors were lost"),
            ReceiveError::Io(errno) => Self::Io(errno),
        }
    }
}

impl Handover {
    /// Adds a part.
    pub fn push(&mut self, tag: u8, bytes: Vec<u8>, descriptors: Vec<OwnedFd>) {
        self.parts.push(Part { tag, bytes, descriptors });
    }

    /// Sends the description over a blocking Unix stream socket.
    pub fn send(&self, socket: BorrowedFd<'_>) -> Result<(), HandoverError> {
        rights::send(socket, &(self.parts.len() as u32).to_le_bytes(), &[])?;
        self.parts.iter().try_for_each(|part| part.send(socket))
    }

    /// Receives a description from a blocking Unix stream socket.
    pub fn receive(socket: BorrowedFd<'_>) -> Result<Self, HandoverError> {
        let mut count = [0; 4];
        read(socket, &mut count, &mut Vec::new())?;
        let parts = (0..u32::from_le_bytes(count)).map(|_| Part::receive(socket));
        Ok(Self { parts: parts.collect::<Result<_, _>>()? })
    }
}

/// A duplicate of a descriptor, for a part.
pub(crate) fn duplicate(fd: impl AsFd) -> Result<OwnedFd, PortFault> {
    rustix::io::fcntl_dupfd_cloexec(fd, 0)
        .map_err(|errno| PortFault::BadDescriptor("duplicate", errno.to_string()))
}

/// Header of a part: tag, number of descriptors, and number of bytes.
const HEADER: usize = 6;

impl Part {
    fn send(&self, socket: BorrowedFd<'_>) -> Result<(), HandoverError> {
        let descriptors: Vec<_> = self.descriptors.iter().map(AsFd::as_fd).collect();
        let mut bytes = vec![self.tag, descriptors.len() as u8];
        bytes.extend_from_slice(&(self.bytes.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&self.bytes);
        Ok(rights::send(socket, &bytes, &descriptors)?)
    }

    fn receive(socket: BorrowedFd<'_>) -> Result<Self, HandoverError> {
        let (mut header, mut descriptors) = ([0; HEADER], Vec::new());
        read(socket, &mut header, &mut descriptors)?;
        let [tag, expected, length @ ..] = header;
        let length = u32::from_le_bytes(length) as usize;
        if length > MAX_BYTES || usize::from(expected) > MAX_DESCRIPTORS {
            return Err(HandoverError::Invalid("a part is too long"));
        }
        let mut bytes = vec![0; length];
        read(socket, &mut bytes, &mut descriptors)?;
        if descriptors.len() != usize::from(expected) {
            return Err(HandoverError::Invalid(
                "a part has another number of descriptors than its header says",
            ));
        }
        Ok(Self { tag, bytes, descriptors })
    }
}

/// Fills `to`. Its first byte has the descriptors.
fn read(socket: BorrowedFd<'_>, to: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> Result<(), HandoverError> {
    let mut have = 0;
    while have < to.len() {
        // Returns `None` only after the timeout of the socket.
        have += rights::receive(socket, &mut to[have..], descriptors)?.ok_or(Errno::TIMEDOUT)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    fn pair() -> (UnixStream, UnixStream) {
        UnixStream::pair().unwrap()
    }

    #[test]
    fn description_arrives_with_its_descriptors() {
        let (one, other) = pair();
        let mut sent = Handover::default();
        let files =
            || (0..MAX_DESCRIPTORS).map(|_| rustix::fs::memfd_create("x", rustix::fs::MemfdFlags::CLOEXEC));
        sent.push(1, b"text".to_vec(), files().collect::<Result<_, _>>().unwrap());
        sent.push(2, Vec::new(), Vec::new());
        sent.send(one.as_fd()).unwrap();
        let received = Handover::receive(other.as_fd()).unwrap();
        let shape = |h: &Handover| {
            h.parts.iter().map(|p| (p.tag, p.bytes.clone(), p.descriptors.len())).collect::<Vec<_>>()
        };
        assert_eq!(shape(&received), shape(&sent));
        let inode = |fd: &OwnedFd| rustix::fs::fstat(fd).unwrap().st_ino;
        assert_eq!(inode(&received.parts[0].descriptors[7]), inode(&sent.parts[0].descriptors[7]));
    }

    #[test]
    fn invalid_description_is_refused() {
        let cases: [(&[u8], &str); 4] = [
            (&[1, 0, 0, 0, 1, 1, 0, 0, 0, 0], "invalid description of a port: a part has another number"),
            (&[1, 0, 0, 0, 1, 9, 0, 0, 0, 0], "invalid description of a port: a part is too long"),
            (&[1, 0, 0, 0, 1, 0, 255, 255, 255, 255], "invalid description of a port: a part is too long"),
            (&[2, 0, 0], "the other process closed the connection"),
        ];
        for (bytes, expected) in cases {
            let (mut one, other) = pair();
            one.write_all(bytes).unwrap();
            drop(one);
            let error = Handover::receive(other.as_fd()).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
