//! Lists of actions.

use super::error::{Reason, TextError, nearest};
use super::piece::{Piece, Word};
use super::{MAX_DEPTH, Out, PortNames, Separated, connection, control, learn, part, plain, port, set};
use crate::action::Action;
use crate::field::Field;
use crate::matching::Match;
use std::fmt;

/// Context of the parsed actions.
pub(super) struct Context<'a> {
    /// Names of ports.
    pub ports: &'a dyn PortNames,
    /// Match of the flow: decides which fields `tp_src` and similar names mean.
    pub matching: Match,
    /// Whether the packet has a VLAN tag at this point.
    pub is_tagged: bool,
    /// Whether the list belongs to `ct(exec(...))`.
    pub is_exec: bool,
    depth: usize,
}

impl<'a> Context<'a> {
    pub(super) fn new(matching: &Match, ports: &'a dyn PortNames) -> Self {
        let is_tagged = crate::Prerequisite::Vlan.holds(matching);
        Self { ports, matching: *matching, is_tagged, is_exec: false, depth: 0 }
    }

    /// Parses a list within an action. Changes of the packet's tags end with the list.
    pub(super) fn nested(&mut self, text: Piece, is_exec: bool) -> Result<Vec<Action>, TextError> {
        if self.depth == MAX_DEPTH {
            return Err(text.error(Reason::TooDeep));
        }
        let (is_tagged, was_exec) = (self.is_tagged, self.is_exec);
        (self.depth, self.is_exec) = (self.depth + 1, is_exec);
        let found = parse(text, self);
        (self.depth, self.is_exec, self.is_tagged) = (self.depth - 1, was_exec, is_tagged);
        found
    }

    /// Checks that an action may write `field` here.
    pub(super) fn check_place(&self, field: Field, at: Piece) -> Result<(), TextError> {
        let belongs = matches!(field, Field::CtMark | Field::CtLabel);
        if belongs == self.is_exec { Ok(()) } else { Err(at.error(Reason::Exec(field.info().name))) }
    }
}

type Parse = fn(Word, &mut Context, &mut Vec<Action>) -> Result<(), TextError>;

/// Actions that are not in the tables of [`plain`] and [`set`].
const KEYWORDS: &[(&str, Parse)] = &[
    ("output", control::output),
    ("controller", control::controller),
    ("enqueue", control::enqueue),
    ("set_queue", control::set_queue),
    ("pop_queue", control::pop_queue),
    ("resubmit", control::resubmit),
    ("conjunction", control::conjunction),
    ("note", control::note),
    ("dec_ttl", control::dec_ttl),
    ("clone", control::clone),
    ("set_field", set::set_field),
    ("load", set::load),
    ("move", set::copy),
    ("delete_field", set::delete_field),
    ("push", set::push),
    ("pop", set::pop),
    ("mod_nw_tos", set::mod_nw_tos),
    ("mod_tp_src", set::mod_tp),
    ("mod_tp_dst", set::mod_tp),
    ("mod_vlan_vid", set::vlan),
    ("mod_vlan_pcp", set::vlan),
    ("set_vlan_vid", set::vlan),
    ("set_vlan_pcp", set::vlan),
    ("ct", connection::ct),
    ("learn", learn::learn),
    ("fin_timeout", learn::fin_timeout),
];

/// Actions of Open vSwitch that are not supported.
const UNSUPPORTED: &[&str] = &[
    "bundle",
    "bundle_load",
    "multipath",
    "sample",
    "check_pkt_larger",
    "encap",
    "decap",
    "dec_nsh_ttl",
    "debug_recirc",
    "debug_slow",
];

/// Parses a list of actions.
pub(super) fn parse(text: Piece, context: &mut Context) -> Result<Vec<Action>, TextError> {
    let (mut found, mut dropped) = (Vec::new(), None);
    for word in text.words() {
        let word = word?;
        if word.key.is("drop") {
            dropped = Some(word.key);
            word.alone()?;
        } else {
            one(word, context, &mut found)?;
        }
    }
    check_drop(dropped, found.is_empty())?;
    Ok(found)
}

/// Checks that `drop` stands alone.
pub(super) fn check_drop(dropped: Option<Piece>, alone: bool) -> Result<(), TextError> {
    match dropped {
        Some(word) if !alone => Err(word.error(Reason::Drop)),
        _ => Ok(()),
    }
}

