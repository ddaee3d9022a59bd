//! Instructions (OpenFlow 1.3.5, 7.2.4), and the list of actions in their place in OpenFlow 1.0.

use crate::action::{self, Scope};
use crate::bytes::{Put, Reader};
use crate::error::{EncodeError, ErrorCode};
use crate::v10;
use crate::version::Version;
use flow::{Action, Instructions, TableId};

const GOTO: u16 = 1;
const METADATA: u16 = 2;
const WRITE: u16 = 3;
const APPLY: u16 = 4;
const CLEAR: u16 = 5;
const METER: u16 = 6;
const EXPERIMENTER: u16 = 0xffff;

/// Reads instructions until the end.
pub(crate) fn read_instructions(from: Reader<'_>, scope: Scope) -> Result<Instructions, ErrorCode> {
    let mut found = Instructions::default();
    if scope.version == Version::V10 {
        found.apply = action::read_actions(from, scope)?;
        return Ok(found);
    }
    let mut from = from.or(ErrorCode::InstructionBadLen);
    let mut seen = 0_u8;
    while !from.is_empty() {
        let (kind, len) = (from.u16()?, usize::from(from.u16()?));
        if len < 8 || len % 8 != 0 {
            return Err(ErrorCode::InstructionBadLen);
        }
        let body = from.take(len - 4)?;
        let bit = if kind <= METER { 1 << kind } else { 0 };
        if seen & bit != 0 {
            return Err(ErrorCode::InstructionDuplicate);
        }
        seen |= bit;
        read_instruction(kind, body, scope, &mut found)?;
    }
    Ok(found)
}

fn read_instruction(
    kind: u16,
    mut body: Reader<'_>,
    scope: Scope,
    found: &mut Instructions,
) -> Result<(), ErrorCode> {
    let has_length = match kind {
        GOTO | CLEAR | METER => body.len() == 4,
        METADATA => body.len() == 20,
        _ => true,
    };
    if !has_length {
        return Err(ErrorCode::InstructionBadLen);
    }
    match kind {
        GOTO => found.goto = Some(goto(body.get()?)?),
        METADATA => {
            body.skip(4)?;
            found.metadata = Some((body.u64()?, body.u64()?));
        }
        WRITE => found.write = read_actions(body, scope)?,
        APPLY => found.apply = read_actions(body, scope)?,
        CLEAR => found.clear = true,
        METER => found.meter = Some(body.u32()?),
        EXPERIMENTER => return Err(ErrorCode::InstructionBadExperimenter),
        _ => return Err(ErrorCode::InstructionUnknown),
    }
    Ok(())
}

fn goto(table: TableId) -> Result<TableId, ErrorCode> {
    if table == TableId::ALL { Err(ErrorCode::InstructionBadTableId) } else { Ok(table) }
}

fn read_actions(mut body: Reader<'_>, scope: Scope) -> Result<Vec<Action>, ErrorCode> {
    body.skip(4)?;
    action::read_actions(body, scope)
}

/// Writes instructions. OpenFlow 1.5 has meters as actions, so the meter becomes the first action.
pub(crate) fn write_instructions(
    out: &mut Vec<u8>,
    instructions: &Instructions,
    version: Version,
) -> Result<(), EncodeError> {
    if version == Version::V10 {
        return v10::action::write_instructions(out, instructions);
    }
    let meter_action = instructions.meter.filter(|_| version >= Version::V15).map(Action::Meter);
    if let Some(meter) = instructions.meter.filter(|_| meter_action.is_none()) {
        put(out, METER, |out| out.put_u32(meter));
    }
    let (meter, apply) = (meter_action.as_slice(), &instructions.apply[..]);
    if !meter.is_empty() || !apply.is_empty() {
        write_actions(out, APPLY, &[meter, apply], version)?;
    }
    if instructions.clear {
        put(out, CLEAR, |out| out.put_zeros(4));
    }
    if !instructions.write.is_empty() {
        write_actions(out, WRITE, &[&instructions.write], version)?;
    }
    if let Some((value, mask)) = instructions.metadata {
        put(out, METADATA, |out| {
            out.put_zeros(4);
            out.put_u64(value);
            out.put_u64(mask);
        });
    }
    if let Some(table) = instructions.goto {
        put(out, GOTO, |out| out.put(&table));
    }
    Ok(())
}

fn put(out: &mut Vec<u8>, kind: u16, body: impl FnOnce(&mut Vec<u8>)) {
    action::put(out, kind, body);
}

fn write_actions(
    out: &mut Vec<u8>,
    kind: u16,
    lists: &[&[Action]],
    version: Version,
) -> Result<(), EncodeError> {
    let start = out.len();
    out.put_u16(kind);
    out.put_zeros(6);
    for actions in lists {
        action::write_actions(out, actions, version)?;
    }
    out.patch_len(start, start + 2);
    Ok(())
}
