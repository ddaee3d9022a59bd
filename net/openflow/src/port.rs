//! Ports (OpenFlow 1.3.5, 7.2.1, 7.3.4.3 and 7.4.3; OpenFlow 1.4.1 for properties).

use crate::bytes::{Put, Reader, numbered};
use crate::error::{EncodeError, ErrorCode};
use crate::port_no::{read as read_port, write as write_port};
use crate::property;
use crate::version::Version;
use flow::PortNo;
use std::time::Duration;
use wire::MacAddress;

/// Bytes of a port's name.
const NAME: usize = 16;
/// Features have 4 more speeds since OpenFlow 1.1: the bits of the medium and of later features are higher.
const MEDIUM_V10: u32 = 0xf80;
const MEDIUM_SHIFT: u32 = 4;
const SPEEDS_V10: u32 = 0x7f;
/// Property of Ethernet ports.
const ETHERNET: u16 = 0;

/// A port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Number.
    pub number: PortNo,
    /// Address.
    pub address: MacAddress,
    /// Name; at most 15 bytes.
    pub name: String,
    /// Bits of `ofp_port_config`, with those of OpenFlow 1.0 unchanged.
    pub config: u32,
    /// Bits of `ofp_port_state`, with those of OpenFlow 1.0 unchanged.
    pub state: u32,
    /// Bits of current features (`ofp_port_features` of OpenFlow 1.3, in all versions).
    pub current: u32,
    /// Bits of advertised features.
    pub advertised: u32,
    /// Bits of supported features.
    pub supported: u32,
    /// Bits of features that the other side advertises.
    pub peer: u32,
    /// Bit rate in kbit/s; 0 in OpenFlow 1.0.
    pub current_speed: u32,
    /// Maximum bit rate in kbit/s; 0 in OpenFlow 1.0.
    pub max_speed: u32,
}

fn read_features(from: &mut Reader<'_>, version: Version) -> Result<u32, ErrorCode> {
    let bits = from.u32()?;
    let is_old = version == Version::V10;
    Ok(if is_old { bits & SPEEDS_V10 | (bits & MEDIUM_V10) << MEDIUM_SHIFT } else { bits })
}

fn put_features(out: &mut Vec<u8>, bits: u32, version: Version) {
    let is_old = version == Version::V10;
    out.put_u32(if is_old { bits & SPEEDS_V10 | bits >> MEDIUM_SHIFT & MEDIUM_V10 } else { bits });
}

impl Port {
    pub(crate) fn read(from: &mut Reader<'_>, version: Version) -> Result<Self, ErrorCode> {
        let start = from.len();
        let number = read_port(from, version)?;
        let len = match version {
            Version::V10 => 0,
            _ => usize::from(from.u16()?),
        };
        from.skip(if version == Version::V10 { 0 } else { 2 })?;
        let address = from.get()?;
        from.skip(if version == Version::V10 { 0 } else { 2 })?;
        let (name, config, state) = (from.text(NAME)?, from.u32()?, from.u32()?);
        let mut found = Self { config, state, ..Self::new(number, address, name) };
        if version >= Version::V14 {
            let properties = len.checked_sub(start - from.len()).ok_or(ErrorCode::RequestBadLen)?;
            found.read_properties(from.take(properties)?)?;
        } else {
            found.read_ethernet(from, version)?;
        }
        Ok(found)
    }

    /// A port without configuration, state and features.
    pub fn new(number: PortNo, address: MacAddress, name: String) -> Self {
        Self {
            number,
            address,
            name,
            config: 0,
            state: 0,
            current: 0,
            advertised: 0,
            supported: 0,
            peer: 0,
            current_speed: 0,
            max_speed: 0,
        }
    }

    fn read_ethernet(&mut self, from: &mut Reader<'_>, version: Version) -> Result<(), ErrorCode> {
        for features in [&mut self.current, &mut self.advertised, &mut self.supported, &mut self.peer] {
            *features = read_features(from, version)?;
        }
        if version > Version::V10 {
            (self.current_speed, self.max_speed) = (from.u32()?, from.u32()?);
        }
        Ok(())
    }

    /// Properties other than that of Ethernet are skipped.
    fn read_properties(&mut self, mut from: Reader<'_>) -> Result<(), ErrorCode> {
        while !from.is_empty() {
            let (kind, mut value) = property::read(&mut from)?;
            if kind == ETHERNET {
                value.skip(4)?;
                self.read_ethernet(&mut value, Version::V14)?;
            }
        }
        Ok(())
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>, version: Version) -> Result<(), EncodeError> {
        let start = out.len();
        write_port(out, self.number, version)?;
        let padding = if version == Version::V10 { 0 } else { 4 };
        out.put_zeros(padding);
        out.put(&self.address);
        out.put_zeros(padding / 2);
        out.put_text(&self.name, NAME);
        out.put_u32(self.config);
        out.put_u32(self.state);
        if version >= Version::V14 {
            property::write(out, ETHERNET, |out| {
                out.put_u32(0);
                self.write_ethernet(out, version);
            });
            out.patch_len(start, start + 4);
        } else {
            self.write_ethernet(out, version);
        }
        Ok(())
    }

    fn write_ethernet(&self, out: &mut Vec<u8>, version: Version) {
        for features in [self.current, self.advertised, self.supported, self.peer] {
            put_features(out, features, version);
        }
        if version > Version::V10 {
            out.put_u32(self.current_speed);
            out.put_u32(self.max_speed);
        }
    }
}

