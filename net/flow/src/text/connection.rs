//! `ct`: connection tracking and translation of addresses.

use super::actions::{self, Context};
use super::error::{Reason, TextError};
use super::piece::{Piece, Word};
use super::{Out, Separated, control, part, value};
use crate::action::{Action, ConnectionTracking, LearnValue, Nat, NatRange};
use std::fmt::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

type Parsed = Result<(), TextError>;

/// Width of a zone.
const ZONE_BITS: u8 = 16;
const DEFAULT_ZONE: LearnValue = LearnValue::Constant(0, ZONE_BITS);

/// Helpers, and the ports that name them.
const HELPERS: &[(&str, u16)] = &[("ftp", 21), ("tftp", 69)];

/// `ct([commit],[force],[table=N],[zone=N or PART],[nat(...)],[exec(...)],[alg=NAME])`.
pub(super) fn ct(word: Word, context: &mut Context, found: &mut Vec<Action>) -> Parsed {
    let mut tracking = ConnectionTracking {
        commit: false,
        force: false,
        zone: DEFAULT_ZONE,
        table: None,
        helper: 0,
        nat: None,
        actions: Vec::new(),
    };
    word.value.words().try_for_each(|word| argument(&mut tracking, word?, context))?;
    if tracking.force && !tracking.commit {
        return Err(word.value.error(Reason::Missing("`commit`, which `force` requires")));
    }
    found.push(Action::Ct(Box::new(tracking)));
    Ok(())
}

fn argument(tracking: &mut ConnectionTracking, word: Word, context: &mut Context) -> Parsed {
    match word.key.text {
        "commit" => tracking.commit = true,
        "force" => tracking.force = true,
        "table" => tracking.table = Some(control::table(word.required()?.value)?),
        "zone" => tracking.zone = zone(word.required()?.value)?,
        "alg" => {
            let named = HELPERS.iter().find(|(name, _)| word.value.is(name));
            tracking.helper = named.map_or_else(|| word.integer(), |(_, port)| Ok(*port))?;
        }
        "nat" => tracking.nat = Some(nat(word.value)?),
        "exec" => tracking.actions = context.nested(word.required()?.value, true)?,
        _ => return Err(word.key.error(Reason::Expected("commit, force, table, zone, nat, exec or alg"))),
    }
    Ok(())
}

fn zone(text: Piece) -> Result<LearnValue, TextError> {
    if text.text.starts_with(|c: char| c.is_ascii_digit()) {
        return Ok(LearnValue::Constant(text.integer::<u16>()?.into(), ZONE_BITS));
    }
    let part = part::parse(text)?;
    let valid = part.bits == ZONE_BITS;
    if valid { Ok(LearnValue::Field(part)) } else { Err(text.error(Reason::Widths(part.bits, ZONE_BITS))) }
}

fn nat(text: Piece) -> Result<Nat, TextError> {
    let mut nat = Nat::default();
    for word in text.words() {
        let word = word?;
        match word.key.text {
            "src" | "dst" if nat.source.is_some() => return Err(word.key.error(Reason::Contradiction)),
            key @ ("src" | "dst") => {
                nat.source = Some(key == "src");
                nat.range = range(word.value)?;
            }
            "persistent" => nat.persistent = true,
            "hash" => nat.hash = true,
            "random" => nat.random = true,
            _ => return Err(word.key.error(Reason::Expected("src, dst, persistent, hash or random"))),
        }
    }
    if nat.source.is_none() && (nat.persistent || nat.hash || nat.random) {
        return Err(text.error(Reason::Missing("`src` or `dst`, which options of `nat` require")));
    }
    if nat.hash && nat.random { Err(text.error(Reason::Contradiction)) } else { Ok(nat) }
}

/// `ADDRESS[-ADDRESS][:PORT[-PORT]]`. IPv6 addresses stand in brackets if ports follow.
fn range(text: Piece) -> Result<NatRange, TextError> {
    if text.text.is_empty() {
        return Ok(NatRange::default());
    }
    let (addresses, ports) = divide(text);
    let ports = ports.map(|ports| ends(ports, Piece::integer::<u16>)).transpose()?;
    let addresses = Some(addresses).filter(|addresses| !addresses.text.is_empty());
    let addresses = addresses.map(|addresses| ends(addresses, address)).transpose()?;
    let is_mixed = addresses.is_some_and(|(first, last)| first.is_ipv4() != last.is_ipv4());
    let is_reversed =
        addresses.is_some_and(|(first, last)| first > last) || ports.is_some_and(|(a, b)| a > b);
    if is_mixed || is_reversed {
        return Err(
            text.error(Reason::Expected("a range of one family whose first end is not above its last"))
        );
    }
    Ok(NatRange { addresses, ports })
}

