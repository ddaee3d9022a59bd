//! Scripts as values, and their text.

use crate::segment::{Segment, TcpOption, flag};
use std::fmt;

/// A script.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Script {
    /// `--name=value`.
    pub(crate) options: Vec<(String, String)>,
    /// Settings of the initial commands, as of `sysctl`: `net.ipv4.tcp_ecn=1`.
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) events: Vec<Event>,
}

/// An event with its line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) line: usize,
    pub(crate) when: When,
    pub(crate) action: Action,
}

/// Time of an event, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum When {
    Absolute(u64),
    Relative(u64),
    AbsoluteRange(u64, u64),
    RelativeRange(u64, u64),
    /// Any time, of outbound packets.
    Any,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    Inbound(PacketSpec),
    Outbound(PacketSpec),
    Icmp(IcmpSpec),
    Call(Call),
}

/// A segment of a script. Numbers are relative to the initial sequence number of their side.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PacketSpec {
    pub(crate) ecn: EcnSpec,
    /// Source and destination port.
    pub(crate) ports: Option<(u16, u16)>,
    pub(crate) flags: u8,
    pub(crate) seq: u32,
    pub(crate) len: u16,
    /// `None` without acknowledgement; `Some(None)` for any.
    pub(crate) ack: Option<Option<u32>>,
    /// `None` for any window.
    pub(crate) window: Option<u16>,
    pub(crate) urgent: u16,
    /// `None` for any options.
    pub(crate) options: Option<Vec<OptionSpec>>,
}

/// ECN field of a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum EcnSpec {
    Any,
    Is(u8),
    /// ECT(0) or ECT(1).
    Capable,
}

/// A TCP option of a script.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum OptionSpec {
    Is(TcpOption),
    /// Timestamps with any value.
    Timestamps {
        value: Option<u32>,
        echo: Option<u32>,
    },
    /// Fast Open with any cookie, which must not be empty.
    AnyCookie,
}

/// An ICMP error about a segment.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct IcmpSpec {
    pub(crate) kind: String,
    pub(crate) code: Option<String>,
    pub(crate) mtu: Option<u16>,
    /// Sequence number of the segment.
    pub(crate) seq: u32,
}

/// A call of the application.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) result: i64,
    /// Name of the error number, for result -1.
    pub(crate) error: Option<String>,
    /// Time at which a call that blocks returns.
    pub(crate) end: Option<When>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Argument {
    Any,
    Integer(i64),
    /// A name, or several joined by `|`.
    Name(String),
    Array(Vec<Argument>),
    /// `{onoff=1, linger=0}`.
    Fields(Vec<(String, i64)>),
}

impl PacketSpec {
    /// The segment as a specification, so that both are printed alike.
    pub(crate) fn of(segment: &Segment) -> Self {
        Self {
            ecn: if segment.ecn == 0 { EcnSpec::Any } else { EcnSpec::Is(segment.ecn) },
            ports: None,
            flags: segment.flags,
            seq: segment.seq,
            len: segment.payload.len() as u16,
            ack: segment.has(flag::ACK).then_some(Some(segment.ack)),
            window: Some(segment.window),
            urgent: segment.urgent,
            options: Some(segment.options.iter().cloned().map(OptionSpec::Is).collect()),
        }
    }
}

fn wildcard(value: Option<u32>) -> String {
    value.map_or("*".into(), |value| value.to_string())
}

impl fmt::Display for OptionSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Is(option) => option.fmt(f),
            Self::Timestamps { value, echo } => {
                write!(f, "TS val {} ecr {}", wildcard(*value), wildcard(*echo))
            }
            Self::AnyCookie => f.write_str("FO *"),
        }
    }
}

impl fmt::Display for PacketSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ecn {
            EcnSpec::Any => {}
            EcnSpec::Is(ecn) => {
                f.write_str(["[noecn] ", "[ect1] ", "[ect0] ", "[ce] "][usize::from(ecn & 3)])?;
            }
            EcnSpec::Capable => f.write_str("[ect01] ")?,
        }
        if let Some((source, destination)) = self.ports {
            write!(f, "{source} > {destination} ")?;
        }
        let end = self.seq.wrapping_add(self.len.into());
        write!(f, "{} {}:{end}({})", Segment::flag_text(self.flags), self.seq, self.len)?;
        if let Some(ack) = self.ack {
            write!(f, " ack {}", wildcard(ack))?;
        }
        if let Some(window) = self.window {
            write!(f, " win {window}")?;
        }
        if self.urgent != 0 {
            write!(f, " urg {}", self.urgent)?;
        }
        match &self.options {
            None => f.write_str(" <...>"),
            Some(options) if options.is_empty() => Ok(()),
            Some(options) => {
                let options: Vec<_> = options.iter().map(ToString::to_string).collect();
                write!(f, " <{}>", options.join(","))
            }
        }
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |micros: u64| format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
        match *self {
            Self::Absolute(at) => f.write_str(&seconds(at)),
            Self::Relative(at) => write!(f, "+{}", seconds(at)),
            Self::AbsoluteRange(from, to) => write!(f, "{}~{}", seconds(from), seconds(to)),
            Self::RelativeRange(from, to) => write!(f, "+{}~+{}", seconds(from), seconds(to)),
            Self::Any => f.write_str("*"),
        }
    }
}
