//! Features of tables (OpenFlow 1.3.5, 7.3.5.5).

use crate::bytes::{Put, Reader};
use crate::error::ErrorCode;
use crate::group::read_entry;
use crate::oxm::OxmId;
use crate::property;
use crate::table::NAME;
use crate::version::Version;
use flow::TableId;

const EXPERIMENTER: u16 = 0xffff;
/// Properties. The odd numbers are those of the flow for packets without another one.
const INSTRUCTIONS: u16 = 0;
const NEXT_TABLES: u16 = 2;
const WRITE_ACTIONS: u16 = 4;
const APPLY_ACTIONS: u16 = 6;
const MATCH: u16 = 8;
const WILDCARDS: u16 = 10;
const WRITE_SET_FIELD: u16 = 12;
const APPLY_SET_FIELD: u16 = 14;
const SYNC_FROM: u16 = 16;
const EXPERIMENTER_PROPERTY: u16 = 0xfffe;

/// Number of an action or instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeId {
    /// Number; 0xffff for one of an experimenter.
    pub number: u16,
    /// Experimenter and its number of the type, if `number` is 0xffff.
    pub experimenter: Vec<u8>,
}

impl TypeId {
    /// A number of the specification.
    pub fn standard(number: u16) -> Self {
        Self { number, experimenter: Vec::new() }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, ErrorCode> {
        let (number, len) = (from.u16()?, usize::from(from.u16()?));
        let rest = from.bytes(len.checked_sub(4).ok_or(ErrorCode::PropertyBadLen)?)?;
        let experimenter = if number == EXPERIMENTER { rest.to_vec() } else { Vec::new() };
        Ok(Self { number, experimenter })
    }

    fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.put_u16(self.number);
        out.put_u16(0);
        out.extend_from_slice(&self.experimenter);
        out.patch_len(start, start + 2);
    }
}

/// A property of a table. Where there is a `bool`, it is true for the flow for packets without another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableProperty {
    /// Instructions.
    Instructions(bool, Vec<TypeId>),
    /// Tables to which flows can lead.
    NextTables(bool, Vec<TableId>),
    /// Actions of the action set.
    WriteActions(bool, Vec<TypeId>),
    /// Actions executed at once.
    ApplyActions(bool, Vec<TypeId>),
    /// Fields that can be matched.
    Match(Vec<OxmId>),
    /// Fields that need not be matched.
    Wildcards(Vec<OxmId>),
    /// Fields that the action set can set.
    WriteSetField(bool, Vec<OxmId>),
    /// Fields that can be set at once.
    ApplySetField(bool, Vec<OxmId>),
    /// Tables whose flows this table copies, since OpenFlow 1.4.
    SyncFrom(Vec<TableId>),
    /// Data of an experimenter: its identifier, type and data.
    Experimenter(bool, Vec<u8>),
}

impl TableProperty {
    fn read(from: &mut Reader<'_>) -> Result<Self, ErrorCode> {
        let (kind, mut value) = property::read(from)?;
        let miss = kind & 1 != 0;
        Ok(match kind & !1 {
            INSTRUCTIONS => Self::Instructions(miss, value.repeat(TypeId::read)?),
            NEXT_TABLES => Self::NextTables(miss, value.all()?),
            WRITE_ACTIONS => Self::WriteActions(miss, value.repeat(TypeId::read)?),
            APPLY_ACTIONS => Self::ApplyActions(miss, value.repeat(TypeId::read)?),
            MATCH if !miss => Self::Match(value.repeat(OxmId::read)?),
            WILDCARDS if !miss => Self::Wildcards(value.repeat(OxmId::read)?),
            WRITE_SET_FIELD => Self::WriteSetField(miss, value.repeat(OxmId::read)?),
            APPLY_SET_FIELD => Self::ApplySetField(miss, value.repeat(OxmId::read)?),
            SYNC_FROM if !miss => Self::SyncFrom(value.all()?),
            EXPERIMENTER_PROPERTY => Self::Experimenter(miss, value.rest().to_vec()),
            _ => return Err(ErrorCode::PropertyBadType),
        })
    }

    /// Number, and whether it is that of the flow for packets without another one.
    fn kind(&self) -> (u16, bool) {
        match self {
            Self::Instructions(miss, _) => (INSTRUCTIONS, *miss),
            Self::NextTables(miss, _) => (NEXT_TABLES, *miss),
            Self::WriteActions(miss, _) => (WRITE_ACTIONS, *miss),
            Self::ApplyActions(miss, _) => (APPLY_ACTIONS, *miss),
            Self::Match(_) => (MATCH, false),
            Self::Wildcards(_) => (WILDCARDS, false),
            Self::WriteSetField(miss, _) => (WRITE_SET_FIELD, *miss),
            Self::ApplySetField(miss, _) => (APPLY_SET_FIELD, *miss),
            Self::SyncFrom(_) => (SYNC_FROM, false),
            Self::Experimenter(miss, _) => (EXPERIMENTER_PROPERTY, *miss),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        let (kind, miss) = self.kind();
        property::write(out, kind | u16::from(miss), |out| match self {
            Self::Instructions(_, ids) | Self::WriteActions(_, ids) | Self::ApplyActions(_, ids) => {
                for id in ids {
                    id.write(out);
                }
            }
            Self::Match(ids)
            | Self::Wildcards(ids)
            | Self::WriteSetField(_, ids)
            | Self::ApplySetField(_, ids) => ids.iter().for_each(|id| id.write(out)),
            Self::NextTables(_, tables) | Self::SyncFrom(tables) => {
                out.extend(tables.iter().map(|table| table.0));
            }
            Self::Experimenter(_, data) => out.extend_from_slice(data),
        });
    }
}

/// Features of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableFeatures {
    /// Table.
    pub table: TableId,
    /// Command (`OFPTFC_*`), since OpenFlow 1.5.
    pub command: u8,
    /// Name; at most 31 bytes.
    pub name: String,
    /// Bits of the metadata that can be matched.
    pub metadata_match: u64,
    /// Bits of the metadata that can be written.
    pub metadata_write: u64,
    /// Bits of `ofp_table_config` that are supported.
    pub capabilities: u32,
    /// Maximum number of flows.
    pub max_entries: u32,
    /// Properties.
    pub properties: Vec<TableProperty>,
}

impl TableFeatures {
    pub(crate) fn read(from: &mut Reader<'_>, version: Version) -> Result<Self, ErrorCode> {
        let mut body = read_entry(from)?;
        let (table, command) = (body.get()?, body.u8()?);
        body.skip(4)?;
        Ok(Self {
            table,
            command: if version >= Version::V15 { command } else { 0 },
            name: body.text(NAME)?,
            metadata_match: body.u64()?,
            metadata_write: body.u64()?,
            capabilities: body.u32()?,
            max_entries: body.u32()?,
            properties: body.or(ErrorCode::PropertyBadLen).repeat(TableProperty::read)?,
        })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>, version: Version) {
        let start = out.len();
        out.put_u16(0);
        out.put(&self.table);
        out.put_u8(if version >= Version::V15 { self.command } else { 0 });
        out.put_u32(0);
        out.put_text(&self.name, NAME);
        out.put_u64(self.metadata_match);
        out.put_u64(self.metadata_write);
        out.put_u32(self.capabilities);
        out.put_u32(self.max_entries);
        self.properties.iter().for_each(|property| property.write(out));
        out.patch_len(start, start);
    }
}
