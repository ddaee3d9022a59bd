//! Configuration and counters of tables (OpenFlow 1.3.5, 7.3.3 and 7.3.5.4; OpenFlow 1.4.1 for eviction and vacancy).

use crate::bytes::{Put, Reader, numbered, record};
use crate::error::ErrorCode;
use crate::property;
use crate::v10::matching;
use crate::version::Version;
use flow::TableId;

/// Bytes of a table's name.
pub(crate) const NAME: usize = 32;
/// Properties.
const EVICTION: u16 = 2;
const VACANCY: u16 = 3;

record! {
    /// Thresholds of free entries in per cent.
    pub struct Vacancy {
        /// Threshold while entries become used.
        down: u8,
        /// Threshold while entries become free.
        up: u8,
        /// Free entries; in descriptions only.
        current: u8,
    } [1]
}

/// Configuration of a table: requested, described, or of a notice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableConfig {
    /// Table, or [`TableId::ALL`].
    pub table: TableId,
    /// Bits of `ofp_table_config`: 4 for eviction, 8 for notices of vacancy.
    pub config: u32,
    /// Bits of what decides on eviction (`OFPTMPEF_*`), since OpenFlow 1.4.
    pub eviction: Option<u32>,
    /// Thresholds, since OpenFlow 1.4.
    pub vacancy: Option<Vacancy>,
}

impl TableConfig {
    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self, ErrorCode> {
        let table = from.get()?;
        from.skip(3)?;
        let mut found = Self { table, config: from.u32()?, ..Self::default() };
        found.read_properties(from)?;
        Ok(found)
    }

    /// Properties other than those of eviction and vacancy are an error.
    fn read_properties(&mut self, from: &mut Reader<'_>) -> Result<(), ErrorCode> {
        while !from.is_empty() {
            let (kind, mut value) = property::read(from)?;
            match kind {
                EVICTION => self.eviction = Some(value.u32()?),
                VACANCY => self.vacancy = Some(value.get()?),
                _ => return Err(ErrorCode::PropertyBadType),
            }
        }
        Ok(())
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>, version: Version) {
        out.put(&self.table);
        out.put_zeros(3);
        out.put_u32(self.config);
        if version >= Version::V14 {
            self.write_properties(out);
        }
    }

    fn write_properties(&self, out: &mut Vec<u8>) {
        if let Some(flags) = self.eviction {
            property::write(out, EVICTION, |out| out.put_u32(flags));
        }
        if let Some(vacancy) = &self.vacancy {
            property::write(out, VACANCY, |out| out.put(vacancy));
        }
    }

    /// The form in descriptions, which starts with its length.
    pub(crate) fn read_desc(from: &mut Reader<'_>) -> Result<Self, ErrorCode> {
        let mut body = crate::group::read_entry(from)?;
        let table = body.get()?;
        body.skip(1)?;
        let mut found = Self { table, config: body.u32()?, ..Self::default() };
        found.read_properties(&mut body)?;
        Ok(found)
    }

    pub(crate) fn write_desc(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.put_u16(0);
        out.put(&self.table);
        out.put_u8(0);
        out.put_u32(self.config);
        self.write_properties(out);
        out.patch_len(start, start);
    }
}

numbered! {
    /// Why a table reports its state.
    pub enum TableReason: u8 {
        /// Free entries fell below the threshold.
        VacancyDown = 3,
        /// Free entries rose above the threshold.
        VacancyUp = 4,
    }
}

/// Notice of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableStatus {
    /// Reason.
    pub reason: TableReason,
    /// Table.
    pub table: TableConfig,
}

impl TableStatus {
    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self, ErrorCode> {
        let reason = TableReason::from_number(from.u8()?).ok_or(ErrorCode::NxRequestUnencodableError)?;
        from.skip(7)?;
        Ok(Self { reason, table: TableConfig::read_desc(from)? })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.put_u8(self.reason.number());
        out.put_zeros(7);
        self.table.write_desc(out);
    }
}

/// Counters of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableStats {
    /// Table.
    pub table: TableId,
    /// Name; in OpenFlow 1.0 only.
    pub name: String,
    /// Maximum number of flows; in OpenFlow 1.0 only.
    pub max_entries: u32,
    /// Number of flows.
    pub active: u32,
    /// Packets looked up.
    pub lookups: u64,
    /// Packets with a flow.
    pub matched: u64,
}

impl TableStats {
    pub(crate) fn read(from: &mut Reader<'_>, version: Version) -> Result<Self, ErrorCode> {
        let table = from.get()?;
        from.skip(3)?;
        let (name, max_entries) = if version == Version::V10 {
            let name = from.text(NAME)?;
            from.skip(4)?;
            (name, from.u32()?)
        } else {
            (String::new(), 0)
        };
        let (active, lookups, matched) = (from.u32()?, from.u64()?, from.u64()?);
        Ok(Self { table, name, max_entries, active, lookups, matched })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>, version: Version) {
        out.put(&self.table);
        out.put_zeros(3);
        if version == Version::V10 {
            out.put_text(&self.name, NAME);
            out.put_u32(matching::ALL);
            out.put_u32(self.max_entries);
        }
        out.put_u32(self.active);
        out.put_u64(self.lookups);
        out.put_u64(self.matched);
    }
}
