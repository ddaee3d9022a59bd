//! Assembles messages from a connection.
//!
//! A read requests at most the bytes missing from the current message, so its descriptors are those received with its
//! own bytes, and unread data keeps the socket readable. The size in the header is validated before the payload is
//! read, so a message is bounded and needs no allocation.

use super::message::{Header, MAX_PAYLOAD, MessageError};
use crate::PortFault;
use crate::handover::{Handover, Part, duplicate};
use crate::socket::rights::{self, ReceiveError};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;

/// No further message can be received.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WireError {
    /// The message is invalid.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// The socket failed.
    #[error(transparent)]
    Receive(#[from] ReceiveError),
}

/// A complete message with encoded payload.
#[derive(Debug)]
pub(crate) struct Message<'a> {
    pub(crate) header: Header,
    pub(crate) payload: &'a [u8],
    pub(crate) descriptors: Vec<OwnedFd>,
}

/// Validates a header before its payload is read.
pub(crate) type Validate = fn(Header) -> Result<Header, MessageError>;

/// A message connection.
#[derive(Debug)]
pub(crate) struct Channel {
    socket: OwnedFd,
    validate: Validate,
    bytes: Box<[u8; Header::BYTES + MAX_PAYLOAD]>,
    have: usize,
    header: Option<Header>,
    descriptors: Vec<OwnedFd>,
}

impl Channel {
    /// Creates a channel over `socket`; `validate` must reject payloads larger than [`MAX_PAYLOAD`].
    pub(crate) fn new(socket: OwnedFd, validate: Validate) -> Self {
        let bytes = Box::new([0; Header::BYTES + MAX_PAYLOAD]);
        Self { socket, validate, bytes, have: 0, header: None, descriptors: Vec::new() }
    }

    /// Adds the socket and the received part of an incomplete message to a description.
    pub(crate) fn hand_over(&self, tag: u8, handover: &mut Handover) -> Result<(), PortFault> {
        let descriptors = std::iter::once(self.as_fd()).chain(self.descriptors.iter().map(AsFd::as_fd));
        let descriptors = descriptors.map(duplicate).collect::<Result<_, _>>()?;
        handover.push(tag, self.bytes[..self.have].to_vec(), descriptors);
        Ok(())
    }

    /// Continues the channel of a part of [`Channel::hand_over`]. Returns `None` if it is not one.
    pub(crate) fn take_over(part: Part, validate: Validate) -> Option<Self> {
        let mut descriptors = part.descriptors.into_iter();
        let mut channel = Self::new(descriptors.next()?, validate);
        channel.bytes.get_mut(..part.bytes.len())?.copy_from_slice(&part.bytes);
        Some(Self { have: part.bytes.len(), descriptors: descriptors.collect(), ..channel })
    }

    /// The next message. Returns `None` while it is incomplete. Blocks only if the socket does.
    pub(crate) fn receive(&mut self) -> Result<Option<Message<'_>>, WireError> {
        loop {
            let need = Header::BYTES + self.header.map_or(0, |h| h.size as usize);
            if self.have < need {
                let to = &mut self.bytes[self.have..need];
                match rights::receive(self.socket.as_fd(), to, &mut self.descriptors) {
                    Ok(Some(n)) => self.have += n,
                    Ok(None) => return Ok(None),
                    Err(error) if error.is_temporary() => return Ok(None),
                    Err(error) => return Err(error.into()),
                }
            } else if let Some(header) = self.header.take() {
                self.have = 0;
                let payload = &self.bytes[Header::BYTES..need];
                return Ok(Some(Message {
                    header,
                    payload,
                    descriptors: std::mem::take(&mut self.descriptors),
                }));
            } else {
                self.header = Some(self.validate_header()?);
            }
        }
    }

    fn validate_header(&self) -> Result<Header, MessageError> {
        let mut bytes = [0; Header::BYTES];
        bytes.copy_from_slice(&self.bytes[..Header::BYTES]);
        let header = (self.validate)(Header::decode(bytes)?)?;
        if header.size as usize > MAX_PAYLOAD {
            return Err(MessageError::Size { name: header.code.name(), size: header.size });
        }
        Ok(header)
    }

    /// Sends one message. Returns `AGAIN` if the socket is non-blocking and its send buffer is full.
    pub(crate) fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        rights::send(self.socket.as_fd(), bytes, descriptors)
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
