//! LLDPDUs in Ethernet frames (clauses 8 and 9.2.7.7, annex D).
//!
//! Texts of neighbours are shown by others: control characters are removed when they are decoded.

use crate::tlv::{Cut, Tlv, Tlvs, push};
use std::fmt::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::{EtherType, Ethernet, MacAddress};

/// Destination of LLDPDUs: the nearest bridge (table 7-1).
pub const GROUP: MacAddress = MacAddress::new([0x01, 0x80, 0xc2, 0, 0, 0x0e]);
/// Greatest length of a frame, without frame check sequence.
pub const MAX_FRAME: usize = 1514;
const MIN_FRAME: usize = 60;
const HEADER: usize = 14;

const END: u8 = 0;
const CHASSIS: u8 = 1;
const PORT: u8 = 2;
const TTL: u8 = 3;
const PORT_DESCRIPTION: u8 = 4;
const SYSTEM_NAME: u8 = 5;
const SYSTEM_DESCRIPTION: u8 = 6;
const CAPABILITIES: u8 = 7;
const MANAGEMENT: u8 = 8;
const ORGANIZATION: u8 = 127;
/// Identifier of IEEE 802.1 in organizationally specific TLVs.
const IEEE_802_1: [u8; 3] = [0, 0x80, 0xc2];
/// Subtypes of IEEE 802.1 (annex D of IEEE 802.1Q).
const PORT_VLAN: u8 = 1;
const VLAN_NAME: u8 = 3;
/// Greatest lengths: identifiers and texts, names of VLANs.
const MAX_TEXT: usize = 255;
const MAX_VLAN_NAME: usize = 32;
/// Numbers of management addresses and of VLANs that are kept of an LLDPDU.
const MAX_ADDRESSES: usize = 8;
const MAX_VLANS: usize = 64;

/// Identifier of a chassis or a port: subtype and value (8.5.2, 8.5.3).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    subtype: u8,
    value: Vec<u8>,
}

/// Meaning of a subtype of an identifier.
#[derive(Clone, Copy)]
enum Form {
    Text,
    Mac,
    Address,
    Other,
}

impl Id {
    const CHASSIS_MAC: u8 = 4;
    const PORT_INTERFACE: u8 = 5;

    /// Chassis identifier that is an Ethernet address.
    pub fn chassis(address: MacAddress) -> Self {
        Self { subtype: Self::CHASSIS_MAC, value: address.octets().into() }
    }

    /// Port identifier that is the name of an interface, cut to 255 bytes.
    pub fn interface(name: &str) -> Self {
        Self { subtype: Self::PORT_INTERFACE, value: cut(name, MAX_TEXT).into() }
    }

    fn decode(value: &[u8]) -> Option<Self> {
        let (&subtype, value) = value.split_first()?;
        (1..=MAX_TEXT).contains(&value.len()).then(|| Self { subtype, value: value.into() })
    }

    /// The identifier of a chassis as text.
    pub fn chassis_text(&self) -> String {
        self.text(match self.subtype {
            1..=3 | 6 | 7 => Form::Text,
            4 => Form::Mac,
            5 => Form::Address,
            _ => Form::Other,
        })
    }

    /// The identifier of a port as text.
    pub fn port_text(&self) -> String {
        self.text(match self.subtype {
            1 | 2 | 5 | 7 => Form::Text,
            3 => Form::Mac,
            4 => Form::Address,
            _ => Form::Other,
        })
    }

    fn text(&self, form: Form) -> String {
        let known = match form {
            Form::Text => Some(text(&self.value)),
            Form::Mac => <[u8; 6]>::try_from(&*self.value).ok().map(|mac| MacAddress::new(mac).to_string()),
            Form::Address => self
                .value
                .split_first()
                .and_then(|(family, address)| ip(*family, address))
                .map(|ip| ip.to_string()),
            Form::Other => None,
        };
        known.unwrap_or_else(|| hex(&self.value))
    }
}

/// Capabilities of a system, a bit each (8.5.8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Capabilities of the system.
    pub supported: u16,
    /// Enabled capabilities.
    pub enabled: u16,
}

impl Capabilities {
    /// MAC bridge.
    pub const BRIDGE: u16 = 1 << 2;
    const NAMES: [&str; 11] = [
        "other",
        "repeater",
        "bridge",
        "wlan-access-point",
        "router",
        "telephone",
        "docsis",
        "station",
        "c-vlan",
        "s-vlan",
        "two-port-mac-relay",
    ];

