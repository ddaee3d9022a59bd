//! Text output, one line per packet: time, port, direction, length, addresses, protocol, pending offloads, outcome.

use super::{Direction, Outcome, Record};
use crate::Offload;
use std::fmt::{Display, Formatter, Result, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::{Duration, UNIX_EPOCH};
use wire::{Ethernet, Layers};

/// Appends the line of one packet that starts with `head`, at `time` nanoseconds since the Unix epoch.
pub(super) fn packet(out: &mut Vec<u8>, time: u64, port: &str, record: &Record, head: &[u8]) {
    let mut line = String::with_capacity(160);
    let time = humantime::format_rfc3339_nanos(UNIX_EPOCH + Duration::from_nanos(time));
    let way = match record.direction {
        Direction::Only | Direction::Out => "out",
        Direction::In => "in",
    };
    // Writing to a String cannot fail.
    let _ = write!(line, "{time} {port} {way} {} B {}", record.len, Summary(head));
    let _ =
        write!(line, "{}", Work(Offload::validate(record.offload, record.len as usize).unwrap_or_default()));
    match record.fate {
        Outcome::Lost(reason) => line.extend([", lost: ", reason.name()]),
        Outcome::Queued => line += ", queued",
        Outcome::Moved if record.direction == Direction::Out => line += ", sent",
        Outcome::Moved => {}
    }
    line.push('\n');
    out.extend_from_slice(line.as_bytes());
}

/// Addresses and protocol of a frame that starts with `head`, in one line.
pub fn summary(head: &[u8]) -> String {
    Summary(head).to_string()
}

/// Summary of a frame's headers.
struct Summary<'a>(&'a [u8]);

impl Display for Summary<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Ok(frame) = Ethernet::new(self.0) else { return f.write_str("no Ethernet header") };
        write!(f, "{} > {}", frame.source(), frame.destination())?;
        if let Some(tag) = frame.tag() {
            write!(f, " VLAN {}", tag.vlan())?;
        }
        match Layers::of(self.0) {
            Some(layers) => internet(f, &layers, self.0),
            None => write!(f, " type {:#06x}", frame.inner_ethertype().0),
        }
    }
}

fn internet(f: &mut Formatter<'_>, layers: &Layers, head: &[u8]) -> Result {
    let addresses = layers.addresses(head);
    let (from, to) = addresses.split_at(addresses.len() / 2);
    let ports = layers.ports(head).map(|&[a, b, c, d]| [[a, b], [c, d]].map(u16::from_be_bytes));
    f.write_str(" ")?;
    host(f, from, ports.map(|ports| ports[0]))?;
    f.write_str(" > ")?;
    host(f, to, ports.map(|ports| ports[1]))?;
    match layers.protocol {
        1 => f.write_str(" ICMP"),
        6 => f.write_str(" TCP"),
        17 => f.write_str(" UDP"),
        58 => f.write_str(" ICMPv6"),
        132 => f.write_str(" SCTP"),
        other => write!(f, " protocol {other}"),
    }?;
    f.write_str(if layers.is_fragment { " fragment" } else { "" })
}

fn host(f: &mut Formatter<'_>, address: &[u8], port: Option<u16>) -> Result {
    match (<[u8; 4]>::try_from(address), <[u8; 16]>::try_from(address), port) {
        (Ok(v4), _, None) => write!(f, "{}", Ipv4Addr::from(v4)),
        (Ok(v4), _, Some(port)) => write!(f, "{}:{port}", Ipv4Addr::from(v4)),
        (_, Ok(v6), None) => write!(f, "{}", Ipv6Addr::from(v6)),
        (_, Ok(v6), Some(port)) => write!(f, "[{}]:{port}", Ipv6Addr::from(v6)),
        _ => f.write_str("?"),
    }
}

/// Pending offloads.
struct Work(Offload);

impl Display for Work {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Some((start, offset)) = self.0.checksum() else { return Ok(()) };
        write!(f, ", checksum at byte {} not filled in", start + offset)?;
        match self.0.segmentation() {
            Some(kind) => write!(f, ", {kind:?} to be cut by {}", self.0.segment()),
            None => Ok(()),
        }
    }
}
