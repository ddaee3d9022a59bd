//! User description of a stream, and its validation; `fields` validates the varying fields.

mod fields;
mod keys;

pub use keys::{FIELDS, Key, PATTERNS};

use super::headers::{self, FrameLayout};
use super::rate::{ParseRateError, Rate};
use super::sizes::{SIZES, Sizes, SizesError};
use super::template::Template;
use super::vary::{Amount, Pattern, PatternError, Values};
use port::Remedy;
use port::pcap::{PcapError, Recording};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use wire::MacAddress;

/// Maximum number of flows per stream.
const MAX_FLOWS: u32 = 1 << 24;
/// Maximum number of VLAN tags, and of MPLS labels.
const MAX_TAGS: usize = 4;

/// Protocol above the network header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// UDP datagrams.
    #[default]
    Udp,
    /// TCP segments with the headers of an established connection.
    Tcp,
    /// No transport header, only payload.
    None,
}

/// Headers of a VXLAN tunnel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Outer {
    /// VXLAN network identifier.
    pub vni: u32,
    /// MAC address of the sending tunnel endpoint.
    pub source_mac: MacAddress,
    /// MAC address of the receiving tunnel endpoint.
    pub destination_mac: MacAddress,
    /// IP address of the sending tunnel endpoint.
    pub source: IpAddr,
    /// IP address of the receiving tunnel endpoint.
    pub destination: IpAddr,
    /// UDP port of the sending tunnel endpoint.
    pub source_port: u16,
}

impl Default for Outer {
    fn default() -> Self {
        Self {
            vni: 1,
            source_mac: MacAddress::new([2, 0, 0, 0, 1, 1]),
            destination_mac: MacAddress::new([2, 0, 0, 0, 1, 2]),
            source: IpAddr::V4(Ipv4Addr::new(198, 18, 1, 1)),
            destination: IpAddr::V4(Ipv4Addr::new(198, 19, 1, 1)),
            source_port: 49_152,
        }
    }
}

/// A stream before validation. Default addresses are from the range that RFC 2544 reserves for benchmarks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Description {
    /// Name; default: the number of the stream.
    pub name: String,
    /// Rate of this stream; default: an equal share of the common rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<String>,
    /// Frame sizes.
    pub size: Sizes,
    /// Capture to take the frames from; a tag replaces the end of each payload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pcap: Option<PathBuf>,
    /// MAC address of the sender.
    pub source_mac: MacAddress,
    /// MAC address of the receiver.
    pub destination_mac: MacAddress,
    /// VLAN tags, outermost first; all but the last are service tags (IEEE 802.1ad).
    pub vlan: Vec<u16>,
    /// MPLS labels, outermost first.
    pub mpls: Vec<u32>,
    /// IP address of the sender; same version as the receiver's.
    pub source: IpAddr,
    /// IP address of the receiver.
    pub destination: IpAddr,
    /// Protocol above the network header.
    pub transport: Transport,
    /// Port of the sender.
    pub source_port: u16,
    /// Port of the receiver.
    pub destination_port: u16,
    /// VXLAN tunnel around the frame; tags and labels are then outside of the tunnel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vxlan: Option<Outer>,
    /// Number of flows: they differ in the source port and, beyond 32768 of them, in the source address.
    pub flows: u32,
    /// Whether transport checksums are computed.
    pub checksums: bool,
    /// Fields that vary from frame to frame, by name.
    pub vary: BTreeMap<String, Pattern>,
}

impl Description {
    /// Sets the field of a key of a configuration file.
    pub fn set(&mut self, key: &str, value: Value) -> Result<(), StreamError> {
        match (key, value) {
            ("rate", Value::String(rate)) => self.rate = Some(rate),
            ("rate", other) => return Err(ParseRateError::of(&other.to_string()).into()),
            ("size", value) => self.size = Sizes::read(&value)?,
            ("vary", Value::Object(fields)) => self.vary = patterns(&fields)?,
            (key, value) => {
                let mut keys = serde_json::to_value(&*self)?;
                keys[key] = value;
                *self = serde_json::from_value(keys)?;
            }
        }
        Ok(())
    }
}

fn patterns(fields: &Map<String, Value>) -> Result<BTreeMap<String, Pattern>, StreamError> {
    let pattern = |(name, value): (&String, &Value)| match Pattern::read(value) {
        Ok(pattern) => Ok((name.clone(), pattern)),
        Err(error) => Err(StreamError::Pattern(name.clone(), error)),
    };
    fields.iter().map(pattern).collect()
}

