//! Membership messages, with every check of their RFCs.
//!
//! The Router Alert option is required in MLD (RFC 3810, section 6), and optional in IGMP, where hosts of version 1 do
//! not send it. Auxiliary data and unknown record types are skipped (RFC 3376, sections 4.2.6 and 4.2.12).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;
use wire::checksum::{Sum, protocol::ICMPV6};
use wire::{EtherType, Ipv4, Ipv6, Membership};

pub(crate) const IGMP: u8 = 2;
pub(crate) const PIM: u8 = 103;
pub(crate) const IGMP_QUERY: u8 = 0x11;
pub(crate) const IGMP_REPORT_1: u8 = 0x12;
pub(crate) const IGMP_REPORT_2: u8 = 0x16;
pub(crate) const IGMP_LEAVE: u8 = 0x17;
pub(crate) const IGMP_REPORT_3: u8 = 0x22;
pub(crate) const MLD_QUERY: u8 = 130;
pub(crate) const MLD_REPORT_1: u8 = 131;
pub(crate) const MLD_DONE: u8 = 132;
pub(crate) const MLD_REPORT_2: u8 = 143;
const HOP_BY_HOP: u8 = 0;
const ROUTER_ALERT: u8 = 5;
/// `ALL-PIM-ROUTERS` (RFC 7761, section 4.3.1).
const PIM_ROUTERS: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(224, 0, 0, 13)), IpAddr::V6(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0xd))];

/// Why a message is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The packet or the message is shorter than it says.
    #[error("the message is truncated")]
    Truncated,
    /// The packet is a fragment.
    #[error("the packet is a fragment")]
    Fragment,
    /// A checksum is wrong: of the IPv4 header or of the message.
    #[error("a checksum is wrong")]
    Checksum,
    /// The time to live or hop limit is not 1.
    #[error("the hop limit is not 1")]
    HopLimit,
    /// The source of an MLD message is not link-local.
    #[error("the source is not link-local")]
    Source,
    /// An MLD message has no Router Alert option.
    #[error("there is no Router Alert option")]
    RouterAlert,
    /// The group is not a multicast address.
    #[error("the group is not a multicast address")]
    Group,
    /// The packet has no message of a known type.
    #[error("the type is unknown")]
    Type,
}

impl MessageError {
    /// Names of the errors, in their order.
    pub const NAMES: [&'static str; 8] =
        ["truncated", "fragment", "checksum", "hop-limit", "source", "router-alert", "group", "type"];
}

/// A message of a host or a router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Source of the packet.
    pub source: IpAddr,
    /// Version of IGMP or MLD; 0 for PIM.
    pub version: u8,
    /// Content.
    pub body: Body,
}

/// Content of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A query for all groups or for one, with the maximum delay of reports.
    Query {
        /// The group; `None` for all groups.
        group: Option<IpAddr>,
        /// Maximum delay of reports.
        delay: Duration,
        /// Whether timers of memberships must not be changed (RFC 3376, section 4.1.5).
        is_suppressed: bool,
    },
    /// A report, leave or done message.
    Report(Vec<Record>),
    /// A PIM router is there.
    Router,
}

/// Report of a host about a group. Older messages are converted: a report to [`Change::IsExclude`], a leave or done
/// message to [`Change::ToInclude`], each without sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Type.
    pub change: Change,
    /// The group.
    pub group: IpAddr,
    /// Its sources.
    pub sources: Vec<IpAddr>,
}

/// Type of a record (RFC 3376, section 4.2.12; RFC 3810, section 5.2.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// `MODE_IS_INCLUDE`
    IsInclude,
    /// `MODE_IS_EXCLUDE`
    IsExclude,
    /// `CHANGE_TO_INCLUDE_MODE`
    ToInclude,
    /// `CHANGE_TO_EXCLUDE_MODE`
    ToExclude,
    /// `ALLOW_NEW_SOURCES`
    Allow,
    /// `BLOCK_OLD_SOURCES`
    Block,
}

