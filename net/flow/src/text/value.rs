//! Values of fields: numbers, addresses, ports and names of bits.

use super::Out;
use super::PortNames;
use super::error::{Reason, TextError};
use super::names::{Flags, Form};
use super::piece::Piece;
use super::port;
use crate::field::Field;
use crate::modify::PortNo;
use std::fmt::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Parses `VALUE` or `VALUE/MASK`. Bits of the value outside of the mask are cleared, as ovs-ofctl does.
pub(super) fn parse(
    text: Piece,
    field: Field,
    form: Form,
    ports: &dyn PortNames,
) -> Result<(u128, u128), TextError> {
    let full = field.full();
    if text.text == "*" {
        return Ok((0, 0));
    }
    let (value, mask) = match form {
        Form::Port if text.is_quoted() || !text.text.contains('/') => {
            (u128::from(port::parse(text, ports)?.0), full)
        }
        Form::Frag => frag(text)?,
        Form::Flags(flags) => flags.parse(text, full)?,
        Form::Decimal | Form::Hex | Form::Port => masked(text, full, |part| part.number(full))?,
        Form::Mac => masked(text, full, mac)?,
        Form::Ipv4 => masked(text, full, |part| ipv4(part, text))?,
        Form::Ipv6 => masked(text, full, |part| ipv6(part, text))?,
    };
    Ok((value & mask, mask))
}

/// Parses `VALUE`, with a mask only if it covers the field.
pub(super) fn parse_exact(
    text: Piece,
    field: Field,
    form: Form,
    ports: &dyn PortNames,
) -> Result<u128, TextError> {
    let (value, mask) = parse(text, field, form, ports)?;
    let all = if let Form::Flags(flags) = form { flags.all } else { field.full() };
    if mask == field.full() || mask == all {
        Ok(value)
    } else {
        Err(text.error(Reason::Expected("a value without a mask")))
    }
}

fn masked(
    text: Piece,
    full: u128,
    parse: impl Fn(Piece) -> Result<u128, TextError>,
) -> Result<(u128, u128), TextError> {
    let (value, mask) = text.split_or_all("/");
    Ok((parse(value)?, mask.map_or(Ok(full), parse)?))
}

fn mac(text: Piece) -> Result<u128, TextError> {
    let octet =
        |part: &str| u8::from_str_radix(part, 16).ok().filter(|_| part.len() <= 2 && !part.starts_with('+'));
    let octets: Option<Vec<u8>> = text.text.split(':').take(7).map(octet).collect();
    let octets = octets.filter(|octets| octets.len() == 6);
    let octets =
        octets.ok_or_else(|| text.error(Reason::Expected("an Ethernet address, as in 02:00:00:00:00:01")))?;
    Ok(octets.iter().fold(0, |address, octet| address << 8 | u128::from(*octet)))
}

/// Whether `part` is the mask of `whole`, which may be a length.
fn is_mask(part: Piece, whole: Piece) -> bool {
    part.at != whole.at
}

fn ipv4(part: Piece, whole: Piece) -> Result<u128, TextError> {
    if is_mask(part, whole) && !part.text.contains('.') {
        return prefix(part, 32);
    }
    let address: Option<Ipv4Addr> = part.text.parse().ok();
    let address = address.ok_or_else(|| part.error(Reason::Expected("an IPv4 address, as in 192.0.2.1")))?;
    Ok(u128::from(u32::from(address)))
}

fn ipv6(part: Piece, whole: Piece) -> Result<u128, TextError> {
    if is_mask(part, whole) && !part.text.contains(':') {
        return prefix(part, 128);
    }
    let address: Option<Ipv6Addr> = part.text.parse().ok();
    Ok(u128::from(address.ok_or_else(|| part.error(Reason::Expected("an IPv6 address, as in 2001:db8::1")))?))
}

/// The mask of a prefix of this length.
fn prefix(length: Piece, bits: u8) -> Result<u128, TextError> {
    let length = length.number(bits.into())? as u32;
    let full = u128::MAX >> (128 - bits);
    Ok(full & !full.checked_shr(length).unwrap_or(0))
}

/// Words for fragments: name, mask and value of `ip_frag`.
const FRAGMENTS: &[(&str, u128, u128)] = &[
    ("no", 3, 0),
    ("first", 3, 1),
    ("later", 3, 3),
    ("no", 1, 0),
    ("yes", 1, 1),
    ("not_later", 2, 0),
    ("later", 2, 2),
];

fn frag(text: Piece) -> Result<(u128, u128), TextError> {
    let found = FRAGMENTS.iter().find(|(name, ..)| text.is(name)).map(|(_, mask, value)| (*value, *mask));
    found.ok_or_else(|| text.error(Reason::Expected("no, yes, first, later or not_later")))
}

impl Flags {
    /// Parses `NAME|NAME` (all bits), `+NAME-NAME` (some bits) or numbers.
    fn parse(&self, text: Piece, full: u128) -> Result<(u128, u128), TextError> {
        let number = |part: Piece| part.number(full);
        if text.text.starts_with(['+', '-']) {
            return self.signed(text);
        }
        if text.text.contains('/') {
            return masked(text, full, number);
        }
        let mut value = 0;
        let mut rest = Some(text);
        while let Some(piece) = rest {
            let (name, after) = piece.split_or_all("|");
            value |= self.bit(name).map_or_else(|| number(name), Ok).map_err(|_| self.unknown(name))?;
            rest = after;
        }
        Ok((value, if self.all == 0 { full } else { self.all }))
    }

