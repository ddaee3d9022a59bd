//! Instructions: `meter`, actions, `clear_actions`, `write_actions`, `write_metadata`, `goto_table`, in this order.

use super::actions::{self, Context};
use super::error::{Reason, TextError};
use super::piece::{Piece, Word};
use super::{Out, Separated, control};
use crate::action::Instructions;
use std::fmt;

/// Names of instructions, in their order. Actions are applied at position [`APPLY`].
pub(super) const NAMES: &[&str] =
    &["meter", "apply_actions", "clear_actions", "write_actions", "write_metadata", "goto_table"];
const METER: usize = 0;
const APPLY: usize = 1;

/// Parses instructions.
pub(super) fn parse(text: Piece, context: &mut Context) -> Result<Instructions, TextError> {
    let (mut found, mut dropped, mut last) = (Instructions::default(), None, None);
    for word in text.words() {
        let word = word?;
        if word.key.is("drop") {
            dropped = Some(word.key);
            continue;
        }
        let named = NAMES.iter().position(|name| word.key.is(name));
        // From OpenFlow 1.5, `meter` is an action too; it is one unless it comes first.
        let position = named.filter(|at| *at != METER || last.is_none()).unwrap_or(APPLY);
        if last.is_some_and(|last| position < last || position == last && position != APPLY) {
            return Err(word.key.error(Reason::Order));
        }
        last = Some(position);
        one(position, word, context, &mut found)?;
    }
    actions::check_drop(dropped, last.is_none())?;
    Ok(found)
}

fn one(
    position: usize,
    word: Word,
    context: &mut Context,
    found: &mut Instructions,
) -> Result<(), TextError> {
    match NAMES[position] {
        "meter" => found.meter = Some(word.integer()?),
        "clear_actions" => found.clear = true,
        "write_actions" => found.write = context.nested(word.value, false)?,
        "write_metadata" => found.metadata = Some(metadata(word.required()?.value)?),
        "goto_table" => found.goto = Some(control::table(word.required()?.value)?),
        _ if word.key.is(NAMES[APPLY]) => {
            return Err(word
                .key
                .error(Reason::Expected("the actions themselves, which are applied at once")));
        }
        _ => actions::one(word, context, &mut found.apply)?,
    }
    Ok(())
}

/// `VALUE[/MASK]`.
fn metadata(text: Piece) -> Result<(u64, u64), TextError> {
    let (value, mask) = text.split_or_all("/");
    let mask = mask.map_or(Ok(u64::MAX), mask_of)?;
    Ok((value.integer::<u64>()? & mask, mask))
}

/// A mask of 64 bits; -1 stands for all.
pub(super) fn mask_of(text: Piece) -> Result<u64, TextError> {
    if text.text == "-1" { Ok(u64::MAX) } else { text.integer() }
}

/// Prints instructions, `drop` if there are none.
pub(super) fn print(out: &mut Out, instructions: &Instructions) -> fmt::Result {
    let Instructions { meter, apply, clear, write, metadata, goto } = instructions;
    if *instructions == Instructions::default() {
        return out.f.write_str("drop");
    }
    let mut list = Separated::default();
    if let Some(meter) = meter {
        list.item(out)?;
        write!(out.f, "meter:{meter}")?;
    }
    actions::print_items(out, apply, &mut list)?;
    if *clear {
        list.item(out)?;
        out.f.write_str("clear_actions")?;
    }
    if !write.is_empty() {
        list.item(out)?;
        out.f.write_str("write_actions(")?;
        actions::print_list(out, write)?;
        out.f.write_str(")")?;
    }
    if let Some((value, mask)) = metadata {
        list.item(out)?;
        print_metadata(out, *value, *mask)?;
    }
    if let Some(table) = goto {
        list.item(out)?;
        write!(out.f, "goto_table:{}", table.0)?;
    }
    Ok(())
}

/// As C prints it: 0 has no prefix.
fn print_metadata(out: &mut Out, value: u64, mask: u64) -> fmt::Result {
    let prefix = if value == 0 { "" } else { "0x" };
    write!(out.f, "write_metadata:{prefix}{value:x}")?;
    if mask == u64::MAX { Ok(()) } else { write!(out.f, "/{mask:#x}") }
}
