//! OXM and NXM headers (OpenFlow 1.3.5, 7.2.3.2; ovs-fields(7)).

use crate::bytes::{Put, Reader};
use crate::error::ErrorCode;
use crate::error_codes::ONF;
use crate::version::Version;
use flow::{Class, Field, Oxm, Subfield};

const EXPERIMENTER: u16 = 0xffff;
/// `NXM_NX_COOKIE`, which is no field of a packet. `NXM_NX_MPLS_TTL` has the same number and one byte.
const COOKIE: u8 = 30;
/// `NXM_OF_IP_TOS`: the DSCP and two bits of 0.
const IP_TOS: u8 = 5;
/// `NXM_OF_IN_PORT`, of 16 bits.
const IN_PORT: Oxm = Oxm { class: Class::Nxm0, number: 0 };
/// `OXM_OF_TCP_FLAGS` and `OXM_OF_ACTSET_OUTPUT` of OpenFlow 1.5, which are experimenter fields before.
const FIRST_OF_15: u8 = 42;
/// Numbers of `NXM_NX_TUN_METADATA0` to `63`.
const OPTIONS: std::ops::Range<u8> = 40..104;

/// Header of a field without its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OxmId {
    /// Number space.
    pub class: u16,
    /// Number, of 7 bits.
    pub number: u8,
    /// Whether a mask follows the value.
    pub masked: bool,
    /// Bytes of value and mask.
    pub len: u8,
    /// Experimenter if the class is 0xffff.
    pub experimenter: u32,
}

/// Field that a header names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A field, with the width of [`Field::bytes`].
    Field(Field),
    /// The ingress port in 16 bits.
    InPort16,
    /// The DSCP shifted by two bits.
    Tos,
    /// The cookie of flows that a message selects.
    Cookie,
}

impl Target {
    /// Bytes of the value.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Field(field) => field.bytes(),
            Self::InPort16 => 2,
            Self::Tos => 1,
            Self::Cookie => 8,
        }
    }

    /// Whether values may have any length: those of options of tunnels, whose lengths the map of a switch says.
    pub(crate) fn is_variable(self) -> bool {
        matches!(self, Self::Field(field) if field.option().is_some())
    }

    /// The field, and the shift of its value.
    pub(crate) fn field(self) -> Option<(Field, u8)> {
        match self {
            Self::Field(field) => Some((field, 0)),
            Self::InPort16 => Some((Field::InPort, 0)),
            Self::Tos => Some((Field::IpDscp, 2)),
            Self::Cookie => None,
        }
    }
}

impl OxmId {
    /// Header of a field in OXM, or in NXM if it has none there.
    pub fn of(field: Field, masked: bool, version: Version) -> Option<Self> {
        let mut oxm = field.info().oxm.or(field.info().nxm)?;
        if version >= Version::V15 && oxm.class == Class::Onf {
            oxm.class = Class::Basic;
        }
        Some(Self::new(oxm, field.bytes(), masked))
    }

    fn new(oxm: Oxm, bytes: usize, masked: bool) -> Self {
        let (class, experimenter) = match oxm.class {
            Class::Nxm0 => (0, 0),
            Class::Nxm1 => (1, 0),
            Class::Basic => (0x8000, 0),
            Class::PacketRegs => (0x8001, 0),
            Class::Onf => (EXPERIMENTER, ONF),
        };
        let len = (bytes << u8::from(masked)) as u8;
        Self { class, number: oxm.number, masked, len, experimenter }
    }

    /// The field, if this crate knows it.
    pub fn field(&self) -> Option<Field> {
        self.target().and_then(Target::field).map(|(field, _)| field)
    }

    pub(crate) fn target(&self) -> Option<Target> {
        let class = match (self.class, self.experimenter) {
            (0, _) if self.number == IN_PORT.number => return Some(Target::InPort16),
            (0, _) if self.number == IP_TOS => return Some(Target::Tos),
            (1, _) if self.number == COOKIE && self.len >= 8 => return Some(Target::Cookie),
            (0, _) => Class::Nxm0,
            (1, _) => Class::Nxm1,
            (0x8000, _) if self.number >= FIRST_OF_15 => Class::Onf,
            (0x8000, _) => Class::Basic,
            (0x8001, _) => Class::PacketRegs,
            (EXPERIMENTER, ONF) => Class::Onf,
            _ => return None,
        };
        Field::from_oxm(Oxm { class, number: self.number }).map(Target::Field)
    }

