//! Actions that write fields.

use super::actions::Context;
use super::error::{Reason, TextError};
use super::names::{find, meant, named};
use super::piece::{Piece, Word};
use super::value::{self, Look};
use super::{Out, part};
use crate::action::{Action, Subfield};
use crate::field::{Access, Field, Prerequisite};
use std::fmt;

type Parsed = Result<(), TextError>;

/// Actions of OpenFlow 1.0 that set a whole field.
const WHOLE: &[(&str, Field)] = &[
    ("mod_dl_src", Field::EthSrc),
    ("mod_dl_dst", Field::EthDst),
    ("mod_nw_src", Field::Ipv4Src),
    ("mod_nw_dst", Field::Ipv4Dst),
    ("mod_nw_ecn", Field::IpEcn),
    ("set_mpls_label", Field::MplsLabel),
    ("set_mpls_tc", Field::MplsTc),
    ("set_tunnel", Field::TunnelId),
    ("set_tunnel64", Field::TunnelId),
];

/// Reserved ports in the 16 bits of OpenFlow 1.0, in which `load` writes them.
const RESERVED_16: u128 = 0xfff8;
const VLAN_PRESENT: u128 = 0x1000;
const VLAN_TPID: u16 = 0x8100;

/// Names, for suggestions.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    WHOLE.iter().map(|(name, _)| *name)
}

fn whole(field: Field, value: u128) -> Action {
    Action::SetField { field, value, mask: field.full() }
}

/// The action of a word, or `None` if it does not set a whole field.
pub(super) fn parse(word: Word, context: &Context) -> Option<Result<Action, TextError>> {
    let (_, field) = WHOLE.iter().find(|(name, _)| word.key.is(name))?;
    let text = word.required().map(|word| word.value);
    let value = text.and_then(|text| value::parse_exact(text, *field, named(*field).form, context.ports));
    Some(value.map(|value| whole(*field, value)))
}

/// The text before and after the last `->`.
fn arrow(text: Piece) -> Result<(Piece, Piece), TextError> {
    let at = text.text.rfind("->").ok_or_else(|| text.error(Reason::Expected("`VALUE->FIELD`")))?;
    Ok((text.cut(at).0.trim(), text.after(at + 2).trim()))
}

/// `set_field:VALUE[/MASK]->FIELD`.
pub(super) fn set_field(word: Word, context: &mut Context, found: &mut Vec<Action>) -> Parsed {
    let (text, name) = arrow(word.value)?;
    let (named, shift) = find(name)?;
    let is_shared = name.text.starts_with("tp_");
    let field = if is_shared { meant(name.text, named.field, &context.matching) } else { named.field };
    let info = field.info();
    if info.access == Access::Read {
        return Err(name.error(Reason::ReadOnly(info.name)));
    }
    if shift > 0 {
        found.push(whole(field, dscp(text)?));
        return Ok(());
    }
    let (value, mask) = value::parse(text, field, named.form, context.ports)?;
    if mask == 0 {
        return Err(text.error(Reason::Expected("a mask with at least one bit")));
    }
    if field == Field::VlanVid && VLAN_PRESENT & mask & !value != 0 {
        return Err(text.error(Reason::Expected("4096 + VLAN, because bit 12 states that a tag is present")));
    }
    found.push(Action::SetField { field, value, mask });
    Ok(())
}

/// `load:VALUE->PART`.
pub(super) fn load(word: Word, _: &mut Context, found: &mut Vec<Action>) -> Parsed {
    let (text, to) = arrow(word.value)?;
    let to = part::parse_writable(to)?;
    let value = fitting(text, to)?;
    let is_reserved = part::is_in_port(to) && (RESERVED_16..=0xffff).contains(&value);
    let value = if is_reserved { value | 0xffff_0000 } else { value };
    found.push(Action::SetField { field: to.field, value: value << to.offset, mask: to.mask() });
    Ok(())
}

/// A number that fits in a part.
pub(super) fn fitting(text: Piece, to: Subfield) -> Result<u128, TextError> {
    let value = text.number(u128::MAX)?;
    if value & !(u128::MAX >> (128 - to.bits)) == 0 {
        Ok(value)
    } else {
        Err(text.error(Reason::Fit(to.bits)))
    }
}

