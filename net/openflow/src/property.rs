//! Lists of properties: type, length and a value, padded to 8 bytes (OpenFlow 1.4.1, 7.2.2 and later).

use crate::bytes::{Put, Reader};
use crate::error::ErrorCode;

/// Type and value of the next property.
pub(crate) fn read<'a>(from: &mut Reader<'a>) -> Result<(u16, Reader<'a>), ErrorCode> {
    let mut inner = from.or(ErrorCode::PropertyBadLen);
    let (kind, len) = (inner.u16()?, usize::from(inner.u16()?));
    let value = inner.take(len.checked_sub(4).ok_or(ErrorCode::PropertyBadLen)?)?;
    inner.skip_padding(len);
    from.skip(from.len() - inner.len())?;
    Ok((kind, value))
}

/// Writes a property, padded. The length does not include the padding.
pub(crate) fn write(out: &mut Vec<u8>, kind: u16, value: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.put_u16(kind);
    out.put_u16(0);
    value(out);
    out.patch_len(start, start + 2);
    out.pad(start);
}

/// Writes a property of 16 bits, which has two bytes of padding in its length.
pub(crate) fn write_u16(out: &mut Vec<u8>, kind: u16, value: u16) {
    write(out, kind, |out| {
        out.put_u16(value);
        out.put_u16(0);
    });
}

/// Writes a property of 64 bits, which are aligned.
pub(crate) fn write_u64(out: &mut Vec<u8>, kind: u16, value: u64) {
    write(out, kind, |out| {
        out.put_u32(0);
        out.put_u64(value);
    });
}
