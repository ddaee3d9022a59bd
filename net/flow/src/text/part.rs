//! Parts of fields: `FIELD[]`, `FIELD[BIT]`, `FIELD[FIRST..LAST]`.

use super::Out;
use super::error::{Reason, TextError};
use super::names::{find, named};
use super::piece::Piece;
use crate::action::Subfield;
use crate::field::Access;
use std::fmt;

/// Parses a part; a field without brackets is whole.
pub(super) fn parse(text: Piece) -> Result<Subfield, TextError> {
    let (name, brackets) = text.split_or_all("[");
    let (named, shift) = find(name)?;
    let field = named.field;
    let Some(brackets) = brackets else { return Ok(Subfield::whole(field)) };
    let form = || text.error(Reason::Expected("`[]`, `[BIT]` or `[FIRST..LAST]` after a field"));
    let (range, rest) = brackets.split("]").ok_or_else(form)?;
    if !rest.text.is_empty() {
        return Err(form());
    }
    if range.text.is_empty() {
        return Ok(Subfield::whole(field));
    }
    let (first, last) = range.split_or_all("..");
    let first: u8 = first.integer()?;
    let last: u8 = last.map_or(Ok(first), Piece::integer)?;
    let offset = first.checked_sub(shift).filter(|_| first <= last).ok_or_else(form)?;
    Subfield::new(field, offset, last - first + 1).map_err(|error| text.error(error))
}

/// Parses a part that an action writes.
pub(super) fn parse_writable(text: Piece) -> Result<Subfield, TextError> {
    let part = parse(text)?;
    let info = part.field.info();
    if info.access == Access::Read { Err(text.error(Reason::ReadOnly(info.name))) } else { Ok(part) }
}

/// Prints a part.
pub(super) fn print(out: &mut Out, part: Subfield) -> fmt::Result {
    let name = named(part.field).part_name();
    let last = part.offset + part.bits - 1;
    match part.bits {
        _ if part == Subfield::whole(part.field) => write!(out.f, "{name}[]"),
        1 => write!(out.f, "{name}[{last}]"),
        _ => write!(out.f, "{name}[{}..{last}]", part.offset),
    }
}
