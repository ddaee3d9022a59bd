//! Nicira's actions (ovs-actions(7)), which are the same in every version.

use super::field::{self, pack, unpack};
use super::{Scope, begin, ct, finish, is_default, learn, read_actions, write_actions};
use crate::bytes::{Put, Reader};
use crate::error::{EncodeError, ErrorCode};
use crate::error_codes::NICIRA;
use crate::oxm;
use crate::port_no;
use crate::version::Version;
use flow::{Action, ControllerOutput, Field, PortNo, Resubmit, Subfield, TableId};

/// Reason of a packet-in that an action causes (`OFPR_ACTION`).
const REASON_ACTION: u8 = 1;
/// The whole packet.
const WHOLE: u16 = 0xffff;

/// Reads an action after its vendor.
pub(super) fn read(mut body: Reader<'_>, scope: Scope) -> Result<Action, ErrorCode> {
    let subtype = body.u16()?;
    check_length(subtype, body.len())?;
    Ok(match subtype {
        1 => resubmit(body.u16()?, 255, false),
        2 => tunnel(u64::from(after(&mut body, 2)?.u32()?)),
        4 => Action::SetQueue(Some(after(&mut body, 2)?.u32()?)),
        5 => Action::SetQueue(None),
        6 => field::read_move(body)?,
        7 => field::read_load(body)?,
        8 => Action::Note(body.rest().into()),
        9 => tunnel(after(&mut body, 6)?.u64()?),
        14 => resubmit(body.u16()?, body.u8()?, false),
        15 => read_output(body, false)?,
        16 => learn::read(body, false)?,
        17 => Action::Exit,
        18 => Action::DecNwTtl([0].into()),
        19 => Action::FinTimeout { idle: body.u16()?, hard: body.u16()? },
        20 => read_controller(body)?,
        21 => read_dec_ttl(body)?,
        22 => read_metadata(body)?,
        23 => Action::PushMpls(super::ethertype(body.u16()?, &[0x8847, 0x8848])?),
        24 => Action::PopMpls(body.u16()?),
        25 => Action::SetMplsTtl(body.u8()?),
        26 => Action::DecMplsTtl,
        27 => Action::StackPush(read_stack(body)?),
        28 => Action::StackPop(read_stack(body)?),
        30 => field::set_field(
            Field::MplsLabel,
            u128::from(after(&mut body, 2)?.u32()?),
            Field::MplsLabel.full(),
        )?,
        31 => field::set_field(Field::MplsTc, u128::from(body.u8()?), Field::MplsTc.full())?,
        32 => read_output(body, true)?,
        33 => field::read_load_2(body)?,
        34 => read_conjunction(body)?,
        35 => ct::read(body, scope)?,
        37 => read_controller_2(body)?,
        40 => Action::Group(after(&mut body, 2)?.u32()?),
        42 => Action::Clone(read_actions(*after(&mut body, 6)?, scope.nested(false)?)?.into()),
        43 => Action::CtClear,
        44 => resubmit(body.u16()?, body.u8()?, true),
        45 => learn::read(body, true)?,
        50 => field::read_delete(body)?,
        _ => return Err(ErrorCode::ActionBadExperimenterType),
    })
}

/// Checks the number of bytes after the subtype, where it is fixed.
fn check_length(subtype: u16, len: usize) -> Result<(), ErrorCode> {
    let expected = match subtype {
        1 | 2 | 4 | 5 | 14 | 17..=20 | 23..=26 | 30 | 31 | 34 | 40 | 43 | 44 => 6,
        7 | 9 | 15 | 32 => 14,
        22 => 22,
        _ => return Ok(()),
    };
    if len == expected { Ok(()) } else { Err(ErrorCode::ActionBadLen) }
}

fn after<'a, 'b>(body: &'b mut Reader<'a>, padding: usize) -> Result<&'b mut Reader<'a>, ErrorCode> {
    body.skip(padding)?;
    Ok(body)
}

fn resubmit(in_port: u16, table: u8, ct: bool) -> Action {
    Action::Resubmit(Resubmit {
        in_port: Some(port_no::widen(in_port)).filter(|port| *port != PortNo::IN_PORT),
        table: Some(TableId(table)).filter(|table| *table != TableId::ALL),
        ct,
    })
}

fn tunnel(id: u64) -> Action {
    Action::SetField { field: Field::TunnelId, value: u128::from(id), mask: Field::TunnelId.full() }
}

