//! Actions that set or copy bits of fields.

use super::{begin, finish, nicira};
use crate::bytes::{Put, Reader};
use crate::error::{EncodeError, ErrorCode};
use crate::oxm::{self, OxmId, Target};
use crate::version::Version;
use flow::{Access, Action, Field, Subfield};

/// `ONFACT_RAW13_COPY_FIELD`.
const ONF_COPY: u16 = 3200;
const NO_NUMBER: EncodeError = EncodeError::Unsupported("a field without number");

/// Offset and width of a mask that is one run of ones.
pub(crate) fn contiguous(mask: u128) -> Option<(u8, u8)> {
    let (offset, bits) = (mask.trailing_zeros(), mask.count_ones());
    let is_run = bits > 0 && 128 - offset - mask.leading_zeros() == bits;
    is_run.then_some((offset as u8, bits as u8))
}

/// Body of `OFPAT_SET_FIELD`. A mask is allowed since OpenFlow 1.5.
pub(super) fn read_set_field(mut body: Reader<'_>, version: Version) -> Result<Action, ErrorCode> {
    let mut header = body;
    if OxmId::read(&mut header)?.masked && version < Version::V15 {
        return Err(ErrorCode::ActionBadSetMask);
    }
    read_value(&mut body)
}

/// A header, a value, and a mask or none.
pub(super) fn read_value(body: &mut Reader<'_>) -> Result<Action, ErrorCode> {
    let id = OxmId::read(body)?;
    let target = id.target().filter(|target| *target != Target::Cookie);
    let target = target.ok_or_else(|| id.unknown(ErrorCode::ActionBadSetType))?;
    let (field, shift) = target.field().ok_or(ErrorCode::ActionBadSetType)?;
    let (value, mask) = oxm::read_values(body, &id, target, ErrorCode::ActionBadSetLen)?;
    let whole = u128::MAX >> (128 - 8 * target.bytes());
    let mask = mask.unwrap_or(field.full() << shift & whole);
    if value & !mask != 0 {
        return Err(ErrorCode::ActionBadSetArgument);
    }
    set_field(field, value >> shift, mask >> shift)
}

/// The action, if the field is writable and the value fits.
pub(super) fn set_field(field: Field, value: u128, mask: u128) -> Result<Action, ErrorCode> {
    if field.info().access != Access::Write || (value | mask) & !field.full() != 0 {
        return Err(ErrorCode::ActionBadSetArgument);
    }
    Ok(Action::SetField { field, value, mask })
}

/// Body of `NXAST_REG_LOAD`.
pub(super) fn read_load(mut body: Reader<'_>) -> Result<Action, ErrorCode> {
    let range = body.u16()?;
    let target = oxm::read_field(&mut body)?;
    let value = u128::from(body.u64()?);
    load(target, range, value)
}

/// Body of `NXAST_REG_LOAD2`, whose field begins directly after the subtype.
pub(super) fn read_load_2(mut body: Reader<'_>) -> Result<Action, ErrorCode> {
    let action = read_value(&mut body)?;
    if !body.rest_is_zero() {
        return Err(ErrorCode::ActionBadSetArgument);
    }
    Ok(action)
}

fn load(target: Target, range: u16, value: u128) -> Result<Action, ErrorCode> {
    let (offset, bits) = unpack(range);
    if value >> bits != 0 {
        return Err(ErrorCode::ActionBadArgument);
    }
    let part = oxm::subfield(target, offset, bits)?;
    let value = value >> (bits - u16::from(part.bits));
    set_field(part.field, value << part.offset, part.mask())
}

/// Offset and width of Nicira's `ofs_nbits`.
pub(super) fn unpack(range: u16) -> (u16, u16) {
    (range >> 6, (range & 0x3f) + 1)
}

/// Nicira's `ofs_nbits` of a part of at most 64 bits.
pub(super) fn pack(part: Subfield) -> u16 {
    u16::from(part.offset) << 6 | (u16::from(part.bits) - 1)
}

/// Writes the shortest action that sets these bits.
pub(super) fn write_set_field(
    out: &mut Vec<u8>,
    field: Field,
    value: u128,
    mask: u128,
    version: Version,
) -> Result<(), EncodeError> {
    let is_whole = mask == field.full();
    if version >= Version::V15 || version >= Version::V13 && is_whole {
        let id = OxmId::of(field, !is_whole, version).ok_or(NO_NUMBER)?;
        let start = begin(out, 25);
        write_value(out, id, field, value, mask);
        finish(out, start);
        return Ok(());
    }
    write_load(out, field, value, mask)
}