    /// Names of the enabled capabilities.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES
            .into_iter()
            .enumerate()
            .filter(move |(i, _)| self.enabled >> i & 1 != 0)
            .map(|(_, name)| name)
    }
}

/// A VLAN with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vlan {
    /// Identifier.
    pub id: u16,
    /// Name, at most 32 bytes.
    pub name: String,
}

/// Information that an end of a link sends about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lldpdu {
    /// System.
    pub chassis: Id,
    /// Port.
    pub port: Id,
    /// Seconds for which this is valid; 0: the sender stops.
    pub ttl: u16,
    /// Description of the port.
    pub port_description: Option<String>,
    /// Name of the system.
    pub system_name: Option<String>,
    /// Description of the system.
    pub system_description: Option<String>,
    /// Capabilities of the system.
    pub capabilities: Option<Capabilities>,
    /// Management addresses.
    pub management: Vec<IpAddr>,
    /// VLAN of untagged frames; 0: none.
    pub port_vlan: Option<u16>,
    /// VLANs of the port.
    pub vlans: Vec<Vlan>,
}

/// Why a frame is not an LLDPDU that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LldpError {
    /// Other destination or type.
    #[error("the frame has no LLDPDU")]
    NotLldp,
    /// The frame is longer than [`MAX_FRAME`].
    #[error("the frame is too long")]
    TooLong,
    /// A TLV ends behind the frame.
    #[error("a TLV is cut")]
    Cut,
    /// The first three TLVs are not chassis, port and time to live.
    #[error("mandatory TLV {0} is missing or invalid")]
    Mandatory(u8),
    /// A TLV that may occur once occurs again.
    #[error("TLV {0} occurs twice")]
    Twice(u8),
}

impl From<Cut> for LldpError {
    fn from(_: Cut) -> Self {
        Self::Cut
    }
}

impl Lldpdu {
    /// Decodes an Ethernet frame. Optional TLVs that are invalid or not known are ignored (9.2.7.7.2).
    ///
    /// # Errors
    /// If the frame has no valid LLDPDU.
    pub fn decode(bytes: &[u8]) -> Result<Self, LldpError> {
        let frame = Ethernet::new(bytes).map_err(|_| LldpError::NotLldp)?;
        if frame.destination() != GROUP || frame.ethertype() != EtherType::LLDP {
            return Err(LldpError::NotLldp);
        }
        if bytes.len() > MAX_FRAME {
            return Err(LldpError::TooLong);
        }
        let mut tlvs = Tlvs(&bytes[HEADER..]);
        let chassis = Id::decode(mandatory(&mut tlvs, CHASSIS)?).ok_or(LldpError::Mandatory(CHASSIS))?;
        let port = Id::decode(mandatory(&mut tlvs, PORT)?).ok_or(LldpError::Mandatory(PORT))?;
        let ttl = mandatory(&mut tlvs, TTL)?.first_chunk().ok_or(LldpError::Mandatory(TTL))?;
        let mut lldpdu = Self { chassis, port, ttl: u16::from_be_bytes(*ttl), ..Self::default() };
        for tlv in tlvs {
            let tlv = tlv?;
            match tlv.kind {
                END => break,
                CHASSIS | PORT | TTL => return Err(LldpError::Twice(tlv.kind)),
                _ => lldpdu.read(tlv)?,
            }
        }
        Ok(lldpdu)
    }