    fn signed(&self, text: Piece) -> Result<(u128, u128), TextError> {
        let (mut value, mut mask, mut rest) = (0, 0, text);
        while !rest.text.is_empty() {
            let (sign, names) = (rest.text.starts_with('+'), rest.after(1));
            let (name, after) = names.cut(names.text.find(['+', '-']).unwrap_or(names.text.len()));
            let bit = self.bit(name).ok_or_else(|| self.unknown(name))?;
            if mask & bit != 0 {
                return Err(name.error(Reason::Contradiction));
            }
            mask |= bit;
            value |= if sign { bit } else { 0 };
            rest = after;
        }
        Ok((value, mask))
    }

    fn bit(&self, name: Piece) -> Option<u128> {
        self.names.iter().position(|other| name.is(other)).map(|at| 1 << at)
    }

    fn unknown(&self, name: Piece) -> TextError {
        let known: &'static str = match self.names.len() {
            1 => "oam",
            8 => "new, est, rel, rpl, inv, trk, snat or dnat, each after + or -, or all with |",
            _ => "fin, syn, rst, psh, ack, urg, ece, cwr or ns, each after + or -, or all with |",
        };
        name.error(Reason::Expected(known))
    }

    fn print(&self, f: &mut fmt::Formatter, value: u128, mask: u128, full: u128) -> fmt::Result {
        let known = (1 << self.names.len()) - 1;
        if self.all != 0 && (mask == self.all || mask == full) {
            return self.print_all(f, value & self.all);
        }
        if mask & !known != 0 {
            return write!(f, "{value:#x}/{mask:#x}");
        }
        for (at, name) in self.names.iter().enumerate().filter(|(at, _)| mask >> at & 1 != 0) {
            write!(f, "{}{name}", if value >> at & 1 != 0 { '+' } else { '-' })?;
        }
        Ok(())
    }

    fn print_all(&self, f: &mut fmt::Formatter, value: u128) -> fmt::Result {
        if value == 0 {
            return f.write_char('0');
        }
        let set = self.names.iter().enumerate().filter(|(at, _)| value >> at & 1 != 0);
        for (i, (_, name)) in set.enumerate() {
            write!(f, "{}{name}", if i > 0 { "|" } else { "" })?;
        }
        Ok(())
    }
}

/// How numbers look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// Least hexadecimal digits; with 0, zero is printed without `0x`.
    pub digits: usize,
    /// Whether decimal numbers with a mask are printed in hexadecimal.
    pub hex_if_masked: bool,
}

impl Look {
    /// In actions.
    pub(super) const ACTION: Self = Self { digits: 1, hex_if_masked: false };
    /// In matches.
    pub(super) const MATCH: Self = Self { digits: 0, hex_if_masked: true };
}

struct HexDigits(u128, usize);

impl fmt::Display for HexDigits {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let (value, digits) = (self.0, self.1);
        if value == 0 && digits == 0 { f.write_char('0') } else { write!(f, "0x{value:0digits$x}") }
    }
}

/// Prints a value, and its mask unless that covers the field.
pub(super) fn print(
    out: &mut Out,
    field: Field,
    form: Form,
    (value, mask): (u128, u128),
    look: Look,
) -> fmt::Result {
    let exact = mask == field.full();
    match form {
        Form::Port if exact => port::print(out, PortNo(value as u32)),
        Form::Decimal if exact => write!(out.f, "{value}"),
        Form::Decimal | Form::Port if !look.hex_if_masked => write!(out.f, "{value}/{mask:#x}"),
        Form::Decimal | Form::Port => write!(out.f, "{value:#x}/{mask:#x}"),
        Form::Hex => {
            write!(out.f, "{}", HexDigits(value, look.digits))?;
            if exact { Ok(()) } else { write!(out.f, "/{}", HexDigits(mask, look.digits)) }
        }
        Form::Mac => {
            print_mac(out.f, value)?;
            if exact { Ok(()) } else { out.f.write_char('/').and_then(|()| print_mac(out.f, mask)) }
        }
        Form::Ipv4 => {
            write!(out.f, "{}", Ipv4Addr::from(value as u32))?;
            print_prefix(out.f, mask, 32, |f| write!(f, "{}", Ipv4Addr::from(mask as u32)))
        }
        Form::Ipv6 => {
            print_ipv6(out.f, value)?;
            print_prefix(out.f, mask, 128, |f| print_ipv6(f, mask))
        }
        Form::Frag => {
            let word = FRAGMENTS.iter().find(|row| row.1 == mask && row.2 == value);
            out.f.write_str(word.map_or("", |row| row.0))
        }
        Form::Flags(flags) => flags.print(out.f, value, mask, field.full()),
    }
}

fn print_mac(f: &mut fmt::Formatter, value: u128) -> fmt::Result {
    let [_, _, octets @ ..] = (value as u64).to_be_bytes();
    octets
        .iter()
        .enumerate()
        .try_for_each(|(i, octet)| write!(f, "{}{octet:02x}", if i > 0 { ":" } else { "" }))
}

/// Nothing for a complete mask, its length for a prefix, and the mask otherwise.
fn print_prefix(
    f: &mut fmt::Formatter,
    mask: u128,
    bits: u32,
    full: impl Fn(&mut fmt::Formatter) -> fmt::Result,
) -> fmt::Result {
    let length = (mask << (128 - bits)).leading_ones();
    match length {
        _ if length != mask.count_ones() => f.write_char('/').and_then(|()| full(f)),
        _ if length == bits => Ok(()),
        _ => write!(f, "/{length}"),
    }
}

/// As the C library prints it, which differs for addresses with an embedded IPv4 address.
pub(super) fn print_ipv6(f: &mut fmt::Formatter, value: u128) -> fmt::Result {
    if value >> 32 == 0 && value >> 16 != 0 {
        return write!(f, "::{}", Ipv4Addr::from(value as u32));
    }
    write!(f, "{}", Ipv6Addr::from(value))
}
