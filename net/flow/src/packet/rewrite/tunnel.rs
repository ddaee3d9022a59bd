//! Outer headers of tunnels.

use super::{ActionError, Rewriter};
use wire::HEADER_LEN;
use wire::checksum::Sum;

/// Offsets of checksum fields in their headers.
const UDP_CHECKSUM: usize = 6;
const SCTP_CHECKSUM: usize = 8;

/// Outer headers that were added, as positions in the buffer.
#[derive(Clone, Copy)]
pub(super) struct OuterPlaces {
    /// Network header of the payload.
    pub(super) network: usize,
    /// Header from which a checksum covers everything.
    pub(super) checksum: Option<usize>,
}

impl OuterPlaces {
    /// The same for an edit, if the packet begins at `start`.
    pub(super) fn headers(&self, start: usize) -> port::OuterHeaders {
        port::OuterHeaders {
            network: (self.network - start) as u16,
            checksum: self.checksum.map(|at| ((at - start) as u16, UDP_CHECKSUM as u16)),
        }
    }
}

impl Rewriter {
    /// Replaces `strip` bytes at the start by outer headers. `checksum` is the offset of the UDP header in them if it
    /// has a checksum; that must be complete if `is_complete`, and otherwise is left to an offload.
    ///
    /// # Errors
    /// If the packet has outer headers of this pass already, or the headers grow too long.
    pub(crate) fn encapsulate(
        &mut self,
        header: &[u8],
        strip: usize,
        (checksum, is_complete): (Option<usize>, bool),
    ) -> Result<(), ActionError> {
        // A CRC cannot be completed behind a checksum that covers it.
        let is_crc = self.partial.is_some_and(|(_, offset)| offset == SCTP_CHECKSUM);
        if self.outer.is_some() || is_crc && checksum.is_some() {
            return Err(ActionError::TooLong);
        }
        let network = self.start + usize::from(self.layout().network);
        if strip > 0 {
            self.remove(0, strip);
        }
        self.prepend(header)?;
        let checksum = checksum.map(|at| self.start + at);
        self.partial = checksum.filter(|_| !is_complete).map(|at| (at, UDP_CHECKSUM));
        self.outer = Some(OuterPlaces { network, checksum });
        Ok(())
    }

    /// Removes `strip` bytes at the start, and adds an Ethernet header with this EtherType and addresses of 0 if there
    /// is one.
    ///
    /// # Errors
    /// If the head is shorter.
    pub(crate) fn decapsulate(&mut self, strip: usize, ethertype: Option<u16>) -> Result<(), ActionError> {
        if strip > self.head().len() {
            return Err(ActionError::NoHeader("complete payload"));
        }
        self.remove(0, strip);
        self.partial = self.partial.filter(|(start, _)| *start >= self.start);
        let Some(ethertype) = ethertype else { return Ok(()) };
        let mut header = [0; HEADER_LEN];
        header[12..].copy_from_slice(&ethertype.to_be_bytes());
        self.prepend(&header)
    }

    /// Sum of the packet from `strip` on, if its transport checksum is left to an offload: what the offload completes
    /// sums up to the complement of the pseudo header.
    pub(crate) fn payload_sum(&self, strip: usize) -> Option<Sum> {
        let (start, offset) = self.partial.filter(|(_, offset)| *offset != SCTP_CHECKSUM)?;
        let field: &[u8; 2] = self.bytes.get(start + offset..)?.first_chunk()?;
        let mut sum = Sum::of(self.bytes.get(self.start + strip..start)?);
        sum.add(&field.map(|byte| !byte));
        Some(sum)
    }

    /// Where the part starts whose checksum is left to an offload.
    pub(crate) fn partial_start(&self) -> Option<usize> {
        self.partial.and_then(|(start, _)| start.checked_sub(self.start))
    }

    fn prepend(&mut self, new: &[u8]) -> Result<(), ActionError> {
        let start = self.start.checked_sub(new.len()).ok_or(ActionError::TooLong)?;
        self.bytes[start..self.start].copy_from_slice(new);
        self.changed.include(0, self.start);
        self.headers.include(0, self.start);
        (self.start, self.len, self.is_stale) = (start, self.len + new.len(), true);
        Ok(())
    }
}
