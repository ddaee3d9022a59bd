//! Meters: `meter=N,kbps|pktps,burst,stats,bands=type=drop,rate=N,burst_size=N,...`.

use super::Out;
use super::error::{Reason, TextError};
use super::piece::{Piece, Word};
use crate::modify::{Band, MeterCommand, MeterFlags, MeterMod};
use std::fmt;

/// Meters with names; all others are below the first one.
const NAMED: &[(&str, u32)] = &[("slowpath", 0xffff_fffd), ("controller", 0xffff_fffe), ("all", ALL_METERS)];
const ALL_METERS: u32 = 0xffff_ffff;
const MAX_METER: u32 = 0xffff_0000;

const TYPE: Reason = Reason::Expected("`type=drop` or `type=dscp_remark` before the other words of a band");

/// Parses a meter. See [`super::parse_meter`].
pub(super) fn parse(text: Piece, command: MeterCommand) -> Result<MeterMod, TextError> {
    let (mut meter, mut id, mut in_bands) =
        (MeterMod { command, flags: MeterFlags::default(), id: ALL_METERS, bands: Vec::new() }, None, false);
    let deletes = command == MeterCommand::Delete;
    for word in text.words() {
        let word = word?;
        if in_bands {
            band(&mut meter.bands, word)?;
            continue;
        }
        match word.key.text {
            "meter" => id = Some(number(word.required()?.value)?),
            _ if deletes => return Err(word.key.error(Reason::Command)),
            "kbps" => meter.flags.packets = false,
            "pktps" => meter.flags.packets = true,
            "burst" => meter.flags.burst = true,
            "stats" => meter.flags.stats = true,
            "band" | "bands" => {
                in_bands = true;
                if !word.value.text.is_empty() {
                    band(&mut meter.bands, word.value.only_word()?)?;
                }
            }
            _ => return Err(word.key.error(Reason::Expected("meter, kbps, pktps, burst, stats or bands"))),
        }
    }
    meter.id =
        id.or(deletes.then_some(ALL_METERS)).ok_or_else(|| text.error(Reason::Missing("`meter=NUMBER`")))?;
    if !deletes {
        check(&meter, text)?;
    }
    Ok(meter)
}

fn number(text: Piece) -> Result<u32, TextError> {
    if let Some((_, id)) = NAMED.iter().find(|(name, _)| *name == text.text) {
        return Ok(*id);
    }
    let id = text.number(MAX_METER.into())? as u32;
    if id == 0 { Err(text.error(Reason::Expected("a meter from 1"))) } else { Ok(id) }
}

fn band(bands: &mut Vec<Band>, word: Word) -> Result<(), TextError> {
    if word.key.text == "type" {
        let remark = match word.value.text {
            "drop" => None,
            "dscp_remark" => Some(0),
            _ => return Err(word.value.error(TYPE)),
        };
        bands.push(Band { rate: 0, burst: 0, remark });
        return Ok(());
    }
    let band = bands.last_mut().ok_or_else(|| word.key.error(TYPE))?;
    match (word.key.text, band.remark) {
        ("rate", _) => band.rate = word.integer()?,
        ("burst_size", _) => band.burst = word.integer()?,
        ("prec_level", Some(_)) => band.remark = Some(word.integer()?),
        ("prec_level", None) => {
            return Err(word.key.error(Reason::Expected("type=dscp_remark for prec_level")));
        }
        _ => return Err(word.key.error(Reason::Expected("type, rate, burst_size or prec_level"))),
    }
    Ok(())
}

/// Checks what a meter must contain.
fn check(meter: &MeterMod, text: Piece) -> Result<(), TextError> {
    let bursts = |band: &Band| (band.burst != 0) == meter.flags.burst;
    let missing = if meter.bands.is_empty() {
        "a band, such as `bands=type=drop,rate=1000`"
    } else if meter.bands.iter().any(|band| band.rate == 0) {
        "`rate=` above 0 in a band"
    } else if meter.bands.iter().any(|band| band.remark == Some(0)) {
        "`prec_level=` above 0 in a band of type dscp_remark"
    } else if !meter.bands.iter().all(bursts) {
        "`burst` with `burst_size=` above 0 in every band, or neither"
    } else {
        return Ok(());
    };
    Err(text.error(Reason::Missing(missing)))
}

/// Prints a meter as `ovs-ofctl dump-meters` does: one line, and one more for each band.
pub(super) fn print(out: &mut Out, meter: &MeterMod) -> fmt::Result {
    match NAMED.iter().find(|(_, id)| *id == meter.id) {
        Some((name, _)) => write!(out.f, "meter={name}")?,
        None => write!(out.f, "meter={}", meter.id)?,
    }
    if meter.command == MeterCommand::Delete {
        return Ok(());
    }
    out.f.write_str(if meter.flags.packets { " pktps" } else { " kbps" })?;
    for (flag, name) in [(meter.flags.burst, " burst"), (meter.flags.stats, " stats")] {
        out.f.write_str(if flag { name } else { "" })?;
    }
    out.f.write_str(" bands=")?;
    meter.bands.iter().try_for_each(|band| print_band(out, *band, meter.flags.burst))
}

fn print_band(out: &mut Out, band: Band, burst: bool) -> fmt::Result {
    let kind = if band.remark.is_some() { "dscp_remark" } else { "drop" };
    write!(out.f, "\ntype={kind} rate={}", band.rate)?;
    if burst {
        write!(out.f, " burst_size={}", band.burst)?;
    }
    band.remark.map_or(Ok(()), |level| write!(out.f, " prec_level={level}"))
}
