//! Parts of fields: `FIELD[]`, `FIELD[BIT]`, `FIELD[FIRST..LAST]`.

use super::Out;
use super::error::{Reason, TextError};
use super::names::{find, named};
use super::piece::Piece;
use crate::action::Subfield;
use crate::field::{Access, Field};
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
        // Open vSwitch reads `[]` after an option as its maximum length.
        _ if part == Subfield::whole(part.field) && part.field.option().is_none() => {
            write!(out.f, "{name}[]")
        }
        1 => write!(out.f, "{name}[{last}]"),
        _ => write!(out.f, "{name}[{}..{last}]", part.offset),
    }
}

/// Width of `NXM_OF_IN_PORT`; the field itself has the 32 bits of OpenFlow 1.1.
const NXM_IN_PORT_BITS: u8 = 16;

/// Whether a part is the whole ingress port.
pub(super) fn is_in_port(part: Subfield) -> bool {
    part == Subfield::whole(Field::InPort)
}

/// The part as it is meant beside one of `bits` bits: the ingress port has 16 bits there, as in NXM.
pub(super) fn narrowed(part: Subfield, bits: u8) -> Subfield {
    let is_nxm = is_in_port(part) && bits == NXM_IN_PORT_BITS;
    if is_nxm { Subfield { bits, ..part } } else { part }
}

/// Both parts, of the same width.
pub(super) fn same_width(from: Subfield, to: Subfield) -> Result<(Subfield, Subfield), Reason> {
    let (from, to) = (narrowed(from, to.bits), narrowed(to, from.bits));
    if from.bits == to.bits { Ok((from, to)) } else { Err(Reason::Widths(from.bits, to.bits)) }
}

/// Prints a part that stands beside another one of the same width.
pub(super) fn print_beside(out: &mut Out, part: Subfield) -> fmt::Result {
    if is_in_port(part) {
        return out.f.write_str("OXM_OF_IN_PORT[]");
    }
    if part == narrowed(Subfield::whole(Field::InPort), part.bits) {
        return out.f.write_str("NXM_OF_IN_PORT[]");
    }
    print(out, part)
}
