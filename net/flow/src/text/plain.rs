//! Actions with at most one number as argument: one table for parsing and printing.

use super::Out;
use super::error::{Reason, TextError};
use super::piece::Word;
use crate::action::Action;
use std::fmt;

/// How the argument is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Argument {
    /// `name`
    Nothing,
    /// `name:1`
    Decimal,
    /// `name:0x8100`
    Hex,
    /// `name(1)`
    Call,
}

/// An action of the table.
pub(super) struct Plain {
    /// Names; the first one is printed.
    names: &'static [&'static str],
    argument: Argument,
    max: u32,
    /// Allowed values; all up to `max` if empty.
    among: &'static [u32],
    make: fn(u32) -> Action,
    read: fn(&Action) -> Option<u32>,
}

macro_rules! plain {
    ($($names:expr, $argument:ident, $max:expr, $among:expr, $kind:ident $(($type:ty))?;)*) => {
        &[$(Plain {
            names: &$names,
            argument: Argument::$argument,
            max: $max as u32,
            among: &$among,
            make: plain!(@make $kind $(($type))?),
            read: plain!(@read $kind $(($type))?),
        },)*]
    };
    (@make $kind:ident) => { |_| Action::$kind };
    (@make $kind:ident ($type:ty)) => { |value| Action::$kind(value as $type) };
    (@read $kind:ident) => { |action| matches!(action, Action::$kind).then_some(0) };
    (@read $kind:ident ($type:ty)) => {
        |action| if let Action::$kind(value) = action { Some(u32::from(*value)) } else { None }
    };
}

const TABLE: &[Plain] = plain! {
    ["group"], Decimal, u32::MAX, [], Group(u32);
    ["meter"], Decimal, u32::MAX, [], Meter(u32);
    ["mod_nw_ttl", "set_nw_ttl"], Decimal, u8::MAX, [], SetNwTtl(u8);
    ["push_vlan"], Hex, u16::MAX, [0x8100, 0x88a8], PushVlan(u16);
    ["push_mpls"], Hex, u16::MAX, [0x8847, 0x8848], PushMpls(u16);
    ["pop_mpls"], Hex, u16::MAX, [], PopMpls(u16);
    ["push_pbb"], Hex, u16::MAX, [0x88e7], PushPbb(u16);
    ["set_mpls_ttl"], Call, u8::MAX, [], SetMplsTtl(u8);
    ["pop_vlan", "strip_vlan"], Nothing, 0, [], PopVlan;
    ["pop_pbb"], Nothing, 0, [], PopPbb;
    ["dec_mpls_ttl"], Nothing, 0, [], DecMplsTtl;
    ["copy_ttl_out"], Nothing, 0, [], CopyTtlOut;
    ["copy_ttl_in"], Nothing, 0, [], CopyTtlIn;
    ["ct_clear"], Nothing, 0, [], CtClear;
    ["exit"], Nothing, 0, [], Exit;
};

/// Names, for suggestions.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().flat_map(|plain| plain.names.iter().copied())
}

/// The action of a word, or `None` if it is not in the table.
pub(super) fn parse(word: Word) -> Option<Result<Action, TextError>> {
    let plain = TABLE.iter().find(|plain| plain.names.iter().any(|name| word.key.is(name)))?;
    Some(plain.parse(word))
}

/// Prints an action of the table; nothing for others.
pub(super) fn print(out: &mut Out, action: &Action) -> fmt::Result {
    let found = TABLE.iter().find_map(|plain| Some((plain, (plain.read)(action)?)));
    let Some((plain, value)) = found else { return Ok(()) };
    let name = plain.names[0];
    match plain.argument {
        Argument::Nothing => out.f.write_str(name),
        Argument::Decimal => write!(out.f, "{name}:{value}"),
        Argument::Hex => write!(out.f, "{name}:{value:#06x}"),
        Argument::Call => write!(out.f, "{name}({value})"),
    }
}

impl Plain {
    fn parse(&self, word: Word) -> Result<Action, TextError> {
        if self.argument == Argument::Nothing {
            let is_empty = word.value.text.is_empty();
            let error = || word.value.error(Reason::Expected("no argument"));
            return is_empty.then(|| (self.make)(0)).ok_or_else(error);
        }
        let value = word.required()?.value.number(self.max.into())? as u32;
        if !self.among.is_empty() && !self.among.contains(&value) {
            let expected = match self.among {
                [0x8100, ..] => "0x8100 or 0x88a8",
                [0x8847, ..] => "0x8847 or 0x8848",
                _ => "0x88e7",
            };
            return Err(word.value.error(Reason::Expected(expected)));
        }
        Ok((self.make)(value))
    }
}
