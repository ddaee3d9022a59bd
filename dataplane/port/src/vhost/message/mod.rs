//! vhost-user wire format, for front end and back end.
//!
//! A message is a [`Header`], a payload whose format depends on its [`Code`], and file descriptors. This module
//! converts between bytes and [`Request`] or [`Reply`], and rejects invalid sizes and descriptor counts. It has no
//! socket and no state; the session checks whether a message is valid in its current state. All numbers are in native
//! byte order (vhost-user specification, "Message Specification").

mod code;
mod features;
mod payload;
mod request;

pub use code::Code;
pub use features::{ProtocolFeatures, feature_names};
pub use payload::{LogArea, StateTransfer, VringAddress, VringFile, VringState};
pub use request::{Reply, Request};

pub use crate::socket::rights::MAX_DESCRIPTORS;
/// Maximum number of regions in one `SET_MEM_TABLE`.
pub const MAX_TABLE: usize = 8;
/// Maximum payload size of supported messages, in bytes: a full `SET_MEM_TABLE`.
pub const MAX_PAYLOAD: usize = 8 + 32 * MAX_TABLE;

const VERSION: u32 = 1;
const VERSION_MASK: u32 = 3;
const REPLY: u32 = 1 << 2;
const NEED_REPLY: u32 = 1 << 3;

/// Invalid message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// Unknown message type.
    #[error("request {0} does not exist")]
    UnknownRequest(u32),
    /// The flags are invalid for this kind of message.
    #[error("{0} carries the flags {1:#x}, which no message of this direction has")]
    Flags(&'static str, u32),
    /// The payload size is invalid for this message.
    #[error("{name} has a payload of {size} bytes, which it never has")]
    Size {
        /// Message name.
        name: &'static str,
        /// Payload size in the header, in bytes.
        size: u32,
    },
    /// The number of descriptors is invalid for this message.
    #[error("{name} came with {got} descriptors instead of {want}")]
    Descriptors {
        /// Message name.
        name: &'static str,
        /// Number of descriptors received.
        got: usize,
        /// Expected number of descriptors.
        want: usize,
    },
    /// The memory table exceeds the protocol limit.
    #[error("SET_MEM_TABLE names {0} regions; at most {MAX_TABLE} are allowed")]
    TooManyRegions(u32),
    /// The message belongs to a feature that is not supported.
    #[error("{0} belongs to a feature that was not offered")]
    NotOffered(&'static str),
}

/// Message header, 12 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Message type.
    pub code: Code,
    /// Whether this is a reply.
    pub reply: bool,
    /// Whether the sender requests a reply to a message without one (`REPLY_ACK`).
    pub need_reply: bool,
    /// Payload size in bytes.
    pub size: u32,
}

impl Header {
    /// Size of a header, in bytes.
    pub const BYTES: usize = 12;

    /// Creates a request header.
    pub const fn request(code: Code, need_reply: bool, size: u32) -> Self {
        Self { code, reply: false, need_reply, size }
    }

    /// Decodes a header and checks all that does not depend on the payload.
    pub fn decode(bytes: [u8; Self::BYTES]) -> Result<Self, MessageError> {
        let [code, flags, size] = words(bytes);
        let code = Code::from_number(code).ok_or(MessageError::UnknownRequest(code))?;
        if flags & VERSION_MASK != VERSION || flags & !(VERSION_MASK | REPLY | NEED_REPLY) != 0 {
            return Err(MessageError::Flags(code.name(), flags));
        }
        Ok(Self { code, reply: flags & REPLY != 0, need_reply: flags & NEED_REPLY != 0, size })
    }

    /// Encodes the header.
    pub fn encode(self) -> [u8; Self::BYTES] {
        let mut flags = VERSION;
        flags |= if self.reply { REPLY } else { 0 };
        flags |= if self.need_reply { NEED_REPLY } else { 0 };
        let mut bytes = [0; Self::BYTES];
        for (at, word) in [self.code as u32, flags, self.size].into_iter().enumerate() {
            bytes[4 * at..4 * at + 4].copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// Validation for back ends: not a reply, and a valid size for this request.
    pub fn expect_request(self) -> Result<Self, MessageError> {
        if self.reply {
            return Err(MessageError::Flags(self.code.name(), REPLY));
        }
        Request::check_size(self.code, self.size)?;
        Ok(self)
    }

    /// Validation for front ends: a reply of the fixed reply size.
    pub fn expect_reply(self) -> Result<Self, MessageError> {
        if !self.reply {
            return Err(MessageError::Flags(self.code.name(), VERSION));
        }
        if self.size != Reply::BYTES {
            return Err(MessageError::Size { name: self.code.name(), size: self.size });
        }
        Ok(self)
    }
}

fn words(bytes: [u8; Header::BYTES]) -> [u32; 3] {
    let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    [word(0), word(4), word(8)]
}

#[cfg(test)]
mod tests;
