//! Actions that send packets or lead to other tables, and their arguments.

use super::actions::Context;
use super::error::{Reason, TextError};
use super::piece::{Piece, Word};
use super::{Out, Separated, part, port};
use crate::action::{Action, ControllerOutput, Resubmit};
use crate::modify::{PortNo, TableId};
use std::fmt;

type Parsed = Result<(), TextError>;

/// Bytes for a controller if none are given: all.
const ALL_BYTES: u16 = 0xffff;

/// Reasons of packet-ins, from 0 (OpenFlow 1.5.1, 7.4.1).
const REASONS: &[&str] = &["no_match", "action", "invalid_ttl", "action_set", "group", "packet_out"];
const REASON_ACTION: u8 = 1;

/// `max_len` of an output without one.
pub(super) fn max_len(port: PortNo) -> u16 {
    if port == PortNo::CONTROLLER { ALL_BYTES } else { 0 }
}

pub(super) fn output(word: Word, context: &mut Context, found: &mut Vec<Action>) -> Parsed {
    let text = word.required()?.value;
    if text.text.contains("max_len=") && !text.is_quoted() {
        return Err(text.error(Reason::NotSupported));
    }
    let action = port::parse(text, context.ports).map(|port| Action::Output { port, max_len: max_len(port) });
    let field = || match part::parse(text)? {
        // A message has room for that many.
        from if from.bits <= 64 => Ok(Action::OutputField { from, max_len: ALL_BYTES }),
        _ => Err(text.error(Reason::Expected("at most 64 bits of a field"))),
    };
    let is_part = text.text.contains('[');
    found.push(action.or_else(|error| field().map_err(|other| if is_part { other } else { error }))?);
    Ok(())
}

pub(super) fn print_output(out: &mut Out, port: PortNo, max_len: u16) -> fmt::Result {
    if port < PortNo::IN_PORT {
        out.f.write_str("output:")?;
    }
    port::print(out, port)?;
    if port == PortNo::CONTROLLER { write!(out.f, ":{max_len}") } else { Ok(()) }
}

pub(super) fn controller(word: Word, _: &mut Context, found: &mut Vec<Action>) -> Parsed {
    let mut controller = ControllerOutput {
        max_len: ALL_BYTES,
        controller: 0,
        reason: REASON_ACTION,
        userdata: Box::default(),
    };
    if word.value.text.starts_with(|c: char| c.is_ascii_digit()) {
        controller.max_len = word.value.integer()?;
    } else {
        word.value.words().try_for_each(|word| argument(&mut controller, word?))?;
    }
    let is_output =
        controller.controller == 0 && controller.reason == REASON_ACTION && controller.userdata.is_empty();
    found.push(if is_output {
        Action::Output { port: PortNo::CONTROLLER, max_len: controller.max_len }
    } else {
        Action::Controller(Box::new(controller))
    });
    Ok(())
}

fn argument(controller: &mut ControllerOutput, word: Word) -> Parsed {
    match word.key.text {
        "reason" => {
            let named = REASONS.iter().position(|name| word.value.is(name));
            controller.reason = named.map_or_else(|| word.integer(), |at| Ok(at as u8))?;
        }
        "max_len" => controller.max_len = word.integer()?,
        "id" => controller.controller = word.integer()?,
        "userdata" => controller.userdata = word.value.hex_bytes()?,
        "pause" | "meter_id" => return Err(word.key.error(Reason::NotSupported)),
        _ => return Err(word.key.error(Reason::Expected("reason, max_len, id or userdata"))),
    }
    Ok(())
}

pub(super) fn print_controller(out: &mut Out, controller: &ControllerOutput) -> fmt::Result {
    let ControllerOutput { max_len, controller, reason, userdata } = controller;
    if *controller == 0 && *reason == REASON_ACTION && userdata.is_empty() {
        return print_output(out, PortNo::CONTROLLER, *max_len);
    }
    let mut list = Separated::default();
    out.f.write_str("controller(")?;
    if *reason != REASON_ACTION {
        list.item(out)?;
        match REASONS.get(usize::from(*reason)) {
            Some(name) => write!(out.f, "reason={name}")?,
            None => write!(out.f, "reason={reason}")?,
        }
    }
    if *max_len != ALL_BYTES {
        list.item(out)?;
        write!(out.f, "max_len={max_len}")?;
    }
    if *controller != 0 {
        list.item(out)?;
        write!(out.f, "id={controller}")?;
    }
    if !userdata.is_empty() {
        list.item(out)?;
        out.f.write_str("userdata=")?;
        print_bytes(out, userdata)?;
    }
    out.f.write_str(")")
}

/// Prints bytes in hexadecimal digits, separated by dots.
pub(super) fn print_bytes(out: &mut Out, bytes: &[u8]) -> fmt::Result {
    let separator = |i| if i > 0 { "." } else { "" };
    bytes.iter().enumerate().try_for_each(|(i, byte)| write!(out.f, "{}{byte:02x}", separator(i)))
}

/// `enqueue:PORT:QUEUE` selects a queue for one output.
pub(super) fn enqueue(word: Word, context: &mut Context, found: &mut Vec<Action>) -> Parsed {
    let separator = if word.value.item(':')?.1.is_some() { ':' } else { ',' };
    let (port, queue) = word.value.item(separator)?;
    let queue = queue.ok_or_else(|| word.value.error(Reason::Expected("PORT:QUEUE")))?.trim();
    let queue = queue.after(usize::from(queue.text.starts_with('q')));
    let port = port::parse(port, context.ports)?;
    let output = Action::Output { port, max_len: max_len(port) };
    found.extend([Action::SetQueue(Some(queue.integer()?)), output, Action::SetQueue(None)]);
    Ok(())
}