impl Change {
    fn of(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::IsInclude,
            2 => Self::IsExclude,
            3 => Self::ToInclude,
            4 => Self::ToExclude,
            5 => Self::Allow,
            6 => Self::Block,
            _ => return None,
        })
    }
}

impl Message {
    /// Parses an IP packet of this type.
    ///
    /// # Errors
    /// If the packet is no valid message.
    pub fn parse(ethertype: EtherType, packet: &[u8]) -> Result<Self, MessageError> {
        match ethertype {
            EtherType::IPV4 => ipv4(packet),
            EtherType::IPV6 => ipv6(packet),
            _ => Err(MessageError::Type),
        }
    }
}

fn ipv4(packet: &[u8]) -> Result<Message, MessageError> {
    let header = Ipv4::new(packet).ok_or(MessageError::Truncated)?;
    let message =
        packet.get(header.header_len()..header.total_len().into()).ok_or(MessageError::Truncated)?;
    if !header.is_checksum_valid() {
        return Err(MessageError::Checksum);
    }
    if header.is_fragment() {
        return Err(MessageError::Fragment);
    }
    let (source, destination) = header.source_and_destination();
    if header.protocol() == PIM {
        return pim(source.into(), destination.into());
    }
    if header.protocol() != IGMP {
        return Err(MessageError::Type);
    }
    if header.ttl() != 1 {
        return Err(MessageError::HopLimit);
    }
    if Sum::of(message).finish() != [0, 0] {
        return Err(MessageError::Checksum);
    }
    igmp(source.into(), message)
}

/// Presence of a PIM router.
fn pim(source: IpAddr, destination: IpAddr) -> Result<Message, MessageError> {
    if !PIM_ROUTERS.contains(&destination) {
        return Err(MessageError::Type);
    }
    Ok(Message { source, version: 0, body: Body::Router })
}

fn igmp(source: IpAddr, message: &[u8]) -> Result<Message, MessageError> {
    let [kind, code, _, _, group @ ..] = message else { return Err(MessageError::Truncated) };
    let group = || Ok(Ipv4Addr::from(*group.first_chunk().ok_or(MessageError::Truncated)?));
    let old = |version, change| Ok(Message { source, version, body: single(change, group()?.into())? });
    match *kind {
        IGMP_QUERY => {
            let version = match (message.len(), code) {
                (..8 | 9..12, _) => return Err(MessageError::Truncated),
                (8, 0) => 1,
                (8, _) => 2,
                _ => 3,
            };
            query(
                source,
                version,
                Membership::igmp(message),
                message.get(8).is_some_and(|byte| byte & 8 != 0),
            )
        }
        IGMP_REPORT_1 => old(1, Change::IsExclude),
        IGMP_REPORT_2 => old(2, Change::IsExclude),
        IGMP_LEAVE => old(2, Change::ToInclude),
        IGMP_REPORT_3 => Ok(Message { source, version: 3, body: records::<4>(message)? }),
        _ => Err(MessageError::Type),
    }
}

fn ipv6(packet: &[u8]) -> Result<Message, MessageError> {
    let header = Ipv6::new(packet).ok_or(MessageError::Truncated)?;
    let end = wire::IPV6_HEADER + usize::from(header.payload_len());
    let packet = packet.get(..end).ok_or(MessageError::Truncated)?;
    let header = Ipv6::new(packet).ok_or(MessageError::Truncated)?;
    let upper = header.upper_layer().ok_or(MessageError::Truncated)?;
    if upper.is_fragment {
        return Err(MessageError::Fragment);
    }
    let (source, destination) = header.source_and_destination();
    if upper.protocol == PIM {
        return pim(source.into(), destination.into());
    }
    let message = packet.get(upper.at..).ok_or(MessageError::Truncated)?;
    let kind = *message.first().ok_or(MessageError::Truncated)?;
    if upper.protocol != ICMPV6 || !matches!(kind, MLD_QUERY..=MLD_DONE | MLD_REPORT_2) {
        return Err(MessageError::Type);
    }
    if header.hop_limit() != 1 {
        return Err(MessageError::HopLimit);
    }
    if !is_link_local(source) && (kind == MLD_QUERY || !source.is_unspecified()) {
        return Err(MessageError::Source);
    }
    if header.next_header() != HOP_BY_HOP || !has_router_alert(&packet[wire::IPV6_HEADER..upper.at]) {
        return Err(MessageError::RouterAlert);
    }
    let mut sum = Sum::pseudo(header.addresses(), ICMPV6, message.len() as u32);
    sum.add(message);
    if sum.finish() != [0, 0] {
        return Err(MessageError::Checksum);
    }
    mld(source.into(), message)
}

