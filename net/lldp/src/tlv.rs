//! TLVs: 7 bits of type, 9 bits of length, and a value (8.4).

/// Greatest length of a value.
pub(crate) const MAX_VALUE: usize = 511;

/// A TLV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tlv<'a> {
    pub(crate) kind: u8,
    pub(crate) value: &'a [u8],
}

/// TLVs that follow each other, until the end of the LLDPDU. A TLV that is cut is `Err`, and the last item.
pub(crate) struct Tlvs<'a>(pub(crate) &'a [u8]);

/// A TLV ends behind the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut;

impl<'a> Iterator for Tlvs<'a> {
    type Item = Result<Tlv<'a>, Cut>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = std::mem::take(&mut self.0);
        let (&header, rest) = match rest.split_first_chunk::<2>() {
            Some(found) => found,
            None if rest.is_empty() => return None,
            None => return Some(Err(Cut)),
        };
        let header = u16::from_be_bytes(header);
        let (kind, length) = ((header >> 9) as u8, usize::from(header & 0x1ff));
        let Some((value, rest)) = rest.split_at_checked(length) else { return Some(Err(Cut)) };
        self.0 = rest;
        Some(Ok(Tlv { kind, value }))
    }
}

/// Appends a TLV, cut to its greatest length.
pub(crate) fn push(frame: &mut Vec<u8>, kind: u8, parts: &[&[u8]]) {
    let start = frame.len();
    frame.extend([0; 2]);
    for part in parts {
        frame.extend_from_slice(part);
    }
    frame.truncate(start + 2 + MAX_VALUE);
    let header = u16::from(kind) << 9 | (frame.len() - start - 2) as u16;
    frame[start..start + 2].copy_from_slice(&header.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tlvs_are_read_as_written_and_a_cut_one_is_the_last() {
        let mut bytes = Vec::new();
        push(&mut bytes, 5, &[b"na", b"me"]);
        push(&mut bytes, 127, &[&[7; 600]]);
        let read: Vec<_> = Tlvs(&bytes).collect();
        let expected = [Tlv { kind: 5, value: b"name" }, Tlv { kind: 127, value: &[7; MAX_VALUE] }];
        assert_eq!(read, expected.map(Ok));
        assert_eq!(Tlvs(&bytes[..5]).collect::<Vec<_>>(), [Err(Cut)]);
        assert_eq!(Tlvs(&bytes[..1]).collect::<Vec<_>>(), [Err(Cut)]);
        assert_eq!(Tlvs(&[]).next(), None);
    }
}