numbered! {
    /// Change of a port.
    pub enum PortReason: u8 {
        /// Added.
        Add = 0,
        /// Removed.
        Delete = 1,
        /// Changed.
        Modify = 2,
    }
}

/// Notice of a changed port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortStatus {
    /// Change.
    pub reason: PortReason,
    /// The port after the change, or as it was before its removal.
    pub port: Port,
}

impl PortStatus {
    pub(crate) fn read(from: &mut Reader<'_>, version: Version) -> Result<Self, ErrorCode> {
        let reason = PortReason::from_number(from.u8()?).ok_or(ErrorCode::NxRequestUnencodableError)?;
        from.skip(7)?;
        Ok(Self { reason, port: Port::read(from, version)? })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>, version: Version) -> Result<(), EncodeError> {
        out.put_u8(self.reason.number());
        out.put_zeros(7);
        self.port.write(out, version)
    }
}

/// A change of a port's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortMod {
    /// Number.
    pub number: PortNo,
    /// Address, which must be that of the port.
    pub address: MacAddress,
    /// Bits of `ofp_port_config`.
    pub config: u32,
    /// Bits to change.
    pub mask: u32,
    /// Bits of features to advertise; 0 for no change.
    pub advertise: u32,
}

impl PortMod {
    pub(crate) fn read(from: &mut Reader<'_>, version: Version) -> Result<Self, ErrorCode> {
        let number = read_port(from, version)?;
        from.skip(if version == Version::V10 { 0 } else { 4 })?;
        let address = from.get()?;
        from.skip(if version == Version::V10 { 0 } else { 2 })?;
        let (config, mask) = (from.u32()?, from.u32()?);
        let mut advertise = 0;
        if version < Version::V14 {
            advertise = read_features(from, version)?;
            from.skip(4)?;
        }
        while version >= Version::V14 && !from.is_empty() {
            let (kind, mut value) = property::read(from)?;
            if kind != ETHERNET {
                return Err(ErrorCode::PropertyBadType);
            }
            advertise = value.u32()?;
        }
        Ok(Self { number, address, config, mask, advertise })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>, version: Version) -> Result<(), EncodeError> {
        write_port(out, self.number, version)?;
        let padding = if version == Version::V10 { 0 } else { 4 };
        out.put_zeros(padding);
        out.put(&self.address);
        out.put_zeros(padding / 2);
        out.put_u32(self.config);
        out.put_u32(self.mask);
        if version < Version::V14 {
            put_features(out, self.advertise, version);
            out.put_u32(0);
        } else if self.advertise != 0 {
            property::write(out, ETHERNET, |out| out.put_u32(self.advertise));
        }
        Ok(())
    }
}

/// Counters of a port; `u64::MAX` for one that the switch does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortStats {
    /// Number.
    pub port: PortNo,
    /// Received packets, sent packets, received bytes, sent bytes, received packets dropped, packets to send dropped,
    /// receive errors, transmit errors.
    pub counters: [u64; 8],
    /// Receive errors of framing, overrun and CRC, and collisions.
    pub ethernet: [u64; 4],
    /// Age; 0 in OpenFlow 1.0.
    pub duration: Duration,
}

impl PortStats {
    pub(crate) fn read(from: &mut Reader<'_>, version: Version) -> Result<Self, ErrorCode> {
        if version >= Version::V14 {
            return Self::read_14(from);
        }
        let port = read_port(from, version)?;
        from.skip(if version == Version::V10 { 6 } else { 4 })?;
        let (counters, ethernet) = (read_counters(from)?, read_counters(from)?);
        let duration = if version == Version::V10 { Duration::ZERO } else { from.get()? };
        Ok(Self { port, counters, ethernet, duration })
    }

    fn read_14(from: &mut Reader<'_>) -> Result<Self, ErrorCode> {
        let mut body = crate::group::read_entry(from)?;
        body.skip(2)?;
        let (port, duration, counters) = (body.get()?, body.get()?, read_counters(&mut body)?);
        let mut ethernet = [u64::MAX; 4];
        while !body.is_empty() {
            let (kind, mut value) = property::read(&mut body)?;
            if kind == ETHERNET {
                value.skip(4)?;
                ethernet = read_counters(&mut value)?;
            }
        }
        Ok(Self { port, counters, ethernet, duration })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>, version: Version) -> Result<(), EncodeError> {
        let start = out.len();
        if version >= Version::V14 {
            out.put_u32(0);
            out.put(&self.port);
            out.put(&self.duration);
            put_counters(out, &self.counters);
            property::write(out, ETHERNET, |out| {
                out.put_u32(0);
                put_counters(out, &self.ethernet);
            });
            out.patch_len(start, start);
            return Ok(());
        }
        write_port(out, self.port, version)?;
        out.put_zeros(if version == Version::V10 { 6 } else { 4 });
        put_counters(out, &self.counters);
        put_counters(out, &self.ethernet);
        if version > Version::V10 {
            out.put(&self.duration);
        }
        Ok(())
    }
}

fn read_counters<const N: usize>(from: &mut Reader<'_>) -> Result<[u64; N], ErrorCode> {
    let mut found = [0; N];
    for counter in &mut found {
        *counter = from.u64()?;
    }
    Ok(found)
}

fn put_counters(out: &mut Vec<u8>, counters: &[u64]) {
    for counter in counters {
        out.put_u64(*counter);
    }
}
