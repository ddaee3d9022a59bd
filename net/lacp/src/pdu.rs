//! Frames of the slow protocols: LACPDUs (IEEE 802.1AX-2014, 6.4.2) and markers (6.5.3).

use wire::{EtherType, Ethernet, MacAddress, write_ethernet};

/// Destination of all frames of slow protocols (IEEE 802.3, annex 57A).
pub const SLOW_PROTOCOLS: MacAddress = MacAddress::new([0x01, 0x80, 0xc2, 0, 0, 0x02]);
/// EtherType of slow protocols.
pub const SLOW_ETHERTYPE: EtherType = EtherType(0x8809);
/// Length of an LACPDU's or a marker's frame in bytes, without checksum.
pub const FRAME: usize = wire::HEADER_LEN + BODY;

/// Length of an LACPDU and of a marker PDU, in bytes.
const BODY: usize = 110;
const LACP: u8 = 1;
const MARKER: u8 = 2;
const VERSION: u8 = 1;
/// Types and lengths of the TLVs of an LACPDU.
const ACTOR: [u8; 2] = [1, 20];
const PARTNER: [u8; 2] = [2, 20];
const COLLECTOR: [u8; 2] = [3, 16];
/// Types and length of the TLV of a marker and of its response.
const MARKER_INFORMATION: [u8; 2] = [1, 16];
const MARKER_RESPONSE: u8 = 2;

/// State of a port in an LACPDU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct State(pub u8);

impl State {
    /// The port sends LACPDUs without being asked.
    pub const ACTIVITY: Self = Self(1);
    /// The port expects LACPDUs every second.
    pub const SHORT_TIMEOUT: Self = Self(1 << 1);
    /// The link can be aggregated with others.
    pub const AGGREGATION: Self = Self(1 << 2);
    /// The link belongs to the right aggregation.
    pub const SYNCHRONIZATION: Self = Self(1 << 3);
    /// The port receives frames.
    pub const COLLECTING: Self = Self(1 << 4);
    /// The port sends frames.
    pub const DISTRIBUTING: Self = Self(1 << 5);
    /// Nothing was received from the partner.
    pub const DEFAULTED: Self = Self(1 << 6);
    /// The partner is late.
    pub const EXPIRED: Self = Self(1 << 7);

    /// The states with their names, in the order of their bits.
    pub const NAMES: [(Self, &'static str); 8] = [
        (Self::ACTIVITY, "activity"),
        (Self::SHORT_TIMEOUT, "timeout"),
        (Self::AGGREGATION, "aggregation"),
        (Self::SYNCHRONIZATION, "synchronized"),
        (Self::COLLECTING, "collecting"),
        (Self::DISTRIBUTING, "distributing"),
        (Self::DEFAULTED, "defaulted"),
        (Self::EXPIRED, "expired"),
    ];

    /// Whether all bits of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// This state with the bits of `other` set or cleared.
    #[must_use]
    pub const fn with(self, other: Self, is_set: bool) -> Self {
        Self(if is_set { self.0 | other.0 } else { self.0 & !other.0 })
    }

    /// The bits of this state that `mask` has.
    #[must_use]
    pub const fn masked(self, mask: Self) -> Self {
        Self(self.0 & mask.0)
    }
}

/// One end of a link, as an LACPDU describes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// Priority of the system; a lower number is preferred.
    pub system_priority: u16,
    /// Address of the system.
    pub system: MacAddress,
    /// Operational key: only ports of one system with one key can be aggregated.
    pub key: u16,
    /// Priority of the port; a lower number is preferred.
    pub port_priority: u16,
    /// Number of the port in its system.
    pub port: u16,
    /// State of the port.
    pub state: State,
}

impl Endpoint {
    const LEN: usize = 15;

