//! Port numbers: of 16 bits in OpenFlow 1.0 and in Nicira's extensions, of 32 bits elsewhere.

use crate::bytes::{Put, Reader};
use crate::error::{EncodeError, ErrorCode};
use crate::version::Version;
use flow::PortNo;

/// Lowest reserved number.
const RESERVED: u16 = 0xff00;
/// Bits that distinguish reserved numbers of 32 bits from those of 16.
const OFFSET: u32 = 0xffff_0000;

/// The number in 32 bits.
pub(crate) fn widen(port: u16) -> PortNo {
    PortNo(if port < RESERVED { u32::from(port) } else { u32::from(port) | OFFSET })
}

/// The number in 16 bits, if it has one.
pub(crate) fn narrow(port: PortNo) -> Option<u16> {
    let narrow = port.0 as u16;
    (widen(narrow) == port).then_some(narrow)
}

/// A port, or none for [`PortNo::ANY`].
pub(crate) fn some(port: PortNo) -> Option<PortNo> {
    Some(port).filter(|port| *port != PortNo::ANY)
}

/// The number of a port, or [`PortNo::ANY`].
pub(crate) fn or_any(port: Option<PortNo>) -> PortNo {
    port.unwrap_or(PortNo::ANY)
}

/// Reads a port in the width of the version.
pub(crate) fn read(from: &mut Reader<'_>, version: Version) -> Result<PortNo, ErrorCode> {
    if version == Version::V10 { Ok(widen(from.u16()?)) } else { from.get() }
}

/// Writes a port in the width of the version.
pub(crate) fn write(out: &mut Vec<u8>, port: PortNo, version: Version) -> Result<(), EncodeError> {
    if version == Version::V10 {
        out.put_u16(narrow(port).ok_or(EncodeError::Unsupported("a port above 0xfeff"))?);
    } else {
        out.put(&port);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_ports_have_both_forms() {
        assert_eq!(
            (widen(0xfeff), widen(0xff00), widen(0xfffd)),
            (PortNo(0xfeff), PortNo::MAX, PortNo::CONTROLLER)
        );
        assert_eq!(
            (narrow(PortNo(0xff00)), narrow(PortNo(0x1_0000)), narrow(PortNo::LOCAL)),
            (None, None, Some(0xfffe))
        );
    }
}
