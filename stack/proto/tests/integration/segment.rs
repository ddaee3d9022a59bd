//! TCP segments as values: encoded to frames with valid checksums, and decoded from them with every check.

use super::packet::{Packet, ip_frame, transport_sum};
use stack::Endpoint;
use std::fmt;
use wire::checksum::protocol::TCP;

/// Flags of the TCP header, in the order of their bits.
pub(crate) mod flag {
    pub(crate) const FIN: u8 = 1;
    pub(crate) const SYN: u8 = 2;
    pub(crate) const RST: u8 = 4;
    pub(crate) const PSH: u8 = 8;
    pub(crate) const ACK: u8 = 16;
    pub(crate) const URG: u8 = 32;
    pub(crate) const ECE: u8 = 64;
    pub(crate) const CWR: u8 = 128;
}

/// An option of the TCP header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TcpOption {
    Eol,
    Nop,
    Mss(u16),
    WindowScale(u8),
    SackOk,
    Sack(Vec<(u32, u32)>),
    Timestamps(u32, u32),
    FastOpen(Vec<u8>),
    Other(u8, Vec<u8>),
}

/// A TCP segment with the fields of its IP header that matter here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) source: Endpoint,
    pub(crate) destination: Endpoint,
    /// ECN field (RFC 3168).
    pub(crate) ecn: u8,
    pub(crate) flags: u8,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) window: u16,
    pub(crate) urgent: u16,
    pub(crate) options: Vec<TcpOption>,
    pub(crate) payload: Vec<u8>,
}

impl TcpOption {
    fn encode(&self, to: &mut Vec<u8>) {
        let (kind, body) = match self {
            Self::Eol => return to.push(0),
            Self::Nop => return to.push(1),
            Self::Mss(mss) => (2, mss.to_be_bytes().to_vec()),
            Self::WindowScale(shift) => (3, vec![*shift]),
            Self::SackOk => (4, Vec::new()),
            Self::Sack(blocks) => {
                (5, blocks.iter().flat_map(|(a, b)| [a.to_be_bytes(), b.to_be_bytes()].concat()).collect())
            }
            Self::Timestamps(value, echo) => (8, [value.to_be_bytes(), echo.to_be_bytes()].concat()),
            Self::FastOpen(cookie) => (34, cookie.clone()),
            Self::Other(kind, body) => (*kind, body.clone()),
        };
        to.extend([kind, body.len() as u8 + 2]);
        to.extend(body);
    }

    /// Decodes the options of a header.
    fn decode(mut bytes: &[u8]) -> Option<Vec<Self>> {
        let mut options = Vec::new();
        while let [kind, rest @ ..] = bytes {
            if *kind < 2 {
                options.push(if *kind == 0 { Self::Eol } else { Self::Nop });
                bytes = if *kind == 0 { &[] } else { rest };
                continue;
            }
            let len = usize::from(*rest.first()?);
            let body = bytes.get(2..len)?;
            options.push(Self::of(*kind, body));
            bytes = &bytes[len..];
        }
        Some(options)
    }

    fn of(kind: u8, body: &[u8]) -> Self {
        let word = |at: usize| u32::from_be_bytes([body[at], body[at + 1], body[at + 2], body[at + 3]]);
        match (kind, body.len()) {
            (2, 2) => Self::Mss(u16::from_be_bytes([body[0], body[1]])),
            (3, 1) => Self::WindowScale(body[0]),
            (4, 0) => Self::SackOk,
            (5, n) if n > 0 && n % 8 == 0 => {
                Self::Sack((0..n / 8).map(|i| (word(8 * i), word(8 * i + 4))).collect())
            }
            (8, 8) => Self::Timestamps(word(0), word(4)),
            (34, _) => Self::FastOpen(body.to_vec()),
            _ => Self::Other(kind, body.to_vec()),
        }
    }
}