/// Addresses and ports: the ports follow the last colon, unless that belongs to an IPv6 address without brackets.
fn divide(text: Piece) -> (Piece, Option<Piece>) {
    let is_bare_ipv6 = !text.text.contains('[') && text.text.matches(':').count() > 1;
    match text.text.rfind(':').filter(|at| !is_bare_ipv6 && !text.text[*at..].contains(']')) {
        Some(at) => (text.cut(at).0, Some(text.after(at + 1))),
        None => (text, None),
    }
}

/// Both ends of `FIRST[-LAST]`.
fn ends<'a, T: Copy>(
    text: Piece<'a>,
    parse: impl Fn(Piece<'a>) -> Result<T, TextError>,
) -> Result<(T, T), TextError> {
    let (first, last) = text.split_or_all("-");
    let first = parse(first)?;
    Ok((first, last.map_or(Ok(first), parse)?))
}

fn address(text: Piece) -> Result<IpAddr, TextError> {
    let bare = text.text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let ipv4 = || text.text.parse::<Ipv4Addr>().map(IpAddr::V4);
    let address = bare.unwrap_or(text.text).parse::<Ipv6Addr>().map(IpAddr::V6).or_else(|_| ipv4());
    address.map_err(|_| text.error(Reason::Expected("an IPv4 address, or an IPv6 address in brackets")))
}

/// Prints the action.
pub(super) fn print(out: &mut Out, tracking: &ConnectionTracking) -> fmt::Result {
    let ConnectionTracking { commit, force, zone, table, helper, nat, actions } = tracking;
    let mut list = Separated::default();
    out.f.write_str("ct(")?;
    for (flag, name) in [(*commit, "commit"), (*force, "force")] {
        if flag {
            list.item(out)?;
            out.f.write_str(name)?;
        }
    }
    if let Some(table) = table {
        list.item(out)?;
        write!(out.f, "table={}", table.0)?;
    }
    if *zone != DEFAULT_ZONE {
        list.item(out)?;
        print_zone(out, *zone)?;
    }
    if let Some(nat) = nat {
        list.item(out)?;
        print_nat(out, nat)?;
    }
    if !actions.is_empty() {
        list.item(out)?;
        out.f.write_str("exec(")?;
        actions::print_list(out, actions)?;
        out.f.write_str(")")?;
    }
    if *helper != 0 {
        list.item(out)?;
        print_helper(out, *helper)?;
    }
    out.f.write_str(")")
}

fn print_zone(out: &mut Out, zone: LearnValue) -> fmt::Result {
    out.f.write_str("zone=")?;
    match zone {
        LearnValue::Constant(zone, _) => write!(out.f, "{zone}"),
        LearnValue::Field(part) => part::print(out, part),
    }
}

fn print_helper(out: &mut Out, helper: u16) -> fmt::Result {
    match HELPERS.iter().find(|(_, port)| *port == helper) {
        Some((name, _)) => write!(out.f, "alg={name}"),
        None => write!(out.f, "alg={helper}"),
    }
}

fn print_nat(out: &mut Out, nat: &Nat) -> fmt::Result {
    let Some(source) = nat.source else { return out.f.write_str("nat") };
    write!(out.f, "nat({}", if source { "src" } else { "dst" })?;
    let NatRange { addresses, ports } = nat.range;
    if addresses.is_some() || ports.is_some() {
        out.f.write_char('=')?;
    }
    if let Some((first, last)) = addresses {
        print_address(out, first, ports.is_some())?;
        if first != last {
            out.f.write_char('-')?;
            print_address(out, last, ports.is_some())?;
        }
    }
    match ports {
        Some((first, last)) if first != last => write!(out.f, ":{first}-{last}")?,
        Some((port, _)) => write!(out.f, ":{port}")?,
        None => {}
    }
    for (flag, name) in [(nat.persistent, "persistent"), (nat.hash, "hash"), (nat.random, "random")] {
        if flag {
            write!(out.f, ",{name}")?;
        }
    }
    out.f.write_char(')')
}

fn print_address(out: &mut Out, address: IpAddr, brackets: bool) -> fmt::Result {
    match address {
        IpAddr::V4(address) => write!(out.f, "{address}"),
        IpAddr::V6(address) => {
            out.f.write_str(if brackets { "[" } else { "" })?;
            value::print_ipv6(out.f, address.into())?;
            out.f.write_str(if brackets { "]" } else { "" })
        }
    }
}