    /// Why a header without a known field is refused: with `other`, unless it is an option beyond [`Field::OPTIONS`].
    pub(crate) fn unknown(&self, other: ErrorCode) -> ErrorCode {
        let is_option = self.class == 1 && OPTIONS.contains(&self.number);
        if is_option { ErrorCode::InvalidTlvField } else { other }
    }

    /// The header for values of `bytes` bytes.
    pub(crate) fn sized(self, bytes: usize) -> Self {
        Self { len: (bytes << u8::from(self.masked)) as u8, ..self }
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self, ErrorCode> {
        let [high, low, number, len] = from.array()?;
        let class = u16::from_be_bytes([high, low]);
        let mut id = Self { class, number: number >> 1, masked: number & 1 != 0, len, experimenter: 0 };
        if class == EXPERIMENTER {
            id.experimenter = from.u32()?;
            id.len = len.checked_sub(4).ok_or(ErrorCode::MatchBadLen)?;
        }
        Ok(id)
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let is_experimenter = self.class == EXPERIMENTER;
        out.put_u16(self.class);
        out.put_u8(self.number << 1 | u8::from(self.masked));
        out.put_u8(self.len.saturating_add(if is_experimenter { 4 } else { 0 }));
        if is_experimenter {
            out.put_u32(self.experimenter);
        }
    }
}

/// Header in the form that Nicira's actions and messages prefer.
pub(crate) fn nxm_id(field: Field, masked: bool) -> Option<OxmId> {
    let oxm = field.info().nxm.or(field.info().oxm)?;
    let oxm = if field == Field::InPort { field.info().oxm? } else { oxm };
    Some(OxmId::new(oxm, field.bytes(), masked))
}

/// Header of the ingress port in 16 bits.
pub(crate) fn in_port_16(masked: bool) -> OxmId {
    OxmId::new(IN_PORT, 2, masked)
}

/// Header of the DSCP in the byte of which it is a part.
pub(crate) fn ip_tos() -> OxmId {
    OxmId::new(Oxm { class: Class::Nxm0, number: IP_TOS }, 1, false)
}

/// Header of the cookie.
pub(crate) fn cookie(masked: bool) -> OxmId {
    OxmId::new(Oxm { class: Class::Nxm1, number: COOKIE }, 8, masked)
}

/// Reads the header of a field in an action.
pub(crate) fn read_field(from: &mut Reader<'_>) -> Result<Target, ErrorCode> {
    let id = OxmId::read(from)?;
    let target = id.target().filter(|target| *target != Target::Cookie);
    let target = target.ok_or_else(|| id.unknown(ErrorCode::ActionBadSetType))?;
    match () {
        () if id.masked => Err(ErrorCode::ActionBadSetMask),
        () if usize::from(id.len) != target.bytes() && !target.is_variable() => {
            Err(ErrorCode::ActionBadSetLen)
        }
        () => Ok(target),
    }
}

/// Reads the value after a header, and the mask if there is one. Of a field without a fixed length, bytes that are
/// left out in front are 0, and those beyond the field must be 0. Another length is refused with `bad`.
pub(crate) fn read_values(
    from: &mut Reader<'_>,
    id: &OxmId,
    target: Target,
    bad: ErrorCode,
) -> Result<(u128, Option<u128>), ErrorCode> {
    let (parts, bytes) = (1 + usize::from(id.masked), target.bytes());
    let len = usize::from(id.len) / parts;
    if len * parts != usize::from(id.len) || len != bytes && !target.is_variable() {
        return Err(bad);
    }
    let mut one = || {
        let excess = len.saturating_sub(bytes);
        let is_zero = from.bytes(excess)?.iter().all(|byte| *byte == 0);
        if is_zero { from.uint(len - excess) } else { Err(bad) }
    };
    Ok((one()?, if id.masked { Some(one()?) } else { None }))
}

/// Bytes in which a value and its mask are written. Options have as many as they need, a multiple of 4: their lengths
/// are not known here, and receivers add the bytes in front.
pub(crate) fn written_bytes(field: Field, value: u128, mask: u128) -> usize {
    if field.option().is_none() {
        return field.bytes();
    }
    let bits = if mask == field.full() { value } else { value | mask };
    let bytes = (128 - bits.leading_zeros()).div_ceil(8) as usize;
    bytes.next_multiple_of(4).max(4)
}

/// `bits` bits of a field from `offset`, both as in messages.
///
/// `NXM_OF_IN_PORT` is the lower half of the ingress port. Of `NXM_OF_IP_TOS`, only the bits of the DSCP can be named,
/// or all 8 bits, which stand for the DSCP.
pub(crate) fn subfield(target: Target, offset: u16, bits: u16) -> Result<Subfield, ErrorCode> {
    let (field, shift) = target.field().ok_or(ErrorCode::ActionBadSetType)?;
    let (offset, bits) = match (target, offset, bits) {
        (Target::Tos, 0, 8) => (0, 6),
        (Target::Tos, ..) => {
            (offset.checked_sub(u16::from(shift)).ok_or(ErrorCode::ActionBadSetArgument)?, bits)
        }
        (Target::InPort16, ..) if offset + bits > 16 => return Err(ErrorCode::ActionBadSetLen),
        _ => (offset, bits),
    };
    let (offset, bits) =
        u8::try_from(offset).ok().zip(u8::try_from(bits).ok()).ok_or(ErrorCode::ActionBadSetLen)?;
    Subfield::new(field, offset, bits).map_err(|_| ErrorCode::ActionBadSetLen)
}

/// Header for a part of a field in an action.
pub(crate) fn subfield_id(part: Subfield) -> Option<OxmId> {
    if part.field == Field::InPort && part.offset + part.bits <= 16 {
        return Some(in_port_16(false));
    }
    nxm_id(part.field, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_those_of_the_specifications() {
        let bytes = |id: OxmId| {
            let mut out = Vec::new();
            id.write(&mut out);
            out
        };
        let of = |field, masked| bytes(OxmId::of(field, masked, Version::V13).unwrap());
        assert_eq!(of(Field::InPort, false), [0x80, 0, 0, 4]);
        assert_eq!(of(Field::Ipv6Src, true), [0x80, 0, 0x35, 32]);
        assert_eq!(of(Field::MplsLabel, false), [0x80, 0, 0x44, 4]);
        assert_eq!(of(Field::TcpFlags, true), [0xff, 0xff, 0x55, 8, 0x4f, 0x4e, 0x46, 0]);
        assert_eq!(bytes(OxmId::of(Field::TcpFlags, false, Version::V15).unwrap()), [0x80, 0, 0x54, 2]);
        assert_eq!(bytes(in_port_16(false)), [0, 0, 0, 2]);
        assert_eq!(bytes(cookie(true)), [0, 1, 0x3d, 16]);
        assert_eq!(bytes(nxm_id(Field::CtMark, false).unwrap()), [0, 1, 0xd6, 4]);
    }

    #[test]
    fn every_header_names_its_field() {
        for version in Version::ALL {
            for &field in Field::ALL {
                for id in [OxmId::of(field, true, version), nxm_id(field, true)].into_iter().flatten() {
                    assert_eq!(id.target(), Some(Target::Field(field)), "{id:?}");
                }
            }
        }
    }

    #[test]
    fn parts_of_the_special_fields_are_mapped() {
        let dscp = |offset, bits| Subfield::new(Field::IpDscp, offset, bits).unwrap();
        assert_eq!(subfield(Target::Tos, 0, 8), Ok(dscp(0, 6)));
        assert_eq!(subfield(Target::Tos, 2, 3), Ok(dscp(0, 3)));
        assert_eq!(subfield(Target::Tos, 1, 3), Err(ErrorCode::ActionBadSetArgument));
        assert_eq!(subfield(Target::InPort16, 8, 9), Err(ErrorCode::ActionBadSetLen));
        assert_eq!(subfield(Target::Cookie, 0, 1), Err(ErrorCode::ActionBadSetType));
    }
}