impl Segment {
    pub(crate) fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }

    /// The flags in packetdrill's notation.
    pub(crate) fn flag_text(flags: u8) -> String {
        const LETTERS: [(u8, char); 8] = [
            (flag::SYN, 'S'),
            (flag::FIN, 'F'),
            (flag::RST, 'R'),
            (flag::PSH, 'P'),
            (flag::ECE, 'E'),
            (flag::CWR, 'W'),
            (flag::URG, 'U'),
            (flag::ACK, '.'),
        ];
        let text: String =
            LETTERS.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, letter)| letter).collect();
        if text.is_empty() { "-".into() } else { text }
    }

    /// Cookie of the Fast Open option.
    pub(crate) fn cookie(&self) -> Option<&[u8]> {
        self.options.iter().find_map(|option| match option {
            TcpOption::FastOpen(cookie) => Some(&cookie[..]),
            _ => None,
        })
    }

    pub(crate) fn timestamps(&self) -> Option<(u32, u32)> {
        self.options.iter().find_map(|option| match option {
            TcpOption::Timestamps(value, echo) => Some((*value, *echo)),
            _ => None,
        })
    }

    /// The frame, with these Ethernet addresses.
    pub(crate) fn encode(&self, destination: [u8; 6], source: [u8; 6]) -> Vec<u8> {
        let mut options = Vec::new();
        self.options.iter().for_each(|option| option.encode(&mut options));
        options.resize(options.len().next_multiple_of(4), 0);
        let mut tcp = Vec::new();
        tcp.extend(self.source.port.to_be_bytes());
        tcp.extend(self.destination.port.to_be_bytes());
        tcp.extend(self.seq.to_be_bytes());
        tcp.extend(self.ack.to_be_bytes());
        tcp.extend([((20 + options.len()) << 2) as u8, self.flags]);
        tcp.extend(self.window.to_be_bytes());
        tcp.extend([0, 0]);
        tcp.extend(self.urgent.to_be_bytes());
        tcp.extend(options);
        tcp.extend(&self.payload);
        let sum = transport_sum(self.source.address, self.destination.address, TCP, &tcp);
        tcp[16..18].copy_from_slice(&sum);
        let ends = (self.source.address, self.destination.address);
        ip_frame(destination, source, ends, TCP, self.ecn, &tcp)
    }

    /// Decodes a frame and checks lengths and checksums. Returns `None` if it is not a TCP frame.
    pub(crate) fn decode(frame: &[u8]) -> Option<Result<Self, String>> {
        let packet = Packet::decode(frame)?;
        (packet.protocol == TCP).then(|| packet.check().and_then(Self::of))
    }

    fn of(packet: Packet<'_>) -> Result<Self, String> {
        let tcp = packet.transport;
        let header = usize::from(tcp.get(12).ok_or("truncated TCP header")? >> 4) * 4;
        if header < 20 || header > tcp.len() {
            return Err(format!("TCP header of {header} bytes in {} bytes", tcp.len()));
        }
        let half = |at: usize| u16::from_be_bytes([tcp[at], tcp[at + 1]]);
        let word = |at: usize| (u32::from(half(at)) << 16) | u32::from(half(at + 2));
        Ok(Self {
            source: Endpoint::new(packet.source, half(0)),
            destination: Endpoint::new(packet.destination, half(2)),
            ecn: packet.traffic_class & 3,
            flags: tcp[13],
            seq: word(4),
            ack: word(8),
            window: half(14),
            urgent: half(18),
            options: TcpOption::decode(&tcp[20..header]).ok_or("malformed TCP options")?,
            payload: tcp[header..].to_vec(),
        })
    }
}

impl fmt::Display for TcpOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Eol => f.write_str("eol"),
            Self::Nop => f.write_str("nop"),
            Self::Mss(mss) => write!(f, "mss {mss}"),
            Self::WindowScale(shift) => write!(f, "wscale {shift}"),
            Self::SackOk => f.write_str("sackOK"),
            Self::Sack(blocks) => {
                f.write_str("sack")?;
                blocks.iter().try_for_each(|(start, end)| write!(f, " {start}:{end}"))
            }
            Self::Timestamps(value, echo) => write!(f, "TS val {value} ecr {echo}"),
            Self::FastOpen(cookie) => write!(f, "FO {}", hex(cookie)),
            Self::Other(kind, body) => write!(f, "kind {kind} {}", hex(body)),
        }
    }
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// The segment in packetdrill's notation.
impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ecn = ["", "[ect1] ", "[ect0] ", "[ce] "][usize::from(self.ecn & 3)];
        let end = self.seq.wrapping_add(self.payload.len() as u32);
        write!(f, "{ecn}{} {}:{end}({})", Self::flag_text(self.flags), self.seq, self.payload.len())?;
        if self.has(flag::ACK) {
            write!(f, " ack {}", self.ack)?;
        }
        write!(f, " win {}", self.window)?;
        if self.has(flag::URG) {
            write!(f, " urg {}", self.urgent)?;
        }
        let options: Vec<String> = self.options.iter().map(ToString::to_string).collect();
        if options.is_empty() { Ok(()) } else { write!(f, " <{}>", options.join(",")) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::packet::ETHERNET;
    use super::*;
    use std::net::IpAddr;

    fn segment(source: &str, destination: &str) -> Segment {
        let end = |text: &str, port| Endpoint::new(text.parse::<IpAddr>().unwrap().into(), port);
        let (value, blocks) = (TcpOption::Timestamps(7, 9), vec![(5, 6), (0xffff_fff0, 3)]);
        Segment {
            source: end(source, 1000),
            destination: end(destination, 2000),
            ecn: 2,
            flags: flag::ACK | flag::PSH | flag::CWR,
            seq: 0x8000_0001,
            ack: 17,
            window: 512,
            urgent: 3,
            options: vec![TcpOption::Nop, TcpOption::Nop, value, TcpOption::Sack(blocks), TcpOption::Eol],
            payload: (0..255).collect(),
        }
    }

    #[test]
    fn segments_survive_encoding() {
        for (source, destination) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
            let segment = segment(source, destination);
            let frame = segment.encode([2; 6], [4; 6]);
            assert_eq!(Segment::decode(&frame), Some(Ok(segment)));
        }
    }

    #[test]
    fn every_flipped_bit_of_a_segment_is_detected_or_visible() {
        let segment = segment("10.0.0.1", "10.0.0.2");
        let frame = segment.encode([2; 6], [4; 6]);
        for bit in ETHERNET * 8..frame.len() * 8 {
            let mut damaged = frame.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(!matches!(Segment::decode(&damaged), Some(Ok(_))), "bit {bit}");
        }
    }
}
