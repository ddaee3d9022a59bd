//! `learn`, flows made from packets, and `fin_timeout`, flows that end with a connection.

use super::actions::Context;
use super::error::{Reason, TextError};
use super::flow::DEFAULT_PRIORITY;
use super::names::{find, named};
use super::piece::{Piece, Word};
use super::value::{self, HexDigits, Look};
use super::{Out, PortNames, Separated, control, part, set};
use crate::action::{Action, Learn, LearnSpec, LearnValue, Subfield};
use crate::modify::TableId;
use std::fmt;

type Parsed = Result<(), TextError>;

/// Flags of `NXT_LEARN` (nicira-ext.h).
const SEND_REMOVED: u16 = 1;
const DELETE_LEARNED: u16 = 2;
const WRITE_RESULT: u16 = 4;

const DEFAULT_TABLE: TableId = TableId(1);

/// `learn(ARGUMENT,...)`, as in ovs-actions(7).
pub(super) fn learn(word: Word, context: &mut Context, found: &mut Vec<Action>) -> Parsed {
    let mut learn = Learn {
        table: DEFAULT_TABLE,
        priority: DEFAULT_PRIORITY,
        cookie: 0,
        idle_timeout: 0,
        hard_timeout: 0,
        fin_idle_timeout: 0,
        fin_hard_timeout: 0,
        flags: 0,
        limit: 0,
        result: None,
        specs: Vec::new(),
    };
    word.value.words().try_for_each(|word| argument(&mut learn, word?, context.ports))?;
    found.push(Action::Learn(Box::new(learn)));
    Ok(())
}

fn argument(learn: &mut Learn, word: Word, ports: &dyn PortNames) -> Parsed {
    match word.key.text {
        "table" => learn.table = control::table(word.required()?.value)?,
        "priority" => learn.priority = word.integer()?,
        "cookie" => learn.cookie = word.integer()?,
        "idle_timeout" => learn.idle_timeout = word.integer()?,
        "hard_timeout" => learn.hard_timeout = word.integer()?,
        "fin_idle_timeout" => learn.fin_idle_timeout = word.integer()?,
        "fin_hard_timeout" => learn.fin_hard_timeout = word.integer()?,
        "limit" => learn.limit = word.integer()?,
        "send_flow_rem" => learn.flags |= flag(word, SEND_REMOVED)?,
        "delete_learned" => learn.flags |= flag(word, DELETE_LEARNED)?,
        "result_dst" => {
            let part = part::parse_writable(word.required()?.value)?;
            if part.bits != 1 {
                return Err(word.value.error(Reason::Widths(part.bits, 1)));
            }
            learn.flags |= WRITE_RESULT;
            learn.result = Some((part.field, part.offset));
        }
        "load" => learn.specs.push(load(word.required()?.value)?),
        "output" => learn.specs.push(LearnSpec::Output(part::parse(word.required()?.value)?)),
        _ => learn.specs.push(condition(word, ports)?),
    }
    Ok(())
}

/// The flag, for a word without a value.
fn flag(word: Word, flag: u16) -> Result<u16, TextError> {
    word.alone().map(|()| flag)
}

/// `load:VALUE->PART` or `load:PART->PART`.
fn load(text: Piece) -> Result<LearnSpec, TextError> {
    if !text.text.starts_with(|c: char| c.is_ascii_digit()) {
        let (from, to) = set::parts(text)?;
        return Ok(LearnSpec::Load(LearnValue::Field(from), to));
    }
    let (value, to) = text.split("->").ok_or_else(|| text.error(Reason::Expected("`VALUE->FIELD`")))?;
    let to = part::parse_writable(to)?;
    Ok(LearnSpec::Load(LearnValue::Constant(set::fitting(value, to)?, to.bits), to))
}

/// `PART`, `PART=PART` or `PART=VALUE`.
fn condition(word: Word, ports: &dyn PortNames) -> Result<LearnSpec, TextError> {
    let to = part::parse(word.key)?;
    let text = word.value;
    if text.text.is_empty() {
        return Ok(LearnSpec::Match(LearnValue::Field(to), to));
    }
    if find(text.split_or_all("[").0).is_ok() {
        let (from, to) = part::same_width(part::parse(text)?, to).map_err(|reason| text.error(reason))?;
        return Ok(LearnSpec::Match(LearnValue::Field(from), to));
    }
    let value = if is_whole(to) {
        value::parse_exact(text, to.field, named(to.field).form, ports)?
    } else {
        set::fitting(text, to)?
    };
    Ok(LearnSpec::Match(LearnValue::Constant(value, to.bits), to))
}

