//! Completes checksums of frames in private memory for receivers without checksum offload.

use crate::Offload;
use wire::Layers;
use wire::checksum::{Sum, protocol};

/// Offset of the checksum in the SCTP header, a `CRC32c` (RFC 9260 appendix A).
const SCTP_CHECKSUM: usize = 8;

/// A completed checksum field of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    /// Offset of the field in the frame.
    pub(super) at: usize,
    bytes: [u8; 4],
    len: usize,
}

impl Field {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Computes the checksum that `offload` leaves for a frame of `len` bytes, the concatenation of `parts`. The first
/// part contains the headers. Returns `None` if the checksum is outside the frame or none is left.
pub(super) fn finished(offload: Offload, parts: &[&[u8]], len: usize) -> Option<Field> {
    let (start, offset) = offload.checksum()?;
    let at = start + offset;
    let layers = Layers::of(parts.first().copied().unwrap_or_default());
    let is_crc = offset == SCTP_CHECKSUM
        && layers.is_some_and(|l| l.protocol == protocol::SCTP && l.transport == start);
    let field = if is_crc { crc32c(parts, start, at) } else { internet(parts, start, at) };
    (field.at + field.len <= len).then_some(field)
}

/// Includes the field itself, which contains the pseudo-header sum.
fn internet(parts: &[&[u8]], start: usize, at: usize) -> Field {
    let mut sum = Sum::default();
    between(parts, start, usize::MAX).for_each(|bytes| sum.add(bytes));
    let [first, last] = sum.finish_nonzero();
    Field { at, bytes: [first, last, 0, 0], len: 2 }
}

/// Computes the checksum with zeros in the field.
fn crc32c(parts: &[&[u8]], start: usize, at: usize) -> Field {
    let append = |crc, bytes: &[u8]| crc32c::crc32c_append(crc, bytes);
    let crc = between(parts, start, at).fold(0, append);
    let crc = between(parts, at + 4, usize::MAX).fold(append(crc, &[0; 4]), append);
    Field { at, bytes: crc.to_le_bytes(), len: 4 }
}

/// Bytes `from..to` of the concatenated parts.
fn between<'a>(parts: &'a [&'a [u8]], from: usize, to: usize) -> impl Iterator<Item = &'a [u8]> {
    let mut at = 0;
    parts.iter().map(move |part| {
        let within = |byte: usize| byte.saturating_sub(at).min(part.len());
        let range = within(from)..within(to);
        at += part.len();
        &part[range]
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn checksum_is_independent_of_the_split(
            bytes in prop::collection::vec(any::<u8>(), 60..300),
            cuts in prop::collection::vec(0_usize..300, 0..5),
            sctp: bool,
        ) {
            let mut frame = bytes;
            frame[12..15].copy_from_slice(&[8, 0, 0x45]);
            frame[23] = if sctp { protocol::SCTP } else { protocol::UDP };
            let offload = Offload::with_checksum(34, if sctp { 8 } else { 6 });
            let mut at = [cuts, vec![48, frame.len()]].concat();
            for cut in &mut at {
                *cut = (*cut).clamp(48, frame.len());
            }
            at.sort_unstable();
            let mut from = 0;
            let parts: Vec<&[u8]> =
                at.iter().map(|&to| &frame[std::mem::replace(&mut from, to)..to]).collect();
            let field = finished(offload, &parts, frame.len()).unwrap();
            prop_assert_eq!(Some(field), finished(offload, &[&frame], frame.len()));
            let mut whole = frame.clone();
            if sctp {
                whole[42..46].fill(0);
                prop_assert_eq!(field.bytes(), &crc32c::crc32c(&whole[34..]).to_le_bytes());
            } else {
                prop_assert_eq!(field.bytes(), &Sum::of(&whole[34..]).finish_nonzero());
            }
        }
    }

    #[test]
    fn field_beyond_the_frame_is_none() {
        let frame = [1; 60];
        assert!(finished(Offload::with_checksum(34, 24), &[&frame], 60).is_some());
        assert_eq!(finished(Offload::with_checksum(34, 25), &[&frame], 60), None);
        assert_eq!(finished(Offload::NONE, &[&frame], 60), None);
    }
}
