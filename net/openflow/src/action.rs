//! Lists of actions (OpenFlow 1.3.5, 7.2.5). Nicira's are in modules of their own.

mod ct;
pub(crate) mod field;
mod learn;
pub(crate) mod nicira;

pub(crate) use field::{write_load, write_move};
pub(crate) use nicira::write_metadata;

use crate::bytes::{Put, Reader};
use crate::error::{EncodeError, ErrorCode};
use crate::error_codes::{NICIRA, ONF};
use crate::limits;
use crate::v10;
use crate::version::Version;
use flow::{Action, Field, PortNo};

/// Type of experimenter actions.
const EXPERIMENTER: u16 = 0xffff;

/// Where a list of actions stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope {
    pub(crate) version: Version,
    /// Fields of the transport ports, which actions of OpenFlow 1.0 do not tell apart.
    pub(crate) ports: (Field, Field),
    depth: u8,
    in_ct: bool,
}

impl Scope {
    pub(crate) fn new(version: Version) -> Self {
        Self { version, ports: (Field::TcpSrc, Field::TcpDst), depth: 0, in_ct: false }
    }

    fn is_in_ct(self) -> bool {
        self.in_ct
    }

    /// Inside of an action.
    fn nested(self, in_ct: bool) -> Result<Self, ErrorCode> {
        let depth = self.depth + 1;
        if depth > limits::NESTING {
            Err(ErrorCode::ActionTooMany)
        } else {
            Ok(Self { depth, in_ct, ..self })
        }
    }
}

/// Reads actions until the end.
pub(crate) fn read_actions(from: Reader<'_>, scope: Scope) -> Result<Vec<Action>, ErrorCode> {
    let mut from = from.or(ErrorCode::ActionBadLen);
    let mut actions = Vec::new();
    while !from.is_empty() {
        let (kind, body) = read_header(&mut from)?;
        read_action(kind, body, scope, &mut actions)?;
    }
    Ok(actions)
}

/// Type and body of the next action.
fn read_header<'a>(from: &mut Reader<'a>) -> Result<(u16, Reader<'a>), ErrorCode> {
    let (kind, len) = (from.u16()?, usize::from(from.u16()?));
    if len < 8 || len % 8 != 0 {
        return Err(ErrorCode::ActionBadLen);
    }
    Ok((kind, from.take(len - 4)?))
}

fn read_action(
    kind: u16,
    mut body: Reader<'_>,
    scope: Scope,
    actions: &mut Vec<Action>,
) -> Result<(), ErrorCode> {
    let first = actions.len();
    match (kind, scope.version) {
        (EXPERIMENTER, _) => actions.push(match body.u32()? {
            NICIRA => nicira::read(body, scope)?,
            ONF => field::read_onf(body)?,
            _ => return Err(ErrorCode::ActionBadExperimenter),
        }),
        (_, Version::V10) => v10::action::read(kind, body, scope, actions)?,
        _ => actions.push(read_standard(kind, body, scope.version)?),
    }
    actions[first..].iter().try_for_each(|action| check(action, scope))
}

/// Fields of connections are set within `ct` only, and nothing else is.
fn check(action: &Action, scope: Scope) -> Result<(), ErrorCode> {
    let changed = match action {
        Action::SetField { field, .. } => Some(*field),
        Action::Move { to, .. } => Some(to.field),
        _ => None,
    };
    let is_connection = matches!(changed, Some(Field::CtMark | Field::CtLabel));
    match (scope.in_ct, is_connection) {
        (true, false) => Err(ErrorCode::ActionBadArgument),
        (false, true) => Err(ErrorCode::ActionBadSetArgument),
        _ => Ok(()),
    }
}

