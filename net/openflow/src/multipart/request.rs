//! Multipart requests (OpenFlow 1.3.5, 7.3.5).

use super::features::TableFeatures;
use super::flow::FlowStatsRequest;
use super::parts::{Kind, Parts, read_header};
use crate::bytes::{Put, Reader};
use crate::error::{EncodeError, ErrorCode, is_known_vendor};
use crate::error_codes::{NICIRA, ONF};
use crate::group::ALL_GROUPS;
use crate::monitor::MonitorRequest;
use crate::port_no::{read as read_port, write as write_port};
use crate::queue::QueueRequest;
use crate::version::Version;
use flow::PortNo;

/// Number of the ONF's request for monitors.
pub(super) const ONF_MONITOR: u32 = 1870;

/// Data of an experimenter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExperimenterData {
    /// Experimenter.
    pub experimenter: u32,
    /// Its number of the message; 0 in OpenFlow 1.0, which has none.
    pub kind: u32,
    /// Data.
    pub data: Vec<u8>,
}

/// A request for information.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MultipartRequest {
    /// Description of the switch.
    Desc,
    /// Flows.
    Flow(Box<FlowStatsRequest>),
    /// Flows in Nicira's form, in OpenFlow 1.0.
    NxFlow(Box<FlowStatsRequest>),
    /// Sums over flows.
    Aggregate(Box<FlowStatsRequest>),
    /// Sums over flows in Nicira's form, in OpenFlow 1.0.
    NxAggregate(Box<FlowStatsRequest>),
    /// Counters of tables.
    Table,
    /// Counters of a port, or of all for [`PortNo::ANY`].
    Port(PortNo),
    /// Counters of queues.
    Queue(QueueRequest),
    /// Counters of a group, or of all for [`ALL_GROUPS`].
    Group(u32),
    /// Groups; all in OpenFlow 1.3 and 1.4.
    GroupDesc(u32),
    /// Capabilities of groups.
    GroupFeatures,
    /// Counters of a meter, or of all.
    Meter(u32),
    /// A meter, or all.
    MeterConfig(u32),
    /// Capabilities of meters.
    MeterFeatures,
    /// Features of tables: a change, or a request if empty.
    TableFeatures(Vec<TableFeatures>),
    /// Ports; all before OpenFlow 1.5.
    PortDesc(PortNo),
    /// Configuration of tables, since OpenFlow 1.4.
    TableDesc,
    /// Queues, since OpenFlow 1.4.
    QueueDesc(QueueRequest),
    /// Monitors of flows.
    FlowMonitor(Vec<MonitorRequest>),
    /// Data of an experimenter.
    Experimenter(ExperimenterData),
}

impl MultipartRequest {
    /// Reads a request, and whether more messages belong to it.
    pub(crate) fn read(from: &mut Reader<'_>, version: Version) -> Result<(Self, bool), ErrorCode> {
        let (kind, more) = read_header(from, version)?;
        let found = match kind {
            Kind::Standard(number) => Self::read_standard(number, from, version)?,
            Kind::Experimenter(experimenter, kind) => {
                Self::read_experimenter(experimenter, kind, from, version)?
            }
        };
        from.end()?;
        Ok((found, more))
    }

    fn read_standard(number: u16, from: &mut Reader<'_>, version: Version) -> Result<Self, ErrorCode> {
        if !is_known(number, version) {
            return Err(ErrorCode::RequestBadMultipart);
        }
        Ok(match number {
            0 => Self::Desc,
            1 => Self::Flow(Box::new(FlowStatsRequest::read(from, version)?)),
            2 => {
                let request = Box::new(FlowStatsRequest::read(from, version)?);
                // OpenFlow 1.5 lists the counters to add up; the reply contains all.
                from.skip(if version >= Version::V15 { from.len() } else { 0 })?;
                Self::Aggregate(request)
            }
            3 => Self::Table,
            4 => Self::Port(read_padded_port(from, version)?),
            5 => Self::Queue(QueueRequest::read(from, version)?),
            6 => Self::Group(read_padded(from)?),
            7 if version < Version::V15 => Self::GroupDesc(ALL_GROUPS),
            7 => Self::GroupDesc(read_padded(from)?),
            8 => Self::GroupFeatures,
            9 => Self::Meter(read_padded(from)?),
            10 => Self::MeterConfig(read_padded(from)?),
            11 => Self::MeterFeatures,
            12 => Self::TableFeatures(from.repeat(|from| TableFeatures::read(from, version))?),
            13 if version < Version::V15 => Self::PortDesc(PortNo::ANY),
            13 => Self::PortDesc(read_padded_port(from, version)?),
            14 => Self::TableDesc,
            15 => Self::QueueDesc(QueueRequest::read(from, version)?),
            _ => Self::FlowMonitor(from.repeat(|from| MonitorRequest::read(from, version))?),
        })
    }

    fn read_experimenter(
        experimenter: u32,
        kind: u32,
        from: &mut Reader<'_>,
        version: Version,
    ) -> Result<Self, ErrorCode> {
        Ok(match (experimenter, kind, version) {
            (NICIRA, 0, Version::V10) => Self::NxFlow(Box::new(FlowStatsRequest::read_nicira(from)?)),
            (NICIRA, 1, Version::V10) => Self::NxAggregate(Box::new(FlowStatsRequest::read_nicira(from)?)),
            (NICIRA, 7, Version::V10) => Self::Group(read_padded(from)?),
            (NICIRA, 8, Version::V10) => Self::GroupDesc(read_padded(from)?),
            (NICIRA, 9, Version::V10) => Self::GroupFeatures,
            (NICIRA, 2, Version::V10) | (ONF, ONF_MONITOR, Version::V13) => {
                Self::FlowMonitor(from.repeat(|from| MonitorRequest::read(from, version))?)
            }
            _ if is_known_vendor(experimenter) => return Err(ErrorCode::RequestBadExperimenterType),
            _ => Self::Experimenter(ExperimenterData { experimenter, kind, data: from.rest().to_vec() }),
        })
    }

