//! Multipart replies (OpenFlow 1.3.5, 7.3.5).

use super::features::TableFeatures;
use super::flow::{Aggregate, FlowStats};
use super::parts::{Kind, Parts, read_header};
use super::request::{ExperimenterData, ONF_MONITOR, group_kind, is_known, is_supported, monitor_kind};
use crate::bytes::{Put, Reader};
use crate::error::{EncodeError, ErrorCode, is_known_vendor};
use crate::error_codes::{NICIRA, ONF};
use crate::group::{GroupDesc, GroupFeatures, GroupStats};
use crate::meter::{MeterConfig, MeterFeatures, MeterStats};
use crate::monitor::FlowUpdate;
use crate::port::{Port, PortStats};
use crate::queue::{QueueDesc, QueueStats};
use crate::table::{TableConfig, TableStats};
use crate::version::Version;
use flow::PortNo;

/// Length of the serial number; the other texts have 256 bytes.
const SERIAL: usize = 32;
const TEXT: usize = 256;

/// Description of the switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// Manufacturer.
    pub manufacturer: String,
    /// Hardware.
    pub hardware: String,
    /// Software.
    pub software: String,
    /// Serial number; at most 31 bytes.
    pub serial: String,
    /// Name of the switch.
    pub datapath: String,
}

impl Description {
    fn read(from: &mut Reader<'_>) -> Result<Self, ErrorCode> {
        Ok(Self {
            manufacturer: from.text(TEXT)?,
            hardware: from.text(TEXT)?,
            software: from.text(TEXT)?,
            serial: from.text(SERIAL)?,
            datapath: from.text(TEXT)?,
        })
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.put_text(&self.manufacturer, TEXT);
        out.put_text(&self.hardware, TEXT);
        out.put_text(&self.software, TEXT);
        out.put_text(&self.serial, SERIAL);
        out.put_text(&self.datapath, TEXT);
    }
}

/// An answer, or a part of one: lists of several messages continue each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MultipartReply {
    /// Description of the switch.
    Desc(Box<Description>),
    /// Flows.
    Flow(Vec<FlowStats>),
    /// Flows in Nicira's form, in OpenFlow 1.0.
    NxFlow(Vec<FlowStats>),
    /// Sums over flows.
    Aggregate(Aggregate),
    /// Sums over flows in Nicira's form, in OpenFlow 1.0.
    NxAggregate(Aggregate),
    /// Counters of tables.
    Table(Vec<TableStats>),
    /// Counters of ports.
    Port(Vec<PortStats>),
    /// Counters of queues.
    Queue(Vec<QueueStats>),
    /// Counters of groups.
    Group(Vec<GroupStats>),
    /// Groups.
    GroupDesc(Vec<GroupDesc>),
    /// Capabilities of groups.
    GroupFeatures(GroupFeatures),
    /// Counters of meters.
    Meter(Vec<MeterStats>),
    /// Meters.
    MeterConfig(Vec<MeterConfig>),
    /// Capabilities of meters.
    MeterFeatures(MeterFeatures),
    /// Features of tables.
    TableFeatures(Vec<TableFeatures>),
    /// Ports.
    PortDesc(Vec<Port>),
    /// Configuration of tables, since OpenFlow 1.4.
    TableDesc(Vec<TableConfig>),
    /// Queues, since OpenFlow 1.4.
    QueueDesc(Vec<QueueDesc>),
    /// Reports of monitors.
    FlowMonitor(Vec<FlowUpdate>),
    /// Data of an experimenter.
    Experimenter(ExperimenterData),
}