/// Writes a Nicira action that sets these bits.
pub(crate) fn write_load(
    out: &mut Vec<u8>,
    field: Field,
    value: u128,
    mask: u128,
) -> Result<(), EncodeError> {
    let part = contiguous(mask).and_then(|(offset, bits)| Subfield::new(field, offset, bits).ok());
    let is_short = |part: &Subfield| part.bits <= 64 && field.option().is_none();
    let simple = part.filter(is_short).and_then(|part| Some((part, oxm::subfield_id(part)?)));
    if let Some((part, id)) = simple.filter(|(_, id)| id.experimenter == 0) {
        nicira::put(out, 7, |out| {
            out.put_u16(pack(part));
            id.write(out);
            out.put_u64((value >> part.offset) as u64);
        });
        return Ok(());
    }
    let id = oxm::nxm_id(field, mask != field.full()).ok_or(NO_NUMBER)?;
    nicira::put(out, 33, |out| write_value(out, id, field, value, mask));
    Ok(())
}

fn write_value(out: &mut Vec<u8>, id: OxmId, field: Field, value: u128, mask: u128) {
    let bytes = oxm::written_bytes(field, value, mask);
    id.sized(bytes).write(out);
    out.put_uint(value, bytes);
    if id.masked {
        out.put_uint(mask, bytes);
    }
}

/// Body of `NXAST_DELETE_FIELD`.
pub(super) fn read_delete(mut body: Reader<'_>) -> Result<Action, ErrorCode> {
    let (field, _) = oxm::read_field(&mut body)?.field().ok_or(ErrorCode::ActionBadSetType)?;
    match () {
        () if field.option().is_none() => Err(ErrorCode::ActionBadSetType),
        () if !body.rest_is_zero() => Err(ErrorCode::ActionBadSetArgument),
        () => Ok(Action::DeleteField(field)),
    }
}

/// Body of `NXAST_REG_MOVE`.
pub(super) fn read_move(mut body: Reader<'_>) -> Result<Action, ErrorCode> {
    let (bits, from, to) = (body.u16()?, body.u16()?, body.u16()?);
    read_fields(body, bits, from, to)
}

/// Body of `OFPAT_COPY_FIELD`.
pub(super) fn read_copy(mut body: Reader<'_>) -> Result<Action, ErrorCode> {
    let (bits, from, to) = (body.u16()?, body.u16()?, body.u16()?);
    body.skip(2)?;
    read_fields(body, bits, from, to)
}

/// Body of an action of the ONF.
pub(super) fn read_onf(mut body: Reader<'_>) -> Result<Action, ErrorCode> {
    if body.u16()? != ONF_COPY {
        return Err(ErrorCode::ActionBadExperimenterType);
    }
    body.skip(2)?;
    read_copy(body)
}

fn read_fields(mut body: Reader<'_>, bits: u16, from: u16, to: u16) -> Result<Action, ErrorCode> {
    let from = oxm::subfield(oxm::read_field(&mut body)?, from, bits)?;
    let to = oxm::subfield(oxm::read_field(&mut body)?, to, bits)?;
    match () {
        () if from.bits != to.bits => Err(ErrorCode::ActionBadArgument),
        () if to.field.info().access != Access::Write => Err(ErrorCode::ActionBadSetArgument),
        () => Ok(Action::Move { from, to }),
    }
}

/// Writes a copy.
pub(crate) fn write_move(
    out: &mut Vec<u8>,
    from: Subfield,
    to: Subfield,
    version: Version,
) -> Result<(), EncodeError> {
    let ids = oxm::subfield_id(from).zip(oxm::subfield_id(to)).ok_or(NO_NUMBER)?;
    let write = |out: &mut Vec<u8>| {
        out.put_u16(u16::from(from.bits));
        out.put_u16(u16::from(from.offset));
        out.put_u16(u16::from(to.offset));
        out.put_zeros(if version >= Version::V15 { 2 } else { 0 });
        ids.0.write(out);
        ids.1.write(out);
    };
    if version >= Version::V15 {
        super::put(out, 28, write);
    } else {
        nicira::put(out, 6, write);
    }
    Ok(())
}
