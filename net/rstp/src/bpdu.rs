//! BPDUs in Ethernet frames (clause 9): 802.3 with LLC, to the bridge group address.
//!
//! Received times are limited to the ranges of table 17-1, so that a neighbour cannot keep information alive for longer
//! than they allow.

use crate::config::BridgeConfig;
use crate::vector::{BridgeId, Times, Vector};
use wire::MacAddress;

/// Destination of BPDUs (table 7-10).
pub const GROUP: MacAddress = MacAddress::new([0x01, 0x80, 0xc2, 0, 0, 0]);
/// Length of a sent frame, padded, without frame check sequence.
pub const FRAME_LEN: usize = 60;
/// A sent frame.
pub type Frame = [u8; FRAME_LEN];

/// Offsets in a frame: length, LLC header, BPDU.
const LENGTH: usize = 12;
const LLC: usize = 14;
const BPDU: usize = 17;
/// LLC header: destination and source service access points, unnumbered information (9.2).
const LLC_HEADER: [u8; 3] = [0x42, 0x42, 0x03];
const TYPE_CONFIG: u8 = 0;
const TYPE_TOPOLOGY_CHANGE: u8 = 0x80;
const TYPE_RAPID: u8 = 2;
/// Lengths of the BPDUs.
const CONFIG_LEN: usize = 35;
const TOPOLOGY_CHANGE_LEN: usize = 4;
const RAPID_LEN: usize = 36;

/// Flags of a BPDU (9.3.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// Topology change.
    pub const TOPOLOGY_CHANGE: u8 = 0x01;
    /// Proposal to forward.
    pub const PROPOSAL: u8 = 0x02;
    /// Role of the sender, 2 bits: unknown, alternate or backup, root, designated.
    pub const ROLE: u8 = 0x0c;
    /// The sender is an alternate or backup port.
    pub const ALTERNATE: u8 = 0x04;
    /// The sender is a root port.
    pub const ROOT: u8 = 0x08;
    /// The sender is a designated port.
    pub const DESIGNATED: u8 = 0x0c;
    /// The sender learns.
    pub const LEARNING: u8 = 0x10;
    /// The sender forwards.
    pub const FORWARDING: u8 = 0x20;
    /// Agreement to forwarding.
    pub const AGREEMENT: u8 = 0x40;
    /// Acknowledgement of a topology change notification.
    pub const ACKNOWLEDGEMENT: u8 = 0x80;

    /// Whether all bits of `flag` are set.
    pub const fn has(self, flag: u8) -> bool {
        self.0 & flag == flag
    }
}

/// Contents of a configuration or rapid BPDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Parameters {
    /// Flags.
    pub flags: Flags,
    /// Priority vector.
    pub vector: Vector,
    /// Times.
    pub times: Times,
}

/// A BPDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bpdu {
    /// Configuration BPDU of STP.
    Config(Parameters),
    /// Topology change notification BPDU of STP.
    TopologyChange,
    /// BPDU of RSTP.
    Rapid(Parameters),
}

/// Why a frame is not a BPDU that can be used (9.3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BpduError {
    /// Other destination, or no LLC header of a BPDU.
    #[error("the frame has no LLC header of a BPDU")]
    NotBpdu,
    /// The frame ends within the BPDU.
    #[error("a BPDU of {0} bytes is too short")]
    TooShort(usize),
    /// The protocol identifier is not 0.
    #[error("the protocol identifier is {0:#06x}, not 0")]
    Protocol(u16),
    /// The type is not one of RSTP, or has another version.
    #[error("BPDU type {0:#04x} of version {1} is not known")]
    Unknown(u8, u8),
    /// The message age is not less than the maximum age.
    #[error("the message age is not less than the maximum age")]
    Aged,
}

/// Fields of a BPDU that are read in order.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }

    /// Time in units of 1/256 second.
    fn time(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }
}

