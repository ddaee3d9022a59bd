//! Offloads of a packet after an edit: headers were added, removed or replaced.

use super::{BadOffload, Offload, TUNNEL};

/// Minimum network header (IPv4), in bytes.
const NETWORK_HEADER: usize = 20;

impl Offload {
    /// The offloads after [`Offload::spliced`] by outer headers of a tunnel, with the inner network header at
    /// `network`. Segments will repeat the outer headers. `checksum` is that of the outer headers: it is left to the
    /// output only if the payload needs no offload; otherwise it must be complete, which RFC 1071 allows because the
    /// sum of a payload with a valid checksum is known.
    ///
    /// # Errors
    /// [`BadOffload`] if the offloads are impossible.
    pub fn encapsulated(
        self,
        (at, strip, inserted): (usize, usize, usize),
        len: usize,
        (network, checksum): (u16, Option<(u16, u16)>),
    ) -> Result<Self, BadOffload> {
        let Some((start, offset)) = self.checksum() else {
            return Ok(checksum.map_or(Self::NONE, |(start, offset)| Self::with_checksum(start, offset)));
        };
        let moved = Self::with_checksum(start as u16, offset as u16).spliced((at, strip, inserted), len)?;
        if self.segmentation().is_none() {
            return Ok(moved);
        }
        if self.flags() & TUNNEL != 0 {
            return Err(BadOffload);
        }
        let (flags, start) = (self.flags() | TUNNEL, moved.word(48));
        Ok(Self::pack(flags, self.gso(), self.word(32), start, network))
    }

    /// The offloads after a splice that replaced `strip` bytes at `at` by `inserted` bytes; the packet now has `len`
    /// bytes. Offloads of a removed header, such as a tunnel's outer one, are removed.
    ///
    /// # Errors
    /// [`BadOffload`] if the remaining offloads are impossible: the splice cuts into the checksummed part, or adds a
    /// header to a packet that still needs segmentation.
    pub fn spliced(
        self,
        (at, strip, inserted): (usize, usize, usize),
        len: usize,
    ) -> Result<Self, BadOffload> {
        let is_other_header = inserted >= NETWORK_HEADER || strip >= NETWORK_HEADER;
        let Some((start, offset)) = self.checksum() else {
            return Ok(if is_other_header { Self::NONE } else { self });
        };
        let (end, field_end) = (at + strip, start + offset + 2);
        if let Some(network) = self.inner_network() {
            return self.spliced_tunnel((at, strip, inserted), network);
        }
        // Without the outer headers of a tunnel, the segments are those of the payload.
        let is_payload = end <= start && inserted < NETWORK_HEADER;
        if self.segmentation().is_some() && is_other_header && !is_payload {
            return Err(BadOffload);
        }
        let start = match () {
            () if end <= start => start + inserted - strip,
            () if at >= field_end => start,
            () if at < start && end >= field_end => return Ok(Self::NONE),
            () => return Err(BadOffload),
        };
        match u16::try_from(start) {
            Ok(start @ 1..) if usize::from(start) + offset + 2 <= len => {
                Ok(Self(self.0 & !(0xffff << 48) | u64::from(start) << 48))
            }
            _ => Err(BadOffload),
        }
    }

    /// [`Offload::spliced`] of a packet with outer headers.
    fn spliced_tunnel(
        self,
        (at, strip, inserted): (usize, usize, usize),
        network: usize,
    ) -> Result<Self, BadOffload> {
        if at + strip > network {
            return Err(BadOffload);
        }
        let moved = |word: usize| u16::try_from(word + inserted - strip).map_err(|_| BadOffload);
        let (network, start) = (moved(network)?, moved(usize::from(self.word(48)))?);
        if strip < NETWORK_HEADER {
            return Ok(Self::pack(self.flags(), self.gso(), self.word(32), start, network));
        }
        if inserted >= NETWORK_HEADER {
            return Err(BadOffload);
        }
        Ok(Self::pack(self.flags() & !TUNNEL, self.gso(), self.word(32), start, self.offset()))
    }
}