    fn kind(&self, version: Version) -> Kind {
        Kind::Standard(match self {
            Self::Desc => 0,
            Self::Flow(_) => 1,
            Self::Aggregate(_) => 2,
            Self::Table => 3,
            Self::Port(_) => 4,
            Self::Queue(_) => 5,
            Self::Group(_) => return group_kind(0, version),
            Self::GroupDesc(_) => return group_kind(1, version),
            Self::GroupFeatures => return group_kind(2, version),
            Self::Meter(_) => 9,
            Self::MeterConfig(_) => 10,
            Self::MeterFeatures => 11,
            Self::TableFeatures(_) => 12,
            Self::PortDesc(_) => 13,
            Self::TableDesc => 14,
            Self::QueueDesc(_) => 15,
            Self::NxFlow(_) => return Kind::Experimenter(NICIRA, 0),
            Self::NxAggregate(_) => return Kind::Experimenter(NICIRA, 1),
            Self::FlowMonitor(_) => return monitor_kind(version),
            Self::Experimenter(data) => return Kind::Experimenter(data.experimenter, data.kind),
        })
    }

    /// Writes the request after its header, in several messages if necessary.
    pub(crate) fn write(
        &self,
        out: &mut Vec<u8>,
        start: usize,
        more: bool,
        version: Version,
    ) -> Result<(), EncodeError> {
        let kind = self.kind(version);
        if !is_supported(kind, version) {
            return Err(EncodeError::Unsupported("a multipart request"));
        }
        let mut parts = Parts::new(out, start, kind, version);
        self.write_body(&mut parts, version)?;
        parts.finish(more)
    }

    fn write_body(&self, parts: &mut Parts<'_>, version: Version) -> Result<(), EncodeError> {
        let is_15 = version >= Version::V15;
        match self {
            Self::Flow(request) | Self::Aggregate(request) => request.write(parts.out, version)?,
            Self::NxFlow(request) | Self::NxAggregate(request) => request.write_nicira(parts.out)?,
            Self::Port(port) => write_padded_port(parts.out, *port, version)?,
            Self::PortDesc(port) if is_15 => write_padded_port(parts.out, *port, version)?,
            Self::Queue(request) | Self::QueueDesc(request) => request.write(parts.out, version)?,
            Self::Group(id) | Self::Meter(id) | Self::MeterConfig(id) => write_padded(parts.out, *id),
            Self::GroupDesc(id) if is_15 || version == Version::V10 => write_padded(parts.out, *id),
            Self::TableFeatures(tables) => {
                for table in tables {
                    parts.entry(|out| {
                        table.write(out, version);
                        Ok(())
                    })?;
                }
            }
            Self::FlowMonitor(requests) => {
                requests.iter().try_for_each(|request| parts.entry(|out| request.write(out, version)))?;
            }
            Self::Experimenter(data) => parts.out.extend_from_slice(&data.data),
            _ => {}
        }
        Ok(())
    }
}

/// Kind of requests and replies of groups: counters, descriptions and features.
pub(super) fn group_kind(offset: u16, version: Version) -> Kind {
    match version {
        Version::V10 => Kind::Experimenter(NICIRA, 7 + u32::from(offset)),
        _ => Kind::Standard(6 + offset),
    }
}

/// Kind of requests and replies of monitors.
pub(super) fn monitor_kind(version: Version) -> Kind {
    match version {
        Version::V10 => Kind::Experimenter(NICIRA, 2),
        Version::V13 => Kind::Experimenter(ONF, ONF_MONITOR),
        Version::V14 | Version::V15 => Kind::Standard(16),
    }
}

/// Whether a version has this number. OpenFlow 1.0 has descriptions of ports as an extension.
pub(super) fn is_known(number: u16, version: Version) -> bool {
    match version {
        Version::V10 => matches!(number, 0..=5 | 13),
        Version::V13 => number <= 13,
        Version::V14 | Version::V15 => number <= 16,
    }
}

/// Whether a version has this kind.
pub(super) fn is_supported(kind: Kind, version: Version) -> bool {
    match kind {
        Kind::Standard(number) => is_known(number, version),
        Kind::Experimenter(NICIRA, _) => version == Version::V10,
        Kind::Experimenter(..) => true,
    }
}

fn read_padded(from: &mut Reader<'_>) -> Result<u32, ErrorCode> {
    let id = from.u32()?;
    from.skip(4)?;
    Ok(id)
}

fn write_padded(out: &mut Vec<u8>, id: u32) {
    out.put_u32(id);
    out.put_u32(0);
}

fn read_padded_port(from: &mut Reader<'_>, version: Version) -> Result<PortNo, ErrorCode> {
    let port = read_port(from, version)?;
    from.skip(if version == Version::V10 { 6 } else { 4 })?;
    Ok(port)
}

fn write_padded_port(out: &mut Vec<u8>, port: PortNo, version: Version) -> Result<(), EncodeError> {
    write_port(out, port, version)?;
    out.put_zeros(if version == Version::V10 { 6 } else { 4 });
    Ok(())
}