impl Bpdu {
    /// Decodes an Ethernet frame. Octets behind the parameters are ignored, as are later versions' (9.3.4).
    ///
    /// # Errors
    /// If the frame has no valid BPDU.
    pub fn decode(frame: &[u8]) -> Result<Self, BpduError> {
        let is_to_group = frame.starts_with(&GROUP.octets());
        let llc = frame.get(LENGTH..BPDU).filter(|_| is_to_group).ok_or(BpduError::NotBpdu)?;
        let length = usize::from(u16::from_be_bytes([llc[0], llc[1]]));
        let Some(length) = length.checked_sub(LLC_HEADER.len()).filter(|_| llc[2..] == LLC_HEADER) else {
            return Err(BpduError::NotBpdu);
        };
        let bpdu = &frame[BPDU..];
        let bpdu = &bpdu[..length.min(bpdu.len())];
        let &[p0, p1, version, kind, ref rest @ ..] = bpdu else {
            return Err(BpduError::TooShort(bpdu.len()));
        };
        let protocol = u16::from_be_bytes([p0, p1]);
        if protocol != 0 {
            return Err(BpduError::Protocol(protocol));
        }
        let parameters = || parameters(rest).unwrap_or(Err(BpduError::TooShort(bpdu.len())));
        match kind {
            TYPE_CONFIG => Ok(Self::Config(parameters()?)),
            TYPE_TOPOLOGY_CHANGE => Ok(Self::TopologyChange),
            TYPE_RAPID if version >= 2 && bpdu.len() < RAPID_LEN => Err(BpduError::TooShort(bpdu.len())),
            TYPE_RAPID if version >= 2 => Ok(Self::Rapid(parameters()?)),
            _ => Err(BpduError::Unknown(kind, version)),
        }
    }

    /// Encodes the BPDU in a frame from `source`.
    pub fn encode(&self, source: MacAddress) -> Frame {
        let mut frame = [0; FRAME_LEN];
        let (head, length) = match self {
            Self::Config(_) => ([0, 0, 0, TYPE_CONFIG], CONFIG_LEN),
            Self::TopologyChange => ([0, 0, 0, TYPE_TOPOLOGY_CHANGE], TOPOLOGY_CHANGE_LEN),
            Self::Rapid(_) => ([0, 0, 2, TYPE_RAPID], RAPID_LEN),
        };
        frame[..6].copy_from_slice(&GROUP.octets());
        frame[6..LENGTH].copy_from_slice(&source.octets());
        frame[LENGTH..LLC].copy_from_slice(&((LLC_HEADER.len() + length) as u16).to_be_bytes());
        frame[LLC..BPDU].copy_from_slice(&LLC_HEADER);
        frame[BPDU..BPDU + head.len()].copy_from_slice(&head);
        if let Self::Config(parameters) | Self::Rapid(parameters) = self {
            frame[BPDU + head.len()..BPDU + CONFIG_LEN].copy_from_slice(&parameters.octets());
        }
        frame
    }
}

/// Parameters of a BPDU; `None` if they are cut.
fn parameters(bytes: &[u8]) -> Option<Result<Parameters, BpduError>> {
    let mut reader = Reader(bytes);
    let [flags] = reader.take()?;
    let root = BridgeId(u64::from_be_bytes(reader.take()?));
    let cost = u32::from_be_bytes(reader.take()?);
    let bridge = BridgeId(u64::from_be_bytes(reader.take()?));
    let port = u16::from_be_bytes(reader.take()?);
    let (message_age, max_age) = (reader.time()?, reader.time()?);
    let (hello, forward_delay) = (reader.time()?, reader.time()?);
    let is_aged = message_age >= max_age;
    let seconds = |time: u16| (time >> 8) as u8;
    let within =
        |time, range: std::ops::RangeInclusive<u8>| seconds(time).clamp(*range.start(), *range.end());
    let times = Times {
        message_age: seconds(message_age),
        max_age: within(max_age, BridgeConfig::MAX_AGE),
        hello: within(hello, BridgeConfig::HELLO),
        forward_delay: within(forward_delay, BridgeConfig::FORWARD_DELAY),
    };
    if is_aged || times.message_age >= times.max_age {
        return Some(Err(BpduError::Aged));
    }
    Some(Ok(Parameters { flags: Flags(flags), vector: Vector { root, cost, bridge, port }, times }))
}