pub(super) fn set_queue(word: Word, _: &mut Context, found: &mut Vec<Action>) -> Parsed {
    found.push(Action::SetQueue(Some(word.integer()?)));
    Ok(())
}

pub(super) fn pop_queue(word: Word, _: &mut Context, found: &mut Vec<Action>) -> Parsed {
    found.push(Action::SetQueue(None));
    word.alone()
}

pub(super) fn print_queue(out: &mut Out, queue: Option<u32>) -> fmt::Result {
    match queue {
        Some(queue) => write!(out.f, "set_queue:{queue}"),
        None => out.f.write_str("pop_queue"),
    }
}

/// A table that is not [`TableId::ALL`].
pub(super) fn table(text: Piece) -> Result<TableId, TextError> {
    Ok(TableId(text.number(u128::from(TableId::ALL.0 - 1))? as u8))
}

/// `resubmit:PORT` or `resubmit([PORT],[TABLE][,ct])`.
pub(super) fn resubmit(word: Word, context: &mut Context, found: &mut Vec<Action>) -> Parsed {
    let (port, rest) = word.value.item(',')?;
    let (table, last) =
        rest.map(|rest| rest.item(',')).transpose()?.map_or((None, None), |(a, b)| (Some(a), b));
    let given = |piece: &Piece| !piece.text.is_empty();
    let in_port = Some(port).filter(given).map(|port| port::parse(port, context.ports));
    let in_port = in_port.transpose()?.filter(|port| *port != PortNo::IN_PORT);
    let table = table.filter(given).map(Piece::integer).transpose()?;
    let table = table.map(TableId).filter(|table| *table != TableId::ALL);
    let last = last.map(Piece::trim);
    if let Some(last) = last.filter(|last| last.text != "ct") {
        return Err(last.error(Reason::Expected("`ct`")));
    }
    if in_port.is_none() && table.is_none() {
        return Err(word.key.error(Reason::Missing("a port or a table")));
    }
    found.push(Action::Resubmit(Resubmit { in_port, table, ct: last.is_some() }));
    Ok(())
}

pub(super) fn print_resubmit(out: &mut Out, resubmit: Resubmit) -> fmt::Result {
    let Resubmit { in_port, table, ct } = resubmit;
    if let (Some(port), None, false) = (in_port, table, ct) {
        out.f.write_str("resubmit:")?;
        return port::print(out, port);
    }
    out.f.write_str("resubmit(")?;
    in_port.map_or(Ok(()), |port| port::print(out, port))?;
    out.f.write_str(",")?;
    table.map_or(Ok(()), |table| write!(out.f, "{}", table.0))?;
    out.f.write_str(if ct { ",ct)" } else { ")" })
}

/// Clauses of a conjunction.
const CLAUSES: std::ops::RangeInclusive<u8> = 2..=64;

/// `conjunction(ID,CLAUSE/CLAUSES)`, with clauses from 1.
pub(super) fn conjunction(word: Word, _: &mut Context, found: &mut Vec<Action>) -> Parsed {
    let form =
        || word.value.error(Reason::Expected("ID,CLAUSE/CLAUSES with 2 to 64 clauses, counted from 1"));
    let (id, clauses) = word.value.split(",").ok_or_else(form)?;
    let (clause, clauses) = clauses.split("/").ok_or_else(form)?;
    let (clause, clauses): (u8, u8) = (clause.trim().integer()?, clauses.trim().integer()?);
    if !CLAUSES.contains(&clauses) || clause == 0 || clause > clauses {
        return Err(form());
    }
    found.push(Action::Conjunction { id: id.trim().integer()?, clause: clause - 1, clauses });
    Ok(())
}

pub(super) fn note(word: Word, _: &mut Context, found: &mut Vec<Action>) -> Parsed {
    found.push(Action::Note(word.value.hex_bytes()?));
    Ok(())
}

/// `dec_ttl` or `dec_ttl(CONTROLLER,...)`; without identifiers, controllers with identifier 0 get invalid packets.
pub(super) fn dec_ttl(word: Word, _: &mut Context, found: &mut Vec<Action>) -> Parsed {
    let controllers: Result<Box<[u16]>, _> = word.value.words().map(|word| identifier(word?)).collect();
    let controllers = controllers?;
    found.push(Action::DecNwTtl(if controllers.is_empty() { Box::new([0]) } else { controllers }));
    Ok(())
}

fn identifier(word: Word) -> Result<u16, TextError> {
    word.alone()?;
    word.key.integer()
}

pub(super) fn print_dec_ttl(out: &mut Out, controllers: &[u16]) -> fmt::Result {
    out.f.write_str("dec_ttl")?;
    if matches!(controllers, [] | [0]) {
        return Ok(());
    }
    let mut list = Separated::default();
    out.f.write_str("(")?;
    for controller in controllers {
        list.item(out)?;
        write!(out.f, "{controller}")?;
    }
    out.f.write_str(")")
}

pub(super) fn clone(word: Word, context: &mut Context, found: &mut Vec<Action>) -> Parsed {
    found.push(Action::Clone(context.nested(word.value, false)?.into()));
    Ok(())
}