impl MultipartReply {
    /// Reads a reply, and whether more messages belong to it.
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
            0 => Self::Desc(Box::new(Description::read(from)?)),
            1 => Self::Flow(from.repeat(|from| FlowStats::read(from, version))?),
            2 if version >= Version::V15 => Self::Aggregate(Aggregate::read_oxs(from)?),
            2 => Self::Aggregate(from.get()?),
            3 => Self::Table(from.repeat(|from| TableStats::read(from, version))?),
            4 => Self::Port(from.repeat(|from| PortStats::read(from, version))?),
            5 => Self::Queue(from.repeat(|from| QueueStats::read(from, version))?),
            6 => Self::Group(from.repeat(GroupStats::read)?),
            7 => Self::GroupDesc(from.repeat(|from| GroupDesc::read(from, version))?),
            8 => Self::GroupFeatures(GroupFeatures::read(from)?),
            9 => Self::Meter(from.repeat(MeterStats::read)?),
            10 => Self::MeterConfig(from.repeat(MeterConfig::read)?),
            11 => Self::MeterFeatures(from.get()?),
            12 => Self::TableFeatures(from.repeat(|from| TableFeatures::read(from, version))?),
            13 => Self::PortDesc(from.repeat(|from| Port::read(from, version))?),
            14 => Self::TableDesc(from.repeat(TableConfig::read_desc)?),
            15 => Self::QueueDesc(from.repeat(|from| QueueDesc::read(from, version, PortNo::ANY))?),
            _ => Self::FlowMonitor(from.repeat(|from| FlowUpdate::read(from, version))?),
        })
    }

    fn read_experimenter(
        experimenter: u32,
        kind: u32,
        from: &mut Reader<'_>,
        version: Version,
    ) -> Result<Self, ErrorCode> {
        Ok(match (experimenter, kind, version) {
            (NICIRA, 0, Version::V10) => Self::NxFlow(from.repeat(FlowStats::read_nicira)?),
            (NICIRA, 1, Version::V10) => Self::NxAggregate(from.get()?),
            (NICIRA, 7, Version::V10) => Self::Group(from.repeat(GroupStats::read)?),
            (NICIRA, 8, Version::V10) => Self::GroupDesc(from.repeat(|from| GroupDesc::read(from, version))?),
            (NICIRA, 9, Version::V10) => Self::GroupFeatures(GroupFeatures::read(from)?),
            (NICIRA, 2, Version::V10) | (ONF, ONF_MONITOR, Version::V13) => {
                Self::FlowMonitor(from.repeat(|from| FlowUpdate::read(from, version))?)
            }
            _ if is_known_vendor(experimenter) => return Err(ErrorCode::RequestBadExperimenterType),
            _ => Self::Experimenter(ExperimenterData { experimenter, kind, data: from.rest().to_vec() }),
        })
    }

    fn kind(&self, version: Version) -> Kind {
        Kind::Standard(match self {
            Self::Desc(_) => 0,
            Self::Flow(_) => 1,
            Self::Aggregate(_) => 2,
            Self::Table(_) => 3,
            Self::Port(_) => 4,
            Self::Queue(_) => 5,
            Self::Group(_) => return group_kind(0, version),
            Self::GroupDesc(_) => return group_kind(1, version),
            Self::GroupFeatures(_) => return group_kind(2, version),
            Self::Meter(_) => 9,
            Self::MeterConfig(_) => 10,
            Self::MeterFeatures(_) => 11,
            Self::TableFeatures(_) => 12,
            Self::PortDesc(_) => 13,
            Self::TableDesc(_) => 14,
            Self::QueueDesc(_) => 15,
            Self::NxFlow(_) => return Kind::Experimenter(NICIRA, 0),
            Self::NxAggregate(_) => return Kind::Experimenter(NICIRA, 1),
            Self::FlowMonitor(_) => return monitor_kind(version),
            Self::Experimenter(data) => return Kind::Experimenter(data.experimenter, data.kind),
        })
    }

    /// Writes the reply after its header, in several messages if necessary.
    pub(crate) fn write(
        &self,
        out: &mut Vec<u8>,
        start: usize,
        more: bool,
        version: Version,
    ) -> Result<(), EncodeError> {
        let kind = self.kind(version);
        if !is_supported(kind, version) {
            return Err(EncodeError::Unsupported("a multipart reply"));
        }
        let mut parts = Parts::new(out, start, kind, version);
        self.write_body(&mut parts, version)?;
        parts.finish(more)
    }

    fn write_body(&self, parts: &mut Parts<'_>, version: Version) -> Result<(), EncodeError> {
        match self {
            Self::Desc(description) => description.write(parts.out),
            Self::Flow(list) => try_entries(parts, list, |flow, out| flow.write(out, version))?,
            Self::NxFlow(list) => try_entries(parts, list, FlowStats::write_nicira)?,
            Self::Aggregate(sums) if version >= Version::V15 => sums.write_oxs(parts.out),
            Self::Aggregate(sums) | Self::NxAggregate(sums) => parts.out.put(sums),
            Self::Table(list) => entries(parts, list, |table, out| table.write(out, version))?,
            Self::Port(list) => try_entries(parts, list, |port, out| port.write(out, version))?,
            Self::Queue(list) => try_entries(parts, list, |queue, out| queue.write(out, version))?,
            Self::Group(list) => entries(parts, list, GroupStats::write)?,
            Self::GroupDesc(list) => try_entries(parts, list, |group, out| group.write(out, version))?,
            Self::GroupFeatures(features) => features.write(parts.out),
            Self::Meter(list) => entries(parts, list, MeterStats::write)?,
            Self::MeterConfig(list) => entries(parts, list, MeterConfig::write)?,
            Self::MeterFeatures(features) => parts.out.put(features),
            Self::TableFeatures(list) => entries(parts, list, |table, out| table.write(out, version))?,
            Self::PortDesc(list) => try_entries(parts, list, |port, out| port.write(out, version))?,
            Self::TableDesc(list) => entries(parts, list, TableConfig::write_desc)?,
            Self::QueueDesc(list) => entries(parts, list, |queue, out| queue.write(out, version))?,
            Self::FlowMonitor(list) => try_entries(parts, list, |update, out| update.write(out, version))?,
            Self::Experimenter(data) => parts.out.extend_from_slice(&data.data),
        }
        Ok(())
    }
}

/// Writes entries, some of which a version cannot express.
fn try_entries<T>(
    parts: &mut Parts<'_>,
    list: &[T],
    write: impl Fn(&T, &mut Vec<u8>) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    list.iter().try_for_each(|entry| parts.entry(|out| write(entry, out)))
}

/// Writes entries that every version can express.
fn entries<T>(
    parts: &mut Parts<'_>,
    list: &[T],
    write: impl Fn(&T, &mut Vec<u8>),
) -> Result<(), EncodeError> {
    try_entries(parts, list, |entry, out| {
        write(entry, out);
        Ok(())
    })
}