impl Parameters {
    /// Encoding behind the type.
    fn octets(&self) -> [u8; CONFIG_LEN - 4] {
        let Self { flags, vector, times } = self;
        let mut octets = [0; CONFIG_LEN - 4];
        octets[0] = flags.0;
        octets[1..9].copy_from_slice(&vector.root.0.to_be_bytes());
        octets[9..13].copy_from_slice(&vector.cost.to_be_bytes());
        octets[13..21].copy_from_slice(&vector.bridge.0.to_be_bytes());
        octets[21..23].copy_from_slice(&vector.port.to_be_bytes());
        let times = [times.message_age, times.max_age, times.hello, times.forward_delay];
        for (octet, time) in octets[23..].iter_mut().step_by(2).zip(times) {
            *octet = time;
        }
        octets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters() -> Parameters {
        let id = |n| BridgeId::new(0x8000, MacAddress::from_u64(n));
        Parameters {
            flags: Flags(Flags::DESIGNATED | Flags::PROPOSAL),
            vector: Vector { root: id(1), cost: 20_000, bridge: id(2), port: 0x8003 },
            times: Times { message_age: 1, max_age: 20, hello: 2, forward_delay: 15 },
        }
    }

    #[test]
    fn every_kind_is_decoded_as_it_was_encoded() {
        for bpdu in [Bpdu::Config(parameters()), Bpdu::TopologyChange, Bpdu::Rapid(parameters())] {
            assert_eq!(Bpdu::decode(&bpdu.encode(MacAddress::from_u64(5))), Ok(bpdu));
        }
    }

    #[test]
    fn octets_are_those_of_the_standard() {
        let frame = Bpdu::Rapid(parameters()).encode(MacAddress::from_u64(5));
        let expected = [
            &[1, 0x80, 0xc2, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 39, 0x42, 0x42, 3][..],
            &[
                0, 0, 2, 2, 0x0e, 0x80, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0x4e, 0x20, 0x80, 0, 0, 0, 0, 0, 0, 2,
                0x80, 3,
            ],
            &[1, 0, 20, 0, 2, 0, 15, 0, 0],
        ];
        assert_eq!(frame[..BPDU + RAPID_LEN], expected.concat());
    }

    #[test]
    fn other_frames_are_errors() {
        let frame = Bpdu::Rapid(parameters()).encode(MacAddress::from_u64(5));
        let with = |at: usize, value: u8| {
            let mut frame = frame;
            frame[at] = value;
            Bpdu::decode(&frame)
        };
        assert_eq!(with(5, 1), Err(BpduError::NotBpdu));
        assert_eq!(with(LLC, 0xaa), Err(BpduError::NotBpdu));
        assert_eq!(with(LENGTH + 1, 2), Err(BpduError::NotBpdu));
        assert_eq!(with(BPDU + 1, 1), Err(BpduError::Protocol(1)));
        assert_eq!(with(BPDU + 2, 0), Err(BpduError::Unknown(2, 0)));
        assert_eq!(with(BPDU + 3, 7), Err(BpduError::Unknown(7, 2)));
        assert_eq!(with(LENGTH + 1, 38), Err(BpduError::TooShort(35)));
        assert_eq!(with(BPDU + 27, 20), Err(BpduError::Aged));
        assert_eq!(Bpdu::decode(&frame[..30]), Err(BpduError::TooShort(13)));
        assert_eq!(Bpdu::decode(&frame[..16]), Err(BpduError::NotBpdu));
        let Ok(Bpdu::Rapid(limited)) = with(BPDU + 31, 255) else {
            panic!("a hello time of 255 s is limited")
        };
        assert_eq!(limited.times.hello, 10);
    }
}