/// Two parts of the same width: `SOURCE->DESTINATION`.
pub(super) fn parts(text: Piece) -> Result<(Subfield, Subfield), TextError> {
    let (from, to) = arrow(text)?;
    let (from, to) = (part::parse(from)?, part::parse_writable(to)?);
    part::same_width(from, to).map_err(|reason| text.error(reason))
}

/// `move:SOURCE->DESTINATION`.
pub(super) fn copy(word: Word, _: &mut Context, found: &mut Vec<Action>) -> Parsed {
    let (from, to) = parts(word.value)?;
    found.push(Action::Move { from, to });
    Ok(())
}

/// `delete_field:OPTION`.
pub(super) fn delete_field(word: Word, _: &mut Context, found: &mut Vec<Action>) -> Parsed {
    let name = word.required()?.value;
    let field = find(name)?.0.field;
    field.option().ok_or_else(|| name.error(Reason::Expected("tun_metadata0 to tun_metadata7")))?;
    found.push(Action::DeleteField(field));
    Ok(())
}

pub(super) fn push(word: Word, _: &mut Context, found: &mut Vec<Action>) -> Parsed {
    found.push(Action::StackPush(part::parse(word.required()?.value)?));
    Ok(())
}

pub(super) fn pop(word: Word, _: &mut Context, found: &mut Vec<Action>) -> Parsed {
    found.push(Action::StackPop(part::parse_writable(word.required()?.value)?));
    Ok(())
}

/// The upper six bits of a traffic class, whose lower two must be 0.
pub(super) fn dscp(text: Piece) -> Result<u128, TextError> {
    let class = text.number(0xff)?;
    let error = || text.error(Reason::Expected("a multiple of 4 up to 252; the lower bits are nw_ecn"));
    (class & 3 == 0).then_some(class >> 2).ok_or_else(error)
}

pub(super) fn mod_nw_tos(word: Word, _: &mut Context, found: &mut Vec<Action>) -> Parsed {
    found.push(whole(Field::IpDscp, dscp(word.required()?.value)?));
    Ok(())
}

/// `mod_tp_src`, `mod_tp_dst`: the port of the protocol that the flow matches.
pub(super) fn mod_tp(word: Word, context: &mut Context, found: &mut Vec<Action>) -> Parsed {
    let name = if word.key.is("mod_tp_src") { "tp_src" } else { "tp_dst" };
    let field = meant(name, Field::InPort, &context.matching);
    let ports = [Prerequisite::Tcp, Prerequisite::Udp, Prerequisite::Sctp];
    if !ports.contains(&field.info().requires) {
        return Err(word.key.error(Reason::Missing("tcp, udp or sctp in the match of the flow")));
    }
    found.push(whole(field, word.integer::<u16>()?.into()));
    Ok(())
}

/// `mod_vlan_*` pushes a tag if the packet has none; `set_vlan_*` does not.
pub(super) fn vlan(word: Word, context: &mut Context, found: &mut Vec<Action>) -> Parsed {
    let text = word.required()?.value;
    let is_priority = word.key.text.to_ascii_lowercase().ends_with("pcp");
    let action = if is_priority {
        whole(Field::VlanPcp, text.number(Field::VlanPcp.full())?)
    } else {
        whole(Field::VlanVid, text.number(VLAN_PRESENT - 1)? | VLAN_PRESENT)
    };
    let pushes = word.key.text.starts_with(['m', 'M']) && !context.is_tagged;
    found.extend(pushes.then_some(Action::PushVlan(VLAN_TPID)));
    found.push(action);
    Ok(())
}

/// Prints the setting of bits of a field.
pub(super) fn print_set(out: &mut Out, field: Field, value: u128, mask: u128) -> fmt::Result {
    let named = named(field);
    out.f.write_str("set_field:")?;
    value::print(out, field, named.form, (value, mask), Look::ACTION)?;
    write!(out.f, "->{}", named.action_name())
}

pub(super) fn print_copy(out: &mut Out, from: Subfield, to: Subfield) -> fmt::Result {
    out.f.write_str("move:")?;
    part::print_beside(out, from)?;
    out.f.write_str("->")?;
    part::print_beside(out, to)
}

pub(super) fn print_stack(out: &mut Out, name: &str, part: Subfield) -> fmt::Result {
    write!(out.f, "{name}:")?;
    part::print(out, part)
}