    fn read(bytes: &[u8; Self::LEN]) -> Self {
        let number = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        Self {
            system_priority: number(0),
            system: MacAddress::new([bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]]),
            key: number(8),
            port_priority: number(10),
            port: number(12),
            state: State(bytes[14]),
        }
    }

    fn write(&self, to: &mut [u8]) {
        to[..2].copy_from_slice(&self.system_priority.to_be_bytes());
        to[2..8].copy_from_slice(&self.system.octets());
        to[8..10].copy_from_slice(&self.key.to_be_bytes());
        to[10..12].copy_from_slice(&self.port_priority.to_be_bytes());
        to[12..14].copy_from_slice(&self.port.to_be_bytes());
        to[14] = self.state.0;
    }

    /// Whether both are the same port with the same parameters: all fields and whether it can be aggregated.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let parts = |end: &Self| Self { state: end.state.masked(State::AGGREGATION), ..*end };
        parts(self) == parts(other)
    }
}

/// An LACPDU: what its sender knows about both ends of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pdu {
    /// The sender.
    pub actor: Endpoint,
    /// The receiver, as the sender knows it.
    pub partner: Endpoint,
}

/// A marker: its sender asks for a response, which is the last frame of conversations before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker<'a>(&'a [u8; BODY]);

/// A frame of a slow protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlowFrame<'a> {
    /// An LACPDU.
    Lacp(Pdu),
    /// A marker.
    Marker(Marker<'a>),
}

/// Why a frame is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PduError {
    /// It has another destination or EtherType.
    NotSlow,
    /// It is of another slow protocol, or a response to a marker.
    Other,
    /// It is shorter than an LACPDU.
    TooShort,
    /// A TLV has another type or length.
    Tlv,
}

impl<'a> SlowFrame<'a> {
    /// Parses an untagged frame, with or without padding. Versions above 1 are read as version 1 (6.4.2.3 d).
    ///
    /// # Errors
    /// If it is not an LACPDU or a marker with the TLVs of version 1.
    pub fn parse(frame: &'a [u8]) -> Result<Self, PduError> {
        let header = Ethernet::new(frame).map_err(|_| PduError::NotSlow)?;
        if header.destination() != SLOW_PROTOCOLS || header.ethertype() != SLOW_ETHERTYPE {
            return Err(PduError::NotSlow);
        }
        let body = header.payload();
        match body.first() {
            Some(&LACP) => body.first_chunk().ok_or(PduError::TooShort).and_then(pdu).map(Self::Lacp),
            Some(&MARKER) => body.first_chunk().ok_or(PduError::TooShort).and_then(marker).map(Self::Marker),
            _ => Err(PduError::Other),
        }
    }
}

fn pdu(body: &[u8; BODY]) -> Result<Pdu, PduError> {
    let end = |at: usize, tlv: [u8; 2]| {
        let value = body[at..].strip_prefix(&tlv).ok_or(PduError::Tlv)?;
        value.first_chunk().map(Endpoint::read).ok_or(PduError::Tlv)
    };
    Ok(Pdu { actor: end(2, ACTOR)?, partner: end(22, PARTNER)? })
}

fn marker(body: &[u8; BODY]) -> Result<Marker<'_>, PduError> {
    match [body[2], body[3]] {
        MARKER_INFORMATION => Ok(Marker(body)),
        [MARKER_RESPONSE, _] => Err(PduError::Other),
        _ => Err(PduError::Tlv),
    }
}

/// The frame of an LACPDU from `source`.
pub fn lacp_frame(source: MacAddress, pdu: &Pdu) -> [u8; FRAME] {
    let (mut frame, at) = slow_frame(source);
    let body = &mut frame[at..];
    body[..2].copy_from_slice(&[LACP, VERSION]);
    for (at, tlv, end) in [(2, ACTOR, &pdu.actor), (22, PARTNER, &pdu.partner)] {
        body[at..at + 2].copy_from_slice(&tlv);
        end.write(&mut body[at + 2..]);
    }
    // The maximum delay of the collector is zero, and so is the terminator.
    body[42..44].copy_from_slice(&COLLECTOR);
    frame
}