fn is_link_local(address: Ipv6Addr) -> bool {
    address.segments()[0] & 0xffc0 == 0xfe80
}

/// Whether a Hop-by-Hop Options header has the option for MLD (RFC 2711).
fn has_router_alert(header: &[u8]) -> bool {
    let [_, len, ..] = header else { return false };
    let mut options = header.get(2..8 + usize::from(*len) * 8).unwrap_or_default();
    loop {
        options = match options {
            [ROUTER_ALERT, 2, 0, 0, ..] => return true,
            [0, rest @ ..] => rest,
            [_, len, rest @ ..] => rest.get(usize::from(*len)..).unwrap_or_default(),
            _ => return false,
        };
    }
}

fn mld(source: IpAddr, message: &[u8]) -> Result<Message, MessageError> {
    if message[0] == MLD_REPORT_2 {
        return Ok(Message { source, version: 2, body: records::<16>(message)? });
    }
    let group: &[u8; 16] =
        message.get(8..).and_then(|rest| rest.first_chunk()).ok_or(MessageError::Truncated)?;
    let group = IpAddr::from(*group);
    match message[0] {
        MLD_QUERY => {
            let version = match message.len() {
                24 => 1,
                25..28 => return Err(MessageError::Truncated),
                _ => 2,
            };
            let is_suppressed = message.get(24).is_some_and(|byte| byte & 8 != 0);
            query(source, version, Membership::mld(message), is_suppressed)
        }
        MLD_REPORT_1 => Ok(Message { source, version: 1, body: single(Change::IsExclude, group)? }),
        _ => Ok(Message { source, version: 1, body: single(Change::ToInclude, group)? }),
    }
}

fn query(
    source: IpAddr,
    version: u8,
    parsed: Option<Membership>,
    is_suppressed: bool,
) -> Result<Message, MessageError> {
    match parsed {
        Some(Membership::Query { group, delay, .. }) => {
            Ok(Message { source, version, body: Body::Query { group, delay, is_suppressed } })
        }
        // Length and checksum are valid.
        _ => Err(MessageError::Group),
    }
}

fn single(change: Change, group: IpAddr) -> Result<Body, MessageError> {
    if !group.is_multicast() {
        return Err(MessageError::Group);
    }
    Ok(Body::Report(vec![Record { change, group, sources: Vec::new() }]))
}

/// The records of a report, whose addresses have `N` bytes.
fn records<const N: usize>(message: &[u8]) -> Result<Body, MessageError>
where
    IpAddr: From<[u8; N]>,
{
    let (header, mut rest) = message.split_first_chunk::<8>().ok_or(MessageError::Truncated)?;
    let mut records = Vec::new();
    for _ in 0..u16::from_be_bytes([header[6], header[7]]) {
        let (record, after) = rest.split_first_chunk::<4>().ok_or(MessageError::Truncated)?;
        let (group, after) = after.split_first_chunk::<N>().ok_or(MessageError::Truncated)?;
        let count = usize::from(u16::from_be_bytes([record[2], record[3]]));
        let sources = after.get(..count * N).ok_or(MessageError::Truncated)?;
        rest = after.get(count * N + usize::from(record[1]) * 4..).ok_or(MessageError::Truncated)?;
        let group = IpAddr::from(*group);
        if !group.is_multicast() {
            return Err(MessageError::Group);
        }
        if let Some(change) = Change::of(record[0]) {
            let sources = sources.as_chunks::<N>().0.iter().map(|source| IpAddr::from(*source)).collect();
            records.push(Record { change, group, sources });
        }
    }
    Ok(Body::Report(records))
}
