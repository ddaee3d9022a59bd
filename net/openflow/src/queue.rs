//! Queues of ports (OpenFlow 1.3.5, 7.2.2, 7.3.5.8 and 7.3.6; OpenFlow 1.4.1, 7.3.5.16).

use crate::bytes::{Put, Reader};
use crate::error::{EncodeError, ErrorCode};
use crate::group::read_entry;
use crate::port_no::{read as read_port, write as write_port};
use crate::property;
use crate::version::Version;
use flow::PortNo;
use std::time::Duration;

/// Every queue; in requests.
pub const ALL_QUEUES: u32 = 0xffff_ffff;
/// Properties.
const MIN_RATE: u16 = 1;
const MAX_RATE: u16 = 2;

/// Queues of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueRequest {
    /// Port; [`PortNo::ANY`] (in OpenFlow 1.0 [`PortNo::ALL`]) for all.
    pub port: PortNo,
    /// Queue, or [`ALL_QUEUES`].
    pub queue: u32,
}

impl QueueRequest {
    pub(crate) fn read(from: &mut Reader<'_>, version: Version) -> Result<Self, ErrorCode> {
        let port = read_port(from, version)?;
        from.skip(if version == Version::V10 { 2 } else { 0 })?;
        Ok(Self { port, queue: from.u32()? })
    }

    pub(crate) fn write(self, out: &mut Vec<u8>, version: Version) -> Result<(), EncodeError> {
        write_port(out, self.port, version)?;
        out.put_zeros(if version == Version::V10 { 2 } else { 0 });
        out.put_u32(self.queue);
        Ok(())
    }
}

/// A queue as it was configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueDesc {
    /// Port.
    pub port: PortNo,
    /// Number.
    pub queue: u32,
    /// Guaranteed rate in 1/10 %; above 1000 for none.
    pub min_rate: Option<u16>,
    /// Maximum rate in 1/10 %; above 1000 for none.
    pub max_rate: Option<u16>,
}

impl QueueDesc {
    /// Reads a queue. In OpenFlow 1.0 its port is that of the message.
    pub(crate) fn read(from: &mut Reader<'_>, version: Version, port: PortNo) -> Result<Self, ErrorCode> {
        let start = from.len();
        let (port, queue) = match version {
            Version::V10 => (port, from.u32()?),
            Version::V13 => {
                let queue = from.u32()?;
                (from.get()?, queue)
            }
            _ => (from.get()?, from.u32()?),
        };
        let len = usize::from(from.u16()?);
        from.skip(if version == Version::V10 { 2 } else { 6 })?;
        let mut body = from.take(len.checked_sub(start - from.len()).ok_or(ErrorCode::RequestBadLen)?)?;
        let mut found = Self { port, queue, min_rate: None, max_rate: None };
        while !body.is_empty() {
            let (kind, mut value) = property::read(&mut body)?;
            value.skip(if version >= Version::V14 { 0 } else { 4 })?;
            match kind {
                MIN_RATE => found.min_rate = Some(value.u16()?),
                MAX_RATE => found.max_rate = Some(value.u16()?),
                _ => {}
            }
        }
        Ok(found)
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>, version: Version) {
        let start = out.len();
        match version {
            Version::V10 => out.put_u32(self.queue),
            Version::V13 => {
                out.put_u32(self.queue);
                out.put(&self.port);
            }
            _ => {
                out.put(&self.port);
                out.put_u32(self.queue);
            }
        }
        let at = out.len();
        out.put_u16(0);
        out.put_zeros(if version == Version::V10 { 2 } else { 6 });
        for (kind, rate) in [(MIN_RATE, self.min_rate), (MAX_RATE, self.max_rate)] {
            match rate {
                Some(rate) if version >= Version::V14 => property::write_u16(out, kind, rate),
                Some(rate) => property::write(out, kind, |out| {
                    out.put_u32(0);
                    out.put_u16(rate);
                    out.put_zeros(6);
                }),
                None => {}
            }
        }
        out.patch_len(start, at);
    }
}

/// Queues of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// Port.
    pub port: PortNo,
    /// Queues.
    pub queues: Vec<QueueDesc>,
}

impl QueueConfig {
    /// Reads the port of a request, with its padding.
    pub(crate) fn read_port(from: &mut Reader<'_>, version: Version) -> Result<PortNo, ErrorCode> {
        let port = read_port(from, version)?;
        from.skip(if version == Version::V10 { 2 } else { 4 })?;
        Ok(port)
    }

    pub(crate) fn write_port(out: &mut Vec<u8>, port: PortNo, version: Version) -> Result<(), EncodeError> {
        write_port(out, port, version)?;
        out.put_zeros(if version == Version::V10 { 2 } else { 4 });
        Ok(())
    }

    pub(crate) fn read(from: &mut Reader<'_>, version: Version) -> Result<Self, ErrorCode> {
        let port = Self::read_port(from, version)?;
        from.skip(if version == Version::V10 { 4 } else { 0 })?;
        Ok(Self { port, queues: from.repeat(|from| QueueDesc::read(from, version, port))? })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>, version: Version) -> Result<(), EncodeError> {
        Self::write_port(out, self.port, version)?;
        out.put_zeros(if version == Version::V10 { 4 } else { 0 });
        self.queues.iter().for_each(|queue| queue.write(out, version));
        Ok(())
    }
}

/// Counters of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueStats {
    /// Port.
    pub port: PortNo,
    /// Number.
    pub queue: u32,
    /// Sent bytes.
    pub bytes: u64,
    /// Sent packets.
    pub packets: u64,
    /// Packets dropped because the queue was full.
    pub errors: u64,
    /// Age; 0 in OpenFlow 1.0.
    pub duration: Duration,
}

impl QueueStats {
    pub(crate) fn read(from: &mut Reader<'_>, version: Version) -> Result<Self, ErrorCode> {
        if version >= Version::V14 {
            let mut body = read_entry(from)?;
            body.skip(6)?;
            return Self::read_fixed(&mut body, version);
        }
        Self::read_fixed(from, version)
    }

    fn read_fixed(from: &mut Reader<'_>, version: Version) -> Result<Self, ErrorCode> {
        let QueueRequest { port, queue } = QueueRequest::read(from, version)?;
        let (bytes, packets, errors) = (from.u64()?, from.u64()?, from.u64()?);
        let duration = if version == Version::V10 { Duration::ZERO } else { from.get()? };
        Ok(Self { port, queue, bytes, packets, errors, duration })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>, version: Version) -> Result<(), EncodeError> {
        let start = out.len();
        out.put_zeros(if version >= Version::V14 { 8 } else { 0 });
        QueueRequest { port: self.port, queue: self.queue }.write(out, version)?;
        for counter in [self.bytes, self.packets, self.errors] {
            out.put_u64(counter);
        }
        if version > Version::V10 {
            out.put(&self.duration);
        }
        if version >= Version::V14 {
            out.patch_len(start, start);
        }
        Ok(())
    }
}