/// The frame that responds to a marker, from `source` (6.5.4.2).
pub fn marker_response(source: MacAddress, marker: &Marker<'_>) -> [u8; FRAME] {
    let (mut frame, at) = slow_frame(source);
    frame[at..].copy_from_slice(marker.0);
    frame[at + 2] = MARKER_RESPONSE;
    frame
}

fn slow_frame(source: MacAddress) -> ([u8; FRAME], usize) {
    let mut frame = [0; FRAME];
    let at = write_ethernet(&mut frame, SLOW_PROTOCOLS, source, None, SLOW_ETHERTYPE);
    // The frame is longer than a header.
    (frame, at.unwrap_or(wire::HEADER_LEN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OWN: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 1]);

    fn end() -> impl Strategy<Value = Endpoint> {
        let parts = (any::<u16>(), any::<[u8; 6]>(), any::<u16>(), any::<u16>(), any::<u16>(), any::<u8>());
        parts.prop_map(|(system_priority, system, key, port_priority, port, state)| Endpoint {
            system_priority,
            system: system.into(),
            key,
            port_priority,
            port,
            state: State(state),
        })
    }

    proptest! {
        #[test]
        fn a_written_frame_is_parsed(actor in end(), partner in end(), padding in 0usize..8) {
            let pdu = Pdu { actor, partner };
            let mut frame = lacp_frame(OWN, &pdu).to_vec();
            frame.resize(FRAME + padding, 0xff);
            prop_assert_eq!(SlowFrame::parse(&frame), Ok(SlowFrame::Lacp(pdu)));
            prop_assert_eq!(SlowFrame::parse(&frame[..FRAME - 1]), Err(PduError::TooShort));
        }
    }

    /// The frame of a Linux bond (3com example of IEEE 802.1AX figure 6-7 has the same layout), as tshark dissects it.
    #[test]
    fn fields_have_the_places_of_the_standard() {
        let mut frame = [0; FRAME];
        frame[..6].copy_from_slice(&SLOW_PROTOCOLS.octets());
        frame[12..14].copy_from_slice(&[0x88, 0x09]);
        let actor = [1, 20, 0xff, 0xff, 2, 0, 0, 0, 0, 9, 0, 15, 0, 255, 0, 1, 0x3d];
        let partner = [2, 20, 0x80, 0, 2, 0, 0, 0, 0, 7, 1, 2, 3, 4, 5, 6, 0x05];
        frame[14..16].copy_from_slice(&[1, 1]);
        frame[16..33].copy_from_slice(&actor);
        frame[36..53].copy_from_slice(&partner);
        frame[56..58].copy_from_slice(&[3, 16]);
        let Ok(SlowFrame::Lacp(pdu)) = SlowFrame::parse(&frame) else { panic!("not an LACPDU") };
        let expected = Endpoint {
            system_priority: 0xffff,
            system: MacAddress::new([2, 0, 0, 0, 0, 9]),
            key: 15,
            port_priority: 255,
            port: 1,
            state: State(0x3d),
        };
        assert_eq!((pdu.actor, pdu.partner.key, pdu.partner.port), (expected, 0x102, 0x506));
        frame[17] = 19;
        assert_eq!(SlowFrame::parse(&frame), Err(PduError::Tlv));
    }

    #[test]
    fn a_marker_is_answered_with_its_own_contents() {
        let (mut frame, at) = slow_frame(OWN);
        frame[at..at + 14].copy_from_slice(&[MARKER, 1, 1, 16, 0, 5, 2, 0, 0, 0, 0, 7, 1, 2]);
        let Ok(SlowFrame::Marker(marker)) = SlowFrame::parse(&frame) else { panic!("not a marker") };
        let response = marker_response(OWN, &marker);
        frame[at + 2] = MARKER_RESPONSE;
        assert_eq!(response, frame);
        assert_eq!(SlowFrame::parse(&response), Err(PduError::Other), "responses are not answered");
    }
}