/// `NXAST_OUTPUT_REG`, and the form with room for longer headers.
fn read_output(mut body: Reader<'_>, is_second: bool) -> Result<Action, ErrorCode> {
    let (offset, bits) = unpack(body.u16()?);
    let (target, max_len) = if is_second {
        let max_len = body.u16()?;
        (oxm::read_field(&mut body)?, max_len)
    } else {
        (oxm::read_field(&mut body)?, body.u16()?)
    };
    Ok(Action::OutputField { from: oxm::subfield(target, offset, bits)?, max_len })
}

fn read_controller(mut body: Reader<'_>) -> Result<Action, ErrorCode> {
    let (max_len, controller, reason) = (body.u16()?, body.u16()?, body.u8()?);
    Ok(Action::Controller(Box::new(ControllerOutput {
        max_len,
        controller,
        reason,
        userdata: Box::default(),
    })))
}

/// `NXAST_CONTROLLER2`, a list of properties.
fn read_controller_2(mut body: Reader<'_>) -> Result<Action, ErrorCode> {
    if body.bytes(6)?.iter().any(|byte| *byte != 0) {
        return Err(ErrorCode::NxRequestMustBeZero);
    }
    let mut found =
        ControllerOutput { max_len: WHOLE, controller: 0, reason: REASON_ACTION, userdata: Box::default() };
    let mut body = body.or(ErrorCode::PropertyBadLen);
    while !body.is_empty() {
        let (kind, mut value) = crate::property::read(&mut body)?;
        match kind {
            0 => found.max_len = value.u16()?,
            1 => found.controller = value.u16()?,
            2 => found.reason = value.u8()?,
            3 => found.userdata = value.rest().into(),
            _ => return Err(ErrorCode::PropertyBadType),
        }
    }
    Ok(Action::Controller(Box::new(found)))
}

fn read_dec_ttl(mut body: Reader<'_>) -> Result<Action, ErrorCode> {
    let count = body.u16()?;
    body.skip(4)?;
    let controllers: Result<Box<[u16]>, _> = (0..count).map(|_| body.u16()).collect();
    Ok(Action::DecNwTtl(controllers?))
}

/// `NXAST_WRITE_METADATA`: the metadata is set where the action stands.
fn read_metadata(mut body: Reader<'_>) -> Result<Action, ErrorCode> {
    body.skip(6)?;
    let (value, mask) = (u128::from(body.u64()?), u128::from(body.u64()?));
    field::set_field(Field::Metadata, value & mask, mask)
}

fn read_stack(mut body: Reader<'_>) -> Result<Subfield, ErrorCode> {
    let offset = body.u16()?;
    let target = oxm::read_field(&mut body)?;
    oxm::subfield(target, offset, body.u16()?)
}

fn read_conjunction(mut body: Reader<'_>) -> Result<Action, ErrorCode> {
    let (clause, clauses, id) = (body.u8()?, body.u8()?, body.u32()?);
    if clause >= clauses || !(2..=64).contains(&clauses) {
        return Err(ErrorCode::NxActionBadConjunction);
    }
    Ok(Action::Conjunction { id, clause, clauses })
}

/// Writes an action that the version has no own form of.
pub(crate) fn write(out: &mut Vec<u8>, action: &Action, version: Version) -> Result<(), EncodeError> {
    match action {
        Action::SetQueue(None) => put(out, 5, |_| ()),
        Action::OutputField { from, max_len } => return write_output(out, *from, *max_len),
        Action::Controller(controller) => write_controller(out, controller),
        Action::DecNwTtl(controllers) => write_dec_ttl(out, controllers),
        Action::DeleteField(field) => return write_delete(out, *field),
        Action::StackPush(part) => return write_stack(out, 27, *part),
        Action::StackPop(part) => return write_stack(out, 28, *part),
        Action::Resubmit(resubmit) => return write_resubmit(out, *resubmit),
        Action::Learn(learn) => return learn::write(out, learn),
        Action::Ct(tracking) => return ct::write(out, tracking, version),
        Action::CtClear => put(out, 43, |_| ()),
        Action::Conjunction { id, clause, clauses } => put(out, 34, |out| {
            out.put_u8(*clause);
            out.put_u8(*clauses);
            out.put_u32(*id);
        }),
        Action::Clone(actions) => return write_clone(out, actions, version),
        Action::Note(note) => put(out, 8, |out| out.extend_from_slice(note)),
        Action::Exit => put(out, 17, |_| ()),
        Action::FinTimeout { idle, hard } => put(out, 19, |out| {
            out.put_u16(*idle);
            out.put_u16(*hard);
        }),
        Action::Meter(_) => return Err(EncodeError::Unsupported("a meter as an action")),
        _ => return Err(EncodeError::Unsupported("an action")),
    }
    Ok(())
}