impl Default for Description {
    fn default() -> Self {
        Self {
            name: String::new(),
            rate: None,
            size: Sizes::default(),
            pcap: None,
            source_mac: MacAddress::new([2, 0, 0, 0, 0, 1]),
            destination_mac: MacAddress::new([2, 0, 0, 0, 0, 2]),
            vlan: Vec::new(),
            mpls: Vec::new(),
            source: IpAddr::V4(Ipv4Addr::new(198, 18, 0, 1)),
            destination: IpAddr::V4(Ipv4Addr::new(198, 19, 0, 1)),
            transport: Transport::default(),
            source_port: 1024,
            destination_port: 9,
            vxlan: None,
            flows: 1,
            checksums: true,
            vary: BTreeMap::new(),
        }
    }
}

/// Error in a stream: field, cause and remedy.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// Invalid rate.
    #[error("`rate`: {0}")]
    Rate(#[from] ParseRateError),
    /// Invalid sizes.
    #[error("`size`: {0}")]
    Size(#[from] SizesError),
    /// Unknown key, or a value of another type than the key's.
    #[error("{0}")]
    Key(#[from] serde_json::Error),
    /// Invalid pattern of a field.
    #[error("`vary`: `{0}`: {1}")]
    Pattern(String, PatternError),
    /// A size is too small for the headers.
    #[error("`size`: {size} bytes are too few for these headers and a tag")]
    NoRoom {
        /// The size in bytes.
        size: u16,
        /// The smallest possible size.
        shortest: usize,
    },
    /// The capture cannot be read.
    #[error("`pcap`: {0}")]
    Pcap(#[from] PcapError),
    /// No packet of the capture has room for a tag.
    #[error("`pcap`: every packet is too short for a tag")]
    Bare,
    /// A packet of the capture is longer than ports support.
    #[error("`pcap`: packet {0} has {1} bytes, and ports carry 9212")]
    Long(usize, usize),
    /// A number is out of range.
    #[error("`{0}`: {1} is out of range")]
    Range(&'static str, u64, &'static str),
    /// Too many tags or labels.
    #[error("`{0}`: {1} entries are too many")]
    Many(&'static str, usize, &'static str),
    /// The key conflicts with `pcap`, which determines its value.
    #[error("`{0}`: conflicts with `pcap`, whose frames determine it")]
    OfCapture(&'static str),
    /// Addresses of different IP versions.
    #[error("`{0}`: addresses of different versions")]
    Versions(&'static str),
    /// Unknown field.
    #[error("`vary`: this stream has no field `{0}`")]
    Field(String, String),
    /// The pattern has no values.
    #[error("`vary`: `{0}` has no values")]
    Values(String),
    /// Value of a type that the field does not support.
    #[error("`vary`: invalid value {1} for `{0}`")]
    Unlike(String, Amount, String),
    /// A value is too large for its field.
    #[error("`vary`: {1} is too large for `{0}`")]
    Large(String, u64, u128),
    /// Two patterns change the same bytes.
    #[error("`vary`: `{0}` and `{1}` share bytes")]
    Overlap(String, String),
}

impl Remedy for StreamError {
    fn remedy(&self) -> Option<Cow<'static, str>> {
        Some(match self {
            Self::Rate(error) => return error.remedy(),
            Self::Size(error) => return error.remedy(),
            Self::Key(_) => return None,
            Self::Pattern(_, error) => return error.remedy(),
            Self::NoRoom { shortest, .. } => format!("write {shortest} or more").into(),
            Self::Pcap(error) => return error.remedy(),
            Self::Bare => "name a capture of packets with 18 bytes of payload".into(),
            Self::Long(..) => "leave it out with `editcap`".into(),
            Self::Range(_, _, range) | Self::Many(_, _, range) => format!("write {range}").into(),
            Self::OfCapture(..) => "remove one of the two".into(),
            Self::Versions(..) => "write both as IPv4 or both as IPv6".into(),
            Self::Field(_, fields) => format!("name one of {fields}").into(),
            Self::Values(..) => "write a count, a limit or a list that is not empty".into(),
            Self::Unlike(_, _, value) => format!("write {value}").into(),
            Self::Large(_, _, limit) => format!("write numbers below {limit}").into(),
            Self::Overlap(..) => "change one of them (flows change source port and address)".into(),
        })
    }
}

/// A validated stream: frame templates and the values of varying fields.
#[derive(Debug)]
pub struct Plan {
    /// Name.
    pub name: String,
    /// Rate of this stream, if it has its own.
    pub rate: Option<Rate>,
    /// Mean frame size in bytes, without checksum.
    pub mean: f64,
    /// Notes for the user.
    pub notes: Vec<String>,
    pub(super) templates: Vec<Template>,
    /// Template index per frame of a round.
    pub(super) round: Vec<u32>,
    pub(super) values: Vec<Values>,
}

impl Description {
    /// Validates the stream. Opens no file but its capture.
    pub fn plan(&self) -> Result<Plan, StreamError> {
        self.validate()?;
        if self.pcap.is_some() {
            self.validate_capture()?;
        }
        let rate = self.rate.as_deref().map(str::parse).transpose()?;
        let mut notes = Vec::new();
        let (laid, round) = match &self.pcap {
            Some(path) => recorded(&Recording::read(path)?, &mut notes)?,
            None => self.laid_out()?,
        };
        let bytes: usize = round.iter().map(|at| laid[*at as usize].bytes.len()).sum();
        let mean = bytes as f64 / round.len().max(1) as f64;
        let (fields, values) = self.fields(&laid[0])?;
        let templates = laid.iter().map(|laid| Template::new(laid, &fields)).collect();
        Ok(Plan { name: self.name.clone(), rate, mean, notes, templates, round, values })
    }

    fn validate(&self) -> Result<(), StreamError> {
        let range = |key, value: u64, most: u64, remedy| {
            if value > most { Err(StreamError::Range(key, value, remedy)) } else { Ok(()) }
        };
        let few = |key, count: usize, remedy| {
            if count > MAX_TAGS { Err(StreamError::Many(key, count, remedy)) } else { Ok(()) }
        };
        few("vlan", self.vlan.len(), "at most four tags")?;
        few("mpls", self.mpls.len(), "at most four labels")?;
        self.vlan
            .iter()
            .try_for_each(|id| range("vlan", (*id).into(), 4095, "identifiers from 0 to 4095"))?;
        let label = |label: &u32| range("mpls", (*label).into(), (1 << 20) - 1, "labels below 1048576");
        self.mpls.iter().try_for_each(label)?;
        if self.flows == 0 || self.flows > MAX_FLOWS {
            return Err(StreamError::Range("flows", self.flows.into(), "1 to 16777216"));
        }
        if self.source.is_ipv4() != self.destination.is_ipv4() {
            return Err(StreamError::Versions("destination"));
        }
        let Some(outer) = &self.vxlan else { return Ok(()) };
        range("vxlan.vni", outer.vni.into(), (1 << 24) - 1, "identifiers below 16777216")?;
        if outer.source.is_ipv4() != outer.destination.is_ipv4() {
            return Err(StreamError::Versions("vxlan.destination"));
        }
        Ok(())
    }

    /// Rejects keys whose value a capture determines, because they would be ignored.
    fn validate_capture(&self) -> Result<(), StreamError> {
        let usual = Self::default();
        let described = [
            ("size", self.size != usual.size),
            ("flows", self.flows != usual.flows),
            ("vlan", self.vlan != usual.vlan),
            ("mpls", self.mpls != usual.mpls),
            ("source_mac", self.source_mac != usual.source_mac),
            ("destination_mac", self.destination_mac != usual.destination_mac),
            ("source", self.source != usual.source),
            ("destination", self.destination != usual.destination),
            ("transport", self.transport != usual.transport),
            ("source_port", self.source_port != usual.source_port),
            ("destination_port", self.destination_port != usual.destination_port),
            ("vxlan", self.vxlan != usual.vxlan),
            ("checksums", self.checksums != usual.checksums),
            ("vary", self.vary != usual.vary),
        ];
        let twice = described.iter().find(|(_, described)| *described);
        twice.map_or(Ok(()), |(key, _)| Err(StreamError::OfCapture(key)))
    }

    /// A frame of each size, and the order of sizes in a round.
    fn laid_out(&self) -> Result<(Vec<FrameLayout>, Vec<u32>), StreamError> {
        let sizes = self.size.round()?;
        let mut different = sizes.clone();
        different.sort_unstable();
        different.dedup();
        let lay = |size: &u16| {
            let no_room = || StreamError::NoRoom { size: *size, shortest: headers::shortest(self) };
            headers::lay(self, usize::from(*size)).ok_or_else(no_room)
        };
        let laid = different.iter().map(lay).collect::<Result<_, _>>()?;
        let place = |size| different.binary_search(size).map_or(0, |at| at as u32);
        Ok((laid, sizes.iter().map(place).collect()))
    }
}

/// The frames of a capture, in order; those without room for a tag are left out.
fn recorded(
    recording: &Recording,
    notes: &mut Vec<String>,
) -> Result<(Vec<FrameLayout>, Vec<u32>), StreamError> {
    let mut laid = Vec::new();
    for (i, bytes) in recording.frames().enumerate() {
        if bytes.len() > usize::from(*SIZES.end()) {
            return Err(StreamError::Long(i + 1, bytes.len()));
        }
        laid.extend(headers::captured(bytes));
    }
    if laid.is_empty() {
        return Err(StreamError::Bare);
    }
    let left_out = recording.packets() - laid.len();
    if left_out > 0 {
        notes.push(format!(
            "{left_out} of {} packets of {} are too short for a tag and are skipped",
            recording.packets(),
            recording.path().display()
        ));
    }
    let round = (0..laid.len() as u32).collect();
    Ok((laid, round))
}
