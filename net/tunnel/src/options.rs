//! Options of Geneve (RFC 8926 section 3.5).

use crate::Malformed;

/// An option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeneveOption<'a> {
    /// Option class.
    pub class: u16,
    /// Type, with the critical bit.
    pub kind: u8,
    /// Data; a multiple of 4 bytes, at most 124.
    pub data: &'a [u8],
}

impl GeneveOption<'_> {
    /// Whether a receiver that does not know the option must drop the packet.
    pub const fn is_critical(&self) -> bool {
        self.kind & 0x80 != 0
    }
}

/// Class, type and length, and the data as a number.
impl std::fmt::Display for GeneveOption<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { class, kind, data } = self;
        write!(f, "{{class={class:#x},type={kind:#x},len={},0x", data.len())?;
        data.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str("}")
    }
}

/// The options of a header; an error ends them.
pub fn geneve_options(mut bytes: &[u8]) -> impl Iterator<Item = Result<GeneveOption<'_>, Malformed>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let option = first(bytes);
        bytes = option.as_ref().map_or(&[], |(_, rest)| rest);
        Some(option.map(|(option, _)| option))
    })
}

fn first(bytes: &[u8]) -> Result<(GeneveOption<'_>, &[u8]), Malformed> {
    let (header, rest) = bytes.split_first_chunk::<4>().ok_or(Malformed::Options)?;
    let (data, rest) = rest.split_at_checked(usize::from(header[3] & 0x1f) * 4).ok_or(Malformed::Options)?;
    Ok((GeneveOption { class: u16::from_be_bytes([header[0], header[1]]), kind: header[2], data }, rest))
}