/// Writes an action of Nicira, padded.
pub(crate) fn put(out: &mut Vec<u8>, subtype: u16, body: impl FnOnce(&mut Vec<u8>)) {
    let start = begin_nicira(out, subtype);
    body(out);
    finish(out, start);
}

/// Writes the header of an action of Nicira; returns its start.
pub(super) fn begin_nicira(out: &mut Vec<u8>, subtype: u16) -> usize {
    let start = begin(out, super::EXPERIMENTER);
    out.put_u32(NICIRA);
    out.put_u16(subtype);
    start
}

/// Writes an instruction on metadata as an action, for OpenFlow 1.0.
pub(crate) fn write_metadata(out: &mut Vec<u8>, value: u64, mask: u64) {
    put(out, 22, |out| {
        out.put_zeros(6);
        out.put_u64(value);
        out.put_u64(mask);
    });
}

fn write_output(out: &mut Vec<u8>, from: Subfield, max_len: u16) -> Result<(), EncodeError> {
    let id = oxm::subfield_id(from).ok_or(EncodeError::Unsupported("a field without number"))?;
    if from.bits > 64 {
        return Err(EncodeError::Unsupported("an output port of more than 64 bits"));
    }
    if id.experimenter == 0 {
        put(out, 15, |out| {
            out.put_u16(pack(from));
            id.write(out);
            out.put_u16(max_len);
            out.put_zeros(6);
        });
    } else {
        put(out, 32, |out| {
            out.put_u16(pack(from));
            out.put_u16(max_len);
            id.write(out);
            out.put_zeros(2);
        });
    }
    Ok(())
}

fn write_controller(out: &mut Vec<u8>, to: &ControllerOutput) {
    if to.userdata.is_empty() {
        put(out, 20, |out| {
            out.put_u16(to.max_len);
            out.put_u16(to.controller);
            out.put_u8(to.reason);
        });
        return;
    }
    put(out, 37, |out| {
        out.put_zeros(6);
        if to.max_len != WHOLE {
            crate::property::write_u16(out, 0, to.max_len);
        }
        if to.controller != 0 {
            crate::property::write_u16(out, 1, to.controller);
        }
        if to.reason != REASON_ACTION {
            crate::property::write(out, 2, |out| out.put_u8(to.reason));
        }
        crate::property::write(out, 3, |out| out.extend_from_slice(&to.userdata));
    });
}

fn write_dec_ttl(out: &mut Vec<u8>, controllers: &[u16]) {
    if is_default(controllers) {
        return put(out, 18, |_| ());
    }
    put(out, 21, |out| {
        out.put_u16(controllers.len() as u16);
        out.put_zeros(4);
        for controller in controllers {
            out.put_u16(*controller);
        }
    });
}

fn write_delete(out: &mut Vec<u8>, field: Field) -> Result<(), EncodeError> {
    let id = oxm::nxm_id(field, false).ok_or(EncodeError::Unsupported("a field without number"))?;
    put(out, 50, |out| {
        id.write(out);
        out.put_zeros(8);
    });
    Ok(())
}

fn write_stack(out: &mut Vec<u8>, subtype: u16, part: Subfield) -> Result<(), EncodeError> {
    let id = oxm::subfield_id(part).ok_or(EncodeError::Unsupported("a field without number"))?;
    put(out, subtype, |out| {
        out.put_u16(u16::from(part.offset));
        id.write(out);
        out.put_u16(u16::from(part.bits));
        out.put_zeros(if id.experimenter == 0 { 6 } else { 2 });
    });
    Ok(())
}

/// Writes the form that OpenFlow 1.0 without tables knows where it suffices.
pub(crate) fn write_resubmit(out: &mut Vec<u8>, to: Resubmit) -> Result<(), EncodeError> {
    let port = port_no::narrow(to.in_port.unwrap_or(PortNo::IN_PORT));
    let port = port.ok_or(EncodeError::Unsupported("an ingress port above 0xfeff"))?;
    let subtype = match (to.table, to.ct) {
        (_, true) => 44,
        (Some(_), _) => 14,
        (None, _) => 1,
    };
    put(out, subtype, |out| {
        out.put_u16(port);
        out.put_u8(
            to.table.filter(|_| subtype != 1).map_or(if subtype == 1 { 0 } else { 255 }, |table| table.0),
        );
    });
    Ok(())
}

fn write_clone(out: &mut Vec<u8>, actions: &[Action], version: Version) -> Result<(), EncodeError> {
    let start = begin_nicira(out, 42);
    out.put_zeros(6);
    write_actions(out, actions, version)?;
    finish(out, start);
    Ok(())
}
