//! Tables: their settings and counters (OpenFlow 1.3.5, 7.3.3 and 7.3.5.4; OpenFlow 1.4.1 for eviction).

use crate::request::{Answer, Request};
use flow::TableId;
use flow::tables::Tables;
use openflow::{ErrorCode, MultipartReply, TableConfig, TableStats, Version};

/// Bits of `ofp_table_config`: 0 to 1 without effect since OpenFlow 1.3, 2 for eviction.
const DEPRECATED: u32 = 0x3;
pub(crate) const EVICTION: u32 = 0x4;
/// Importance and age decide on eviction (`OFPTMPEF_IMPORTANCE`, `OFPTMPEF_OTHER`).
const EVICTION_BY: u32 = 0x3;

impl Request<'_> {
    pub(crate) fn table_mod(&mut self, config: &TableConfig) -> Answer {
        let has_eviction = self.version() >= Version::V14;
        let known = if has_eviction { DEPRECATED | EVICTION } else { DEPRECATED };
        let by = config.eviction.unwrap_or(EVICTION_BY);
        if config.config & !known != 0 || config.vacancy.is_some() || by != EVICTION_BY {
            return Err(ErrorCode::TableModBadConfig);
        }
        let (eviction, before) = (config.config & EVICTION != 0, self.datapath.tables());
        let is_selected = |table: &TableId| [TableId::ALL, *table].contains(&config.table);
        let differs = |table: &TableId| has_eviction && before.config(*table).eviction != eviction;
        TableId::each()
            .filter(is_selected)
            .filter(differs)
            .try_for_each(|table| self.datapath.set_eviction(table, eviction))
    }

    pub(crate) fn table_stats(&mut self) -> Answer {
        let tables = self.datapath.tables();
        let names = TableId::each().map(|table| self.table_name(table));
        let stats: Vec<_> =
            TableId::each().zip(names).map(|(table, name)| table_stats(&tables, table, name)).collect();
        self.reply_list(stats, |stats| stats, MultipartReply::Table)
    }

    pub(crate) fn table_desc(&mut self) -> Answer {
        let tables = self.datapath.tables();
        let desc = TableId::each().map(|table| TableConfig {
            table,
            config: if tables.config(table).eviction { EVICTION } else { 0 },
            eviction: Some(EVICTION_BY),
            vacancy: None,
        });
        self.reply_list(desc.collect(), |desc| desc, MultipartReply::TableDesc)
    }

    /// The name that a controller gave to a table, or its number.
    pub(crate) fn table_name(&self, table: TableId) -> String {
        let given = self.switch.table_names.get(&table.0);
        given.cloned().unwrap_or_else(|| format!("table{}", table.0))
    }
}

fn table_stats(tables: &Tables, table: TableId, name: String) -> TableStats {
    let (lookups, matched) = tables.counts(table);
    TableStats {
        table,
        name,
        max_entries: u32::try_from(tables.config(table).limit).unwrap_or(u32::MAX),
        active: tables.len(table) as u32,
        lookups,
        matched,
    }
}
