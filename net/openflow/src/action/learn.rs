//! `NXAST_LEARN` and `NXAST_LEARN2` (ovs-actions(7), `learn`).

use super::finish;
use super::nicira::begin_nicira;
use crate::bytes::{Put, Reader};
use crate::error::{EncodeError, ErrorCode};
use crate::oxm;
use flow::{Access, Action, Learn, LearnSpec, LearnValue, Subfield, TableId};

/// A flag of the second form only: the result is written to a bit.
const WRITE_RESULT: u16 = 4;
/// Bits of a part's header: constant as source, load and output as destination, and the width.
const CONSTANT: u16 = 1 << 13;
const LOAD: u16 = 1 << 11;
const OUTPUT: u16 = 2 << 11;
const WIDTH: u16 = 0x3ff;

pub(super) fn read(mut body: Reader<'_>, is_second: bool) -> Result<Action, ErrorCode> {
    let mut learn = read_fixed(&mut body)?;
    let allowed = if is_second { 3 | WRITE_RESULT } else { 3 };
    if learn.flags & !allowed != 0 || learn.table == TableId::ALL {
        return Err(ErrorCode::ActionBadArgument);
    }
    if is_second {
        read_second(&mut body, &mut learn)?;
    }
    while body.len() >= 2 {
        let header = body.u16()?;
        if header == 0 {
            break;
        }
        learn.specs.push(read_spec(header, &mut body)?);
    }
    if !body.rest_is_zero() {
        return Err(ErrorCode::ActionBadArgument);
    }
    Ok(Action::Learn(Box::new(learn)))
}

fn read_fixed(body: &mut Reader<'_>) -> Result<Learn, ErrorCode> {
    let (idle_timeout, hard_timeout, priority) = (body.u16()?, body.u16()?, body.u16()?);
    let (cookie, flags, table) = (body.u64()?, body.u16()?, body.get()?);
    if body.u8()? != 0 {
        return Err(ErrorCode::ActionBadArgument);
    }
    let (fin_idle_timeout, fin_hard_timeout) = (body.u16()?, body.u16()?);
    Ok(Learn {
        table,
        priority,
        cookie,
        idle_timeout,
        hard_timeout,
        fin_idle_timeout,
        fin_hard_timeout,
        flags,
        limit: 0,
        result: None,
        specs: Vec::new(),
    })
}

fn read_second(body: &mut Reader<'_>, learn: &mut Learn) -> Result<(), ErrorCode> {
    let (limit, offset, padding) = (body.u32()?, body.u16()?, body.u16()?);
    if padding != 0 {
        return Err(ErrorCode::NxActionMustBeZero);
    }
    learn.limit = limit;
    if learn.flags & WRITE_RESULT == 0 {
        return if offset == 0 { Ok(()) } else { Err(ErrorCode::ActionBadArgument) };
    }
    let part = oxm::subfield(oxm::read_field(body)?, offset, 1)?;
    if part.field.info().access != Access::Write {
        return Err(ErrorCode::ActionBadSetArgument);
    }
    learn.result = Some((part.field, part.offset));
    Ok(())
}

fn read_spec(header: u16, body: &mut Reader<'_>) -> Result<LearnSpec, ErrorCode> {
    let bits = header & WIDTH;
    let value = if header & CONSTANT == 0 {
        LearnValue::Field(read_part(body, bits)?)
    } else {
        read_constant(body, bits)?
    };
    match (header & (LOAD | OUTPUT), value) {
        (0, _) => read_target(body, bits, value).map(|(value, to)| LearnSpec::Match(value, to)),
        (LOAD, _) => read_target(body, bits, value).map(|(value, to)| LearnSpec::Load(value, to)),
        (OUTPUT, LearnValue::Field(from)) => Ok(LearnSpec::Output(from)),
        _ => Err(ErrorCode::ActionBadArgument),
    }
}