/// Parses one word, which may stand for several actions.
pub(super) fn one(word: Word, context: &mut Context, found: &mut Vec<Action>) -> Result<(), TextError> {
    let before = found.len();
    if let Some(action) = plain::parse(word) {
        found.push(action?);
    } else if let Some(action) = set::parse(word, context) {
        found.push(action?);
    } else if let Some((_, parse)) = KEYWORDS.iter().find(|(name, _)| word.key.is(name)) {
        parse(word, context, found)?;
    } else if word.value.text.is_empty() && UNSUPPORTED.iter().all(|name| !word.key.is(name)) {
        let port = port::parse(word.key, context.ports).map_err(|_| unknown(word.key))?;
        found.push(Action::Output { port, max_len: control::max_len(port) });
    } else {
        return Err(unknown(word.key));
    }
    check(word, &found[before..], context)?;
    found[before..].iter().for_each(|action| match action {
        Action::PushVlan(_) => context.is_tagged = true,
        Action::PopVlan => context.is_tagged = false,
        _ => {}
    });
    Ok(())
}

/// Checks that actions may stand in this list.
fn check(word: Word, actions: &[Action], context: &Context) -> Result<(), TextError> {
    actions.iter().try_for_each(|action| match action {
        Action::SetField { field, .. } => context.check_place(*field, word.key),
        Action::Move { to, .. } | Action::StackPop(to) => context.check_place(to.field, word.key),
        _ if context.is_exec => {
            Err(word.key.error(Reason::Expected("set_field, load or move to ct_mark or ct_label")))
        }
        _ => Ok(()),
    })
}

fn unknown(key: Piece) -> TextError {
    if UNSUPPORTED.iter().any(|name| key.is(name)) {
        return key.error(Reason::NotSupported);
    }
    let keywords = KEYWORDS.iter().map(|(name, _)| *name).chain(plain::names()).chain(set::names());
    let names = keywords.chain(super::instructions::NAMES.iter().copied()).chain(port::reserved());
    key.error(Reason::UnknownAction(nearest(key.text, names)))
}

/// Prints a list of actions, `drop` if it is empty.
pub(super) fn print_list(out: &mut Out, actions: &[Action]) -> fmt::Result {
    if actions.is_empty() {
        return out.f.write_str("drop");
    }
    let mut list = Separated::default();
    print_items(out, actions, &mut list)
}

/// Prints actions as items of a list.
pub(super) fn print_items(out: &mut Out, actions: &[Action], list: &mut Separated) -> fmt::Result {
    actions.iter().try_for_each(|action| {
        list.item(out)?;
        print(out, action)
    })
}

/// Prints an action.
pub(super) fn print(out: &mut Out, action: &Action) -> fmt::Result {
    match action {
        Action::Output { port, max_len } => control::print_output(out, *port, *max_len),
        Action::OutputField { from, .. } => {
            out.f.write_str("output:")?;
            part::print(out, *from)
        }
        Action::Controller(controller) => control::print_controller(out, controller),
        Action::SetQueue(queue) => control::print_queue(out, *queue),
        Action::SetField { field, value, mask } => set::print_set(out, *field, *value, *mask),
        Action::Move { from, to } => set::print_copy(out, *from, *to),
        Action::DeleteField(field) => write!(out.f, "delete_field:{}", field.info().name),
        Action::StackPush(part) => set::print_stack(out, "push", *part),
        Action::StackPop(part) => set::print_stack(out, "pop", *part),
        Action::DecNwTtl(controllers) => control::print_dec_ttl(out, controllers),
        Action::Resubmit(resubmit) => control::print_resubmit(out, *resubmit),
        Action::Learn(learn) => learn::print(out, learn),
        Action::FinTimeout { idle, hard } => learn::print_fin_timeout(out, (*idle, *hard)),
        Action::Ct(tracking) => connection::print(out, tracking),
        Action::Conjunction { id, clause, clauses } => {
            write!(out.f, "conjunction({id},{}/{clauses})", u16::from(*clause) + 1)
        }
        Action::Clone(actions) => {
            out.f.write_str("clone(")?;
            print_list(out, actions)?;
            out.f.write_str(")")
        }
        Action::Note(bytes) => {
            out.f.write_str("note:")?;
            control::print_bytes(out, bytes)
        }
        Action::Group(_)
        | Action::PushVlan(_)
        | Action::PopVlan
        | Action::PushMpls(_)
        | Action::PopMpls(_)
        | Action::PushPbb(_)
        | Action::PopPbb
        | Action::SetMplsTtl(_)
        | Action::DecMplsTtl
        | Action::SetNwTtl(_)
        | Action::CopyTtlOut
        | Action::CopyTtlIn
        | Action::Meter(_)
        | Action::CtClear
        | Action::Exit => plain::print(out, action),
    }
}