fn read_standard(kind: u16, mut body: Reader<'_>, version: Version) -> Result<Action, ErrorCode> {
    let has_length = match kind {
        0 => body.len() == 12,
        11..=24 | 26 | 27 | 29 => body.len() == 4,
        _ => true,
    };
    if !has_length {
        return Err(ErrorCode::ActionBadLen);
    }
    Ok(match kind {
        0 => Action::Output { port: output_port(body.get()?)?, max_len: body.u16()? },
        11 => Action::CopyTtlOut,
        12 => Action::CopyTtlIn,
        15 => Action::SetMplsTtl(body.u8()?),
        16 => Action::DecMplsTtl,
        17 => Action::PushVlan(ethertype(body.u16()?, &[0x8100, 0x88a8])?),
        18 => Action::PopVlan,
        19 => Action::PushMpls(ethertype(body.u16()?, &[0x8847, 0x8848])?),
        20 => Action::PopMpls(body.u16()?),
        21 => Action::SetQueue(Some(body.u32()?)),
        22 => Action::Group(body.u32()?),
        23 => Action::SetNwTtl(body.u8()?),
        24 => Action::DecNwTtl([0].into()),
        25 => field::read_set_field(body, version)?,
        26 => Action::PushPbb(ethertype(body.u16()?, &[0x88e7])?),
        27 => Action::PopPbb,
        28 if version >= Version::V15 => field::read_copy(body)?,
        29 if version >= Version::V15 => Action::Meter(body.u32()?),
        _ => return Err(ErrorCode::ActionBadType),
    })
}

/// A port to which packets can be sent.
pub(crate) fn output_port(port: PortNo) -> Result<PortNo, ErrorCode> {
    let is_unassigned = port > PortNo::MAX && port < PortNo::IN_PORT;
    if is_unassigned || port == PortNo::ANY { Err(ErrorCode::ActionBadOutPort) } else { Ok(port) }
}

fn ethertype(value: u16, allowed: &[u16]) -> Result<u16, ErrorCode> {
    if allowed.contains(&value) { Ok(value) } else { Err(ErrorCode::ActionBadArgument) }
}

/// Writes actions.
pub(crate) fn write_actions(
    out: &mut Vec<u8>,
    actions: &[Action],
    version: Version,
) -> Result<(), EncodeError> {
    actions.iter().try_for_each(|action| match version {
        Version::V10 => v10::action::write(out, action),
        _ => write_action(out, action, version),
    })
}

fn write_action(out: &mut Vec<u8>, action: &Action, version: Version) -> Result<(), EncodeError> {
    match action {
        Action::Output { port, max_len } => put(out, 0, |out| {
            out.put(port);
            out.put_u16(*max_len);
        }),
        Action::CopyTtlOut => put(out, 11, |_| ()),
        Action::CopyTtlIn => put(out, 12, |_| ()),
        Action::SetMplsTtl(ttl) => put(out, 15, |out| out.put_u8(*ttl)),
        Action::DecMplsTtl => put(out, 16, |_| ()),
        Action::PushVlan(kind) => put(out, 17, |out| out.put_u16(*kind)),
        Action::PopVlan => put(out, 18, |_| ()),
        Action::PushMpls(kind) => put(out, 19, |out| out.put_u16(*kind)),
        Action::PopMpls(kind) => put(out, 20, |out| out.put_u16(*kind)),
        Action::SetQueue(Some(queue)) => put(out, 21, |out| out.put_u32(*queue)),
        Action::Group(group) => put(out, 22, |out| out.put_u32(*group)),
        Action::SetNwTtl(ttl) => put(out, 23, |out| out.put_u8(*ttl)),
        Action::DecNwTtl(controllers) if is_default(controllers) => put(out, 24, |_| ()),
        Action::SetField { field, value, mask } => {
            return field::write_set_field(out, *field, *value, *mask, version);
        }
        Action::PushPbb(kind) => put(out, 26, |out| out.put_u16(*kind)),
        Action::PopPbb => put(out, 27, |_| ()),
        Action::Move { from, to } => return field::write_move(out, *from, *to, version),
        Action::Meter(meter) if version >= Version::V15 => put(out, 29, |out| out.put_u32(*meter)),
        _ => return nicira::write(out, action, version),
    }
    Ok(())
}

/// Whether invalid TTLs go to the controllers of identifier 0.
fn is_default(controllers: &[u16]) -> bool {
    matches!(controllers, [] | [0])
}

/// Writes an action of type `kind`, padded.
pub(crate) fn put(out: &mut Vec<u8>, kind: u16, body: impl FnOnce(&mut Vec<u8>)) {
    let start = begin(out, kind);
    body(out);
    finish(out, start);
}

/// Writes the header of an action; returns its start for [`finish`].
fn begin(out: &mut Vec<u8>, kind: u16) -> usize {
    let start = out.len();
    out.put_u16(kind);
    out.put_u16(0);
    start
}

/// Pads an action and sets its length.
fn finish(out: &mut Vec<u8>, start: usize) {
    out.pad(start);
    out.patch_len(start, start + 2);
}