fn read_constant(body: &mut Reader<'_>, bits: u16) -> Result<LearnValue, ErrorCode> {
    if !(1..=128).contains(&bits) {
        return Err(ErrorCode::ActionBadArgument);
    }
    let value = body.uint(2 * usize::from(bits.div_ceil(16)))?;
    if bits < 128 && value >> bits != 0 {
        return Err(ErrorCode::ActionBadArgument);
    }
    Ok(LearnValue::Constant(value, bits as u8))
}

fn read_part(body: &mut Reader<'_>, bits: u16) -> Result<Subfield, ErrorCode> {
    let target = oxm::read_field(body)?;
    oxm::subfield(target, body.u16()?, bits)
}

/// Reads the destination. If it is a whole byte that stands for the DSCP, the source is cut to the DSCP.
fn read_target(
    body: &mut Reader<'_>,
    bits: u16,
    value: LearnValue,
) -> Result<(LearnValue, Subfield), ErrorCode> {
    let to = read_part(body, bits)?;
    let value = match value {
        LearnValue::Constant(value, bits) => LearnValue::Constant(value >> (bits - to.bits), to.bits),
        LearnValue::Field(from) if from.bits != to.bits => return Err(ErrorCode::ActionBadArgument),
        LearnValue::Field(_) => value,
    };
    Ok((value, to))
}

pub(super) fn write(out: &mut Vec<u8>, learn: &Learn) -> Result<(), EncodeError> {
    let is_second = learn.limit != 0 || learn.flags & WRITE_RESULT != 0;
    let start = begin_nicira(out, if is_second { 45 } else { 16 });
    for value in [learn.idle_timeout, learn.hard_timeout, learn.priority] {
        out.put_u16(value);
    }
    out.put_u64(learn.cookie);
    out.put_u16(learn.flags);
    out.put_u8(learn.table.0);
    out.put_u8(0);
    out.put_u16(learn.fin_idle_timeout);
    out.put_u16(learn.fin_hard_timeout);
    if is_second {
        write_second(out, learn)?;
    }
    learn.specs.iter().try_for_each(|spec| write_spec(out, spec))?;
    finish(out, start);
    Ok(())
}

fn write_second(out: &mut Vec<u8>, learn: &Learn) -> Result<(), EncodeError> {
    let result = learn.result.filter(|_| learn.flags & WRITE_RESULT != 0);
    out.put_u32(learn.limit);
    out.put_u16(result.map_or(0, |(_, offset)| u16::from(offset)));
    out.put_u16(0);
    if let Some((field, offset)) = result {
        write_id(out, Subfield { field, offset, bits: 1 })?;
    }
    Ok(())
}

fn write_id(out: &mut Vec<u8>, part: Subfield) -> Result<(), EncodeError> {
    let id = oxm::subfield_id(part).ok_or(EncodeError::Unsupported("a field without number"))?;
    id.write(out);
    Ok(())
}

fn write_spec(out: &mut Vec<u8>, spec: &LearnSpec) -> Result<(), EncodeError> {
    let (kind, value, to) = match *spec {
        LearnSpec::Match(value, to) => (0, value, Some(to)),
        LearnSpec::Load(value, to) => (LOAD, value, Some(to)),
        LearnSpec::Output(from) => (OUTPUT, LearnValue::Field(from), None),
    };
    let (source, bits) = match value {
        LearnValue::Field(from) => (0, from.bits),
        LearnValue::Constant(_, bits) => (CONSTANT, bits),
    };
    if to.is_some_and(|to| to.bits != bits) {
        return Err(EncodeError::Unsupported("a learned value of another width than its destination"));
    }
    out.put_u16(kind | source | u16::from(bits));
    match value {
        LearnValue::Field(from) => write_part(out, from)?,
        LearnValue::Constant(value, bits) => out.put_uint(value, 2 * usize::from(bits.div_ceil(16))),
    }
    to.map_or(Ok(()), |to| write_part(out, to))
}

fn write_part(out: &mut Vec<u8>, part: Subfield) -> Result<(), EncodeError> {
    write_id(out, part)?;
    out.put_u16(u16::from(part.offset));
    Ok(())
}
