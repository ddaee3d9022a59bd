//! Tables: their settings and counters (OpenFlow 1.3.5, 7.3.3 and 7.3.5.4; OpenFlow 1.4.1 for eviction and vacancy).

use crate::request::{Answer, Request};
use flow::TableId;
use flow::tables::{TableConfig as Config, Tables};
use openflow::{ErrorCode, MultipartReply, TableConfig, TableStats, Version};

/// Bits of `ofp_table_config`: 0 to 1 without effect since OpenFlow 1.3, 2 for eviction, 3 for notices of vacancy.
const DEPRECATED: u32 = 0x3;
pub(crate) const EVICTION: u32 = 0x4;
pub(crate) const VACANCY: u32 = 0x8;
/// Importance and age decide on eviction (`OFPTMPEF_IMPORTANCE`, `OFPTMPEF_OTHER`).
pub(crate) const EVICTION_BY: u32 = 0x3;

impl Request<'_> {
    pub(crate) fn table_mod(&mut self, config: &TableConfig) -> Answer {
        let is_new = self.version() >= Version::V14;
        let known = if is_new { DEPRECATED | EVICTION | VACANCY } else { DEPRECATED };
        if config.config & !known != 0 || config.eviction.is_some_and(|by| by != EVICTION_BY) {
            return Err(ErrorCode::TableModBadConfig);
        }
        if config.vacancy.is_some_and(|vacancy| vacancy.down > vacancy.up || vacancy.up > 100) {
            return Err(ErrorCode::PropertyBadValue);
        }
        if is_new {
            self.configure_tables(config);
        }
        Ok(())
    }

    fn configure_tables(&mut self, config: &TableConfig) {
        let (eviction, tables) = (config.config & EVICTION != 0, self.datapath.tables());
        let is_selected = |table: &TableId| [TableId::ALL, *table].contains(&config.table);
        let selected: Vec<_> = TableId::each().filter(is_selected).collect();
        let configs = selected.iter().map(|table| (*table, tables.config(*table)));
        let changed = configs.filter(|(_, before)| before.eviction != eviction);
        let changed: Vec<_> = changed.map(|(table, before)| (table, Config { eviction, ..before })).collect();
        if !changed.is_empty() {
            // The order of eviction contains all flows.
            self.session.output.end_turn();
            self.datapath.configure_tables(&changed);
        }
        let is_watched = config.config & VACANCY != 0;
        for table in selected {
            self.switch.vacancies.set(table, is_watched, config.vacancy, &tables);
        }
        self.report_vacancies();
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
        let desc = TableId::each().map(|table| self.switch.vacancies.describe(table, &tables));
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
