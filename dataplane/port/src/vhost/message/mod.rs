//! The vhost-user wire format, for both ends.
//!
//! A message is a [`Header`], a payload whose shape its [`Code`] decides, and descriptors beside it. This module
//! turns bytes into a [`Request`] or a [`Reply`] and back, and refuses what has the wrong size or the wrong
//! number of descriptors. It owns no socket and no state, and it never judges whether a message fits the moment:
//! that is the session's part. All numbers are in the machine's byte order (vhost-user specification, "Message
//! Specification").

mod code;
mod features;
mod payload;
mod request;

pub use code::Code;
pub use features::{ProtocolFeatures, feature_names};
pub use payload::{VringAddress, VringFile, VringState};
pub use request::{Reply, Request};

pub use crate::socket::rights::MAX_DESCRIPTORS;
/// Most regions that one `SET_MEM_TABLE` may name.
pub const MAX_TABLE: usize = 8;
/// Bytes of the longest payload that any message of ours has: a full `SET_MEM_TABLE`.
pub const MAX_PAYLOAD: usize = 8 + 32 * MAX_TABLE;

const VERSION: u32 = 1;
const VERSION_MASK: u32 = 3;
const REPLY: u32 = 1 << 2;
const NEED_REPLY: u32 = 1 << 3;

/// Why bytes are no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// No message has this number.
    #[error("request {0} does not exist")]
    UnknownRequest(u32),
    /// The flags are not those of this kind of message.
    #[error("{0} carries the flags {1:#x}, which no message of this direction has")]
    Flags(&'static str, u32),
    /// The payload is not as long as this message's is.
    #[error("{name} has a payload of {size} bytes, which it never has")]
    Size {
        /// The message.
        name: &'static str,
        /// The size its header states.
        size: u32,
    },
    /// More or fewer descriptors than the message needs.
    #[error("{name} came with {got} descriptors instead of {want}")]
    Descriptors {
        /// The message.
        name: &'static str,
        /// How many came.
        got: usize,
        /// How many it has.
        want: usize,
    },
    /// A table longer than the protocol allows.
    #[error("SET_MEM_TABLE names {0} regions; at most {MAX_TABLE} are allowed")]
    TooManyRegions(u32),
    /// The message belongs to a feature that this project does not speak.
    #[error("{0} belongs to a feature that was not offered")]
    NotOffered(&'static str),
}

/// The twelve bytes in front of every payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Which message.
    pub code: Code,
    /// Whether it answers a request.
    pub reply: bool,
    /// Whether the sender wants an answer even where the message has none (`REPLY_ACK`).
    pub need_reply: bool,
    /// Bytes of the payload.
    pub size: u32,
}

impl Header {
    /// Bytes of a header.
    pub const BYTES: usize = 12;

    /// The header of a request.
    pub const fn request(code: Code, need_reply: bool, size: u32) -> Self {
        Self { code, reply: false, need_reply, size }
    }

    /// Reads a header and checks everything in it that does not depend on the payload.
    pub fn decode(bytes: [u8; Self::BYTES]) -> Result<Self, MessageError> {
        let [code, flags, size] = words(bytes);
        let code = Code::from_number(code).ok_or(MessageError::UnknownRequest(code))?;
        if flags & VERSION_MASK != VERSION || flags & !(VERSION_MASK | REPLY | NEED_REPLY) != 0 {
            return Err(MessageError::Flags(code.name(), flags));
        }
        Ok(Self { code, reply: flags & REPLY != 0, need_reply: flags & NEED_REPLY != 0, size })
    }

    /// The bytes of this header.
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

    /// As a back end reads it: no answers, and a size that this request can have.
    pub fn expect_request(self) -> Result<Self, MessageError> {
        if self.reply {
            return Err(MessageError::Flags(self.code.name(), REPLY));
        }
        Request::check_size(self.code, self.size)?;
        Ok(self)
    }

    /// As a front end reads it: an answer, and of the one size that answers have.
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
