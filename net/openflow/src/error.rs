//! Errors of decoding and encoding, and error messages (OpenFlow 1.3.5, 7.4.4).

pub use crate::error_codes::{ErrorCode, WireError};

use crate::bytes::{Put, Reader};
use crate::error_codes::{NICIRA, ONF};
use crate::limits;
use crate::version::Version;

/// Type of experimenter errors.
const EXPERIMENTER: u16 = 0xffff;
/// Type of Nicira's vendor errors in OpenFlow 1.0.
const NICIRA_VENDOR: u16 = 0xb0c2;

/// A message that cannot be decoded. [`DecodeError::message`] is the answer for its sender.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot decode an OpenFlow message of type {}: {}", .data.get(1).copied().unwrap_or_default(), .code.name())]
pub struct DecodeError {
    /// Reason.
    pub code: ErrorCode,
    /// First bytes of the message, at most [`limits::ERROR_DATA`].
    pub data: Vec<u8>,
}

impl DecodeError {
    /// An error about `message`.
    pub fn new(code: ErrorCode, message: &[u8]) -> Self {
        Self { code, data: message[..message.len().min(limits::ERROR_DATA)].to_vec() }
    }

    /// The error message for the sender.
    pub fn message(&self, version: Version) -> ErrorMessage {
        ErrorMessage { error: self.code.wire(version), data: self.data.clone() }
    }
}

/// A message that cannot be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// The version has no encoding for a part of the message.
    #[error("cannot encode {0} in this version of OpenFlow")]
    Unsupported(&'static str),
    /// The message, or an entry of its list, has more than 65535 bytes.
    #[error("cannot encode an OpenFlow message of {0} bytes: the maximum is 65535")]
    TooLong(usize),
}

/// An error message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorMessage {
    /// Reason.
    pub error: WireError,
    /// First bytes of the message that caused the error, or text if no hello message could be agreed on.
    pub data: Vec<u8>,
}

impl ErrorMessage {
    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self, ErrorCode> {
        let (kind, code) = (from.u16()?, from.u16()?);
        let error = match (kind, code) {
            (EXPERIMENTER, code) => WireError::Experimenter(from.u32()?, code),
            (NICIRA_VENDOR, 0) => WireError::Vendor(from.u32()?, from.u16()?, from.u16()?),
            (kind, code) => WireError::Standard(kind, code),
        };
        Ok(Self { error, data: from.rest().to_vec() })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self.error {
            WireError::Standard(kind, code) => {
                out.put_u16(kind);
                out.put_u16(code);
            }
            WireError::Experimenter(vendor, code) => {
                out.put_u16(EXPERIMENTER);
                out.put_u16(code);
                out.put_u32(vendor);
            }
            WireError::Vendor(vendor, kind, code) => {
                out.put_u16(NICIRA_VENDOR);
                out.put_u16(0);
                out.put_u32(vendor);
                out.put_u16(kind);
                out.put_u16(code);
            }
        }
        out.extend_from_slice(&self.data);
    }

    /// The reason, if this crate knows it.
    pub fn code(&self, version: Version) -> Option<ErrorCode> {
        ErrorCode::from_wire(self.error, version)
    }
}

/// Whether a vendor is one whose extensions this crate knows.
pub(crate) fn is_known_vendor(vendor: u32) -> bool {
    [NICIRA, ONF].contains(&vendor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_the_numbers_of_each_version() {
        let wire = ErrorCode::FlowModTableFull;
        assert_eq!(wire.wire(Version::V10), WireError::Standard(3, 0));
        assert_eq!(wire.wire(Version::V13), WireError::Standard(5, 1));
        assert_eq!(ErrorCode::InstructionDuplicate.wire(Version::V13), WireError::Experimenter(ONF, 2600));
        assert_eq!(ErrorCode::MatchBadPrereq.wire(Version::V10), WireError::Vendor(NICIRA, 1, 260));
        assert_eq!(ErrorCode::BundleExists.wire(Version::V10), WireError::Vendor(NICIRA, 1, 521));
    }

    #[test]
    fn numbers_name_one_code_each() {
        for version in [Version::V13, Version::V14] {
            for code in ErrorCode::ALL {
                let wire = code.wire(version);
                let found = ErrorCode::from_wire(wire, version).unwrap();
                assert!(found == *code || wire == WireError::Experimenter(NICIRA, 10), "{code:?} {found:?}");
            }
        }
    }
}