    /// Reads an optional TLV.
    fn read(&mut self, Tlv { kind, value }: Tlv<'_>) -> Result<(), LldpError> {
        match kind {
            PORT_DESCRIPTION => once(&mut self.port_description, kind, text(value)),
            SYSTEM_NAME => once(&mut self.system_name, kind, text(value)),
            SYSTEM_DESCRIPTION => once(&mut self.system_description, kind, text(value)),
            CAPABILITIES => match *value {
                [a, b, c, d, ..] => {
                    let (supported, enabled) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
                    once(&mut self.capabilities, kind, Capabilities { supported, enabled })
                }
                _ => Ok(()),
            },
            MANAGEMENT => {
                if self.management.len() < MAX_ADDRESSES {
                    self.management.extend(management(value));
                }
                Ok(())
            }
            ORGANIZATION => {
                self.read_vlans(value);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn read_vlans(&mut self, value: &[u8]) {
        match value.strip_prefix(&IEEE_802_1) {
            Some(&[PORT_VLAN, a, b, ..]) => self.port_vlan = Some(u16::from_be_bytes([a, b])),
            Some(&[VLAN_NAME, a, b, length, ref name @ ..]) if self.vlans.len() < MAX_VLANS => {
                let length = usize::from(length);
                if let Some(name) = name.get(..length).filter(|_| length <= MAX_VLAN_NAME) {
                    self.vlans.push(Vlan { id: u16::from_be_bytes([a, b]), name: text(name) });
                }
            }
            _ => {}
        }
    }

    /// Encodes a frame from `source`. TLVs that do not fit into a frame are left out.
    pub fn encode(&self, source: MacAddress) -> Vec<u8> {
        let mut frame = [&GROUP.octets()[..], &source.octets(), &EtherType::LLDP.0.to_be_bytes()].concat();
        push(&mut frame, CHASSIS, &[&[self.chassis.subtype], &self.chassis.value]);
        push(&mut frame, PORT, &[&[self.port.subtype], &self.port.value]);
        push(&mut frame, TTL, &[&self.ttl.to_be_bytes()]);
        let texts = [
            (PORT_DESCRIPTION, &self.port_description),
            (SYSTEM_NAME, &self.system_name),
            (SYSTEM_DESCRIPTION, &self.system_description),
        ];
        for (kind, text) in texts.into_iter().filter_map(|(kind, text)| Some((kind, text.as_ref()?))) {
            push(&mut frame, kind, &[cut(text, MAX_TEXT)]);
        }
        if let Some(Capabilities { supported, enabled }) = self.capabilities {
            push(&mut frame, CAPABILITIES, &[&supported.to_be_bytes(), &enabled.to_be_bytes()]);
        }
        self.management.iter().for_each(|address| push_management(&mut frame, *address));
        self.push_vlans(&mut frame);
        push(&mut frame, END, &[]);
        frame.resize(frame.len().max(MIN_FRAME), 0);
        frame
    }

    fn push_vlans(&self, frame: &mut Vec<u8>) {
        if let Some(vlan) = self.port_vlan {
            push(frame, ORGANIZATION, &[&IEEE_802_1, &[PORT_VLAN], &vlan.to_be_bytes()]);
        }
        for Vlan { id, name } in &self.vlans {
            let name = cut(name, MAX_VLAN_NAME);
            // 2 bytes of header, 7 before the name, and 2 of the end.
            if frame.len() + name.len() + 11 > MAX_FRAME {
                return;
            }
            let head = [&IEEE_802_1[..], &[VLAN_NAME], &id.to_be_bytes(), &[name.len() as u8]].concat();
            push(frame, ORGANIZATION, &[&head, name]);
        }
    }
}

impl fmt::Display for Lldpdu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} port {}", self.chassis.chassis_text(), self.port.port_text())
    }
}

/// The value of the next TLV, which has to be of this kind.
fn mandatory<'a>(tlvs: &mut Tlvs<'a>, kind: u8) -> Result<&'a [u8], LldpError> {
    let tlv = tlvs.next().ok_or(LldpError::Mandatory(kind))??;
    if tlv.kind == kind { Ok(tlv.value) } else { Err(LldpError::Mandatory(kind)) }
}

fn once<T>(field: &mut Option<T>, kind: u8, value: T) -> Result<(), LldpError> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(LldpError::Twice(kind)),
    }
}

/// Text of at most 255 bytes, without control characters.
fn text(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(&value[..value.len().min(MAX_TEXT)]);
    text.chars().filter(|c| !c.is_control()).collect()
}

fn hex(value: &[u8]) -> String {
    value.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The first bytes of a text, whole characters.
fn cut(text: &str, most: usize) -> &[u8] {
    &text.as_bytes()[..text.floor_char_boundary(most)]
}

/// Address by the number of its family (IANA).
fn ip(family: u8, address: &[u8]) -> Option<IpAddr> {
    match family {
        1 => Some(Ipv4Addr::from(*address.first_chunk::<4>()?).into()),
        2 => Some(Ipv6Addr::from(*address.first_chunk::<16>()?).into()),
        _ => None,
    }
}

/// Management address (8.5.9), if it is one of IP.
fn management(value: &[u8]) -> Option<IpAddr> {
    let (&length, rest) = value.split_first()?;
    let (&family, address) = rest.get(..usize::from(length))?.split_first()?;
    ip(family, address)
}

fn push_management(frame: &mut Vec<u8>, address: IpAddr) {
    let (family, octets) = match address {
        IpAddr::V4(address) => (1, address.octets().to_vec()),
        IpAddr::V6(address) => (2, address.octets().to_vec()),
    };
    // The interface of the address is not known (subtype 1), and there is no object identifier.
    let head = [octets.len() as u8 + 1, family];
    push(frame, MANAGEMENT, &[&head, &octets, &[1, 0, 0, 0, 0, 0]]);
}
