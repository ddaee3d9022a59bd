//! Meters (OpenFlow 1.3.5, 7.3.4.4, 7.3.5.12 to 7.3.5.14).

use crate::bytes::{Put, Reader, record};
use crate::error::ErrorCode;
use crate::group::read_entry;
use flow::{Band, MeterCommand, MeterFlags, MeterMod};
use std::time::Duration;

/// Every meter; in requests and removals.
pub const ALL_METERS: u32 = 0xffff_ffff;

const COMMANDS: [MeterCommand; 3] = [MeterCommand::Add, MeterCommand::Modify, MeterCommand::Delete];
const KBPS: u16 = 1;
const PACKETS: u16 = 2;
const BURST: u16 = 4;
const STATS: u16 = 8;
const DROP: u16 = 1;
const REMARK: u16 = 2;
const BAND_LEN: u16 = 16;

fn read_flags(bits: u16) -> Result<MeterFlags, ErrorCode> {
    if bits & (KBPS | PACKETS) == KBPS | PACKETS || bits & !0xf != 0 {
        return Err(ErrorCode::MeterBadFlags);
    }
    Ok(MeterFlags { packets: bits & PACKETS != 0, burst: bits & BURST != 0, stats: bits & STATS != 0 })
}

fn flag_bits(flags: MeterFlags) -> u16 {
    let unit = if flags.packets { PACKETS } else { KBPS };
    unit | (u16::from(flags.burst) * BURST) | (u16::from(flags.stats) * STATS)
}

pub(crate) fn read_mod(from: &mut Reader<'_>) -> Result<MeterMod, ErrorCode> {
    let command = COMMANDS.get(usize::from(from.u16()?)).copied().ok_or(ErrorCode::MeterBadCommand)?;
    let (flags, id) = (read_flags(from.u16()?)?, from.u32()?);
    Ok(MeterMod { command, flags, id, bands: from.repeat(read_band)? })
}

pub(crate) fn write_mod(out: &mut Vec<u8>, change: &MeterMod) {
    out.put_u16(COMMANDS.iter().position(|known| *known == change.command).unwrap_or(0) as u16);
    out.put_u16(flag_bits(change.flags));
    out.put_u32(change.id);
    change.bands.iter().for_each(|band| write_band(out, band));
}

fn read_band(from: &mut Reader<'_>) -> Result<Band, ErrorCode> {
    let (kind, len) = (from.u16()?, from.u16()?);
    if ![DROP, REMARK].contains(&kind) {
        return Err(ErrorCode::MeterBadBand);
    }
    if len != BAND_LEN {
        return Err(ErrorCode::RequestBadLen);
    }
    let (rate, burst, level) = (from.u32()?, from.u32()?, from.u8()?);
    from.skip(3)?;
    Ok(Band { rate, burst, remark: (kind == REMARK).then_some(level) })
}

fn write_band(out: &mut Vec<u8>, band: &Band) {
    out.put_u16(if band.remark.is_some() { REMARK } else { DROP });
    out.put_u16(BAND_LEN);
    out.put_u32(band.rate);
    out.put_u32(band.burst);
    out.put_u8(band.remark.unwrap_or(0));
    out.put_zeros(3);
}

/// A meter as it was configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterConfig {
    /// Unit and options.
    pub flags: MeterFlags,
    /// Number.
    pub id: u32,
    /// Bands.
    pub bands: Vec<Band>,
}

impl MeterConfig {
    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self, ErrorCode> {
        let mut body = read_entry(from)?;
        let (flags, id) = (read_flags(body.u16()?)?, body.u32()?);
        Ok(Self { flags, id, bands: body.repeat(read_band)? })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.put_u16(0);
        out.put_u16(flag_bits(self.flags));
        out.put_u32(self.id);
        self.bands.iter().for_each(|band| write_band(out, band));
        out.patch_len(start, start);
    }
}

record! {
    /// Counters of a band.
    pub struct BandStats {
        /// Packets above its rate.
        packets: u64,
        /// Bytes above its rate.
        bytes: u64,
    }
}

/// Counters of a meter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MeterStats {
    /// Number.
    pub id: u32,
    /// Flows that use it.
    pub flows: u32,
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// Age.
    pub duration: Duration,
    /// Counters of its bands.
    pub bands: Vec<BandStats>,
}

impl MeterStats {
    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self, ErrorCode> {
        let (id, len) = (from.u32()?, usize::from(from.u16()?));
        let mut body = from.take(len.checked_sub(6).ok_or(ErrorCode::RequestBadLen)?)?;
        body.skip(6)?;
        let (flows, packets, bytes, duration) = (body.u32()?, body.u64()?, body.u64()?, body.get()?);
        Ok(Self { id, flows, packets, bytes, duration, bands: body.all()? })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.put_u32(self.id);
        out.put_zeros(8);
        out.put_u32(self.flows);
        out.put_u64(self.packets);
        out.put_u64(self.bytes);
        out.put(&self.duration);
        self.bands.iter().for_each(|band| out.put(band));
        out.patch_len(start, start + 4);
    }
}

record! {
    /// Capabilities of meters.
    pub struct MeterFeatures {
        /// Maximum number of meters.
        max_meters: u32,
        /// Bits of supported bands.
        bands: u32,
        /// Bits of supported flags.
        capabilities: u32,
        /// Maximum number of bands of a meter.
        max_bands: u8,
        /// Maximum colour.
        max_color: u8,
    } [2]
}