fn is_whole(part: Subfield) -> bool {
    part == Subfield::whole(part.field)
}

/// `fin_timeout(idle_timeout=SECONDS,hard_timeout=SECONDS)`
pub(super) fn fin_timeout(word: Word, _: &mut Context, found: &mut Vec<Action>) -> Parsed {
    let (mut idle, mut hard) = (0, 0);
    word.value.words().try_for_each(|word| {
        let word = word?;
        match word.key.text {
            "idle_timeout" => idle = word.integer()?,
            "hard_timeout" => hard = word.integer()?,
            _ => return Err(word.key.error(Reason::Expected("idle_timeout or hard_timeout"))),
        }
        Ok(())
    })?;
    found.push(Action::FinTimeout { idle, hard });
    Ok(())
}

pub(super) fn print_fin_timeout(out: &mut Out, (idle, hard): (u16, u16)) -> fmt::Result {
    let mut list = Separated::default();
    out.f.write_str("fin_timeout(")?;
    for (seconds, name) in [(idle, "idle_timeout"), (hard, "hard_timeout")] {
        if seconds != 0 {
            list.item(out)?;
            write!(out.f, "{name}={seconds}")?;
        }
    }
    out.f.write_str(")")
}

/// Prints the action.
pub(super) fn print(out: &mut Out, learn: &Learn) -> fmt::Result {
    write!(out.f, "learn(table={}", learn.table.0)?;
    let timeouts = [
        (learn.idle_timeout, "idle_timeout"),
        (learn.hard_timeout, "hard_timeout"),
        (learn.fin_idle_timeout, "fin_idle_timeout"),
        (learn.fin_hard_timeout, "fin_hard_timeout"),
    ];
    for (seconds, name) in timeouts.into_iter().filter(|(seconds, _)| *seconds != 0) {
        write!(out.f, ",{name}={seconds}")?;
    }
    if learn.priority != DEFAULT_PRIORITY {
        write!(out.f, ",priority={}", learn.priority)?;
    }
    for (flag, name) in [(SEND_REMOVED, "send_flow_rem"), (DELETE_LEARNED, "delete_learned")] {
        if learn.flags & flag != 0 {
            write!(out.f, ",{name}")?;
        }
    }
    if learn.cookie != 0 {
        write!(out.f, ",cookie={:#x}", learn.cookie)?;
    }
    if learn.limit != 0 {
        write!(out.f, ",limit={}", learn.limit)?;
    }
    if let Some((field, offset)) = learn.result {
        out.f.write_str(",result_dst=")?;
        part::print(out, Subfield { field, offset, bits: 1 })?;
    }
    learn.specs.iter().try_for_each(|spec| {
        out.f.write_str(",")?;
        print_spec(out, *spec)
    })?;
    out.f.write_str(")")
}

fn print_spec(out: &mut Out, spec: LearnSpec) -> fmt::Result {
    match spec {
        LearnSpec::Match(LearnValue::Constant(value, _), to) if is_whole(to) => {
            let named = named(to.field);
            write!(out.f, "{}=", named.action_name())?;
            value::print(out, to.field, named.form, (value, to.field.full()), Look::ACTION)
        }
        LearnSpec::Match(LearnValue::Constant(value, _), to) => {
            part::print(out, to)?;
            write!(out.f, "={}", HexDigits(value, 0))
        }
        LearnSpec::Match(LearnValue::Field(from), to) if from == to => part::print(out, to),
        LearnSpec::Match(LearnValue::Field(from), to) => {
            part::print_beside(out, to)?;
            out.f.write_str("=")?;
            part::print_beside(out, from)
        }
        LearnSpec::Load(from, to) => {
            out.f.write_str("load:")?;
            match from {
                LearnValue::Constant(value, _) => write!(out.f, "{}", HexDigits(value, 0))?,
                LearnValue::Field(from) => part::print_beside(out, from)?,
            }
            out.f.write_str("->")?;
            part::print_beside(out, to)
        }
        LearnSpec::Output(from) => {
            out.f.write_str("output:")?;
            part::print(out, from)
        }
    }
}
