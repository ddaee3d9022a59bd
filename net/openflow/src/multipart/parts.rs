//! Headers of multipart messages, and the division of long lists into messages.

use crate::bytes::{Put, Reader};
use crate::error::{EncodeError, ErrorCode};
use crate::error_codes::NICIRA;
use crate::limits;
use crate::version::Version;

/// Position of the flags in a message.
const FLAGS: usize = 10;
/// More messages follow.
const MORE: u16 = 1;
/// Type of experimenter messages.
const EXPERIMENTER: u16 = 0xffff;

/// Type of a multipart message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Number of the specification.
    Standard(u16),
    /// Experimenter, and its number.
    Experimenter(u32, u32),
}

/// Reads type and flags.
pub(crate) fn read_header(from: &mut Reader<'_>, version: Version) -> Result<(Kind, bool), ErrorCode> {
    let (kind, flags) = (from.u16()?, from.u16()?);
    let is_old = version == Version::V10;
    from.skip(if is_old { 0 } else { 4 })?;
    if kind != EXPERIMENTER {
        return Ok((Kind::Standard(kind), flags & MORE != 0));
    }
    let experimenter = from.u32()?;
    let kind = match (is_old, experimenter) {
        (true, NICIRA) => {
            let subtype = from.u32()?;
            from.skip(4)?;
            subtype
        }
        (true, _) => 0,
        (false, _) => from.u32()?,
    };
    Ok((Kind::Experimenter(experimenter, kind), flags & MORE != 0))
}

/// Writes messages of one kind. The header of the first one is copied to the others.
pub(crate) struct Parts<'a> {
    pub(crate) out: &'a mut Vec<u8>,
    /// Start of the current message, and length of its headers.
    start: usize,
    head: usize,
}

impl<'a> Parts<'a> {
    /// Continues the message whose header starts at `start`.
    pub(crate) fn new(out: &'a mut Vec<u8>, start: usize, kind: Kind, version: Version) -> Self {
        let is_old = version == Version::V10;
        let number = match kind {
            Kind::Standard(number) => number,
            Kind::Experimenter(..) => EXPERIMENTER,
        };
        out.put_u16(number);
        out.put_zeros(if is_old { 2 } else { 6 });
        if let Kind::Experimenter(experimenter, subtype) = kind {
            out.put_u32(experimenter);
            if !is_old || experimenter == NICIRA {
                out.put_u32(subtype);
            }
            out.put_zeros(if is_old && experimenter == NICIRA { 4 } else { 0 });
        }
        let head = out.len() - start;
        Self { out, start, head }
    }

    /// Writes an entry, in a further message if it does not fit in the current one.
    pub(crate) fn entry(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        let at = self.out.len();
        write(self.out)?;
        if self.out.len() - self.start <= limits::MESSAGE {
            return Ok(());
        }
        let entry = self.out.split_off(at);
        let head = self.out[self.start..self.start + self.head].to_vec();
        if head.len() + entry.len() > limits::MESSAGE {
            return Err(EncodeError::TooLong(head.len() + entry.len()));
        }
        self.close(true);
        self.start = self.out.len();
        self.out.extend(head);
        self.out.extend(entry);
        Ok(())
    }

    /// Ends the last message.
    pub(crate) fn finish(mut self, more: bool) -> Result<(), EncodeError> {
        let len = self.out.len() - self.start;
        if len > limits::MESSAGE {
            return Err(EncodeError::TooLong(len));
        }
        self.close(more);
        Ok(())
    }

    fn close(&mut self, more: bool) {
        let at = self.start + FLAGS;
        self.out[at..at + 2].copy_from_slice(&(u16::from(more) * MORE).to_be_bytes());
        self.out.patch_len(self.start, self.start + 2);
    }
}
