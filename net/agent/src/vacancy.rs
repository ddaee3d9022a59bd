//! Notices of tables that become full or empty again (OpenFlow 1.4.1, 7.3.4.1 and 7.4.5).
//!
//! A table reports that its free entries have fallen below a threshold, then that they have risen above another one,
//! and so on, independent of changes between the two.

use crate::request::Request;
use crate::session::Session;
use crate::settings::Event;
use crate::tables::{EVICTION, EVICTION_BY, VACANCY};
use flow::TableId;
use flow::tables::Tables;
use openflow::{Message, TableConfig, TableReason, TableStatus, Vacancy};
use std::collections::BTreeMap;

/// A table whose vacancy was configured.
struct Watched {
    thresholds: Vacancy,
    /// Next report; `None` if it reports nothing.
    next: Option<TableReason>,
}

/// All tables whose vacancy was configured.
#[derive(Default)]
pub(crate) struct Vacancies(BTreeMap<TableId, Watched>);

impl Vacancies {
    /// Configures a table. Without thresholds, earlier ones stay.
    pub(crate) fn set(
        &mut self,
        table: TableId,
        is_watched: bool,
        thresholds: Option<Vacancy>,
        tables: &Tables,
    ) {
        if !is_watched && thresholds.is_none() {
            self.0.get_mut(&table).into_iter().for_each(|watched| watched.next = None);
            return;
        }
        let new = || Watched { thresholds: Vacancy::default(), next: None };
        let watched = self.0.entry(table).or_insert_with(new);
        watched.thresholds = thresholds.unwrap_or(watched.thresholds);
        let is_low = free(tables, table) < watched.thresholds.up;
        let first = if is_low { TableReason::VacancyUp } else { TableReason::VacancyDown };
        watched.next = is_watched.then(|| watched.next.unwrap_or(first));
    }

    /// Settings of a table.
    pub(crate) fn describe(&self, table: TableId, tables: &Tables) -> TableConfig {
        let watched = self.0.get(&table).filter(|watched| watched.next.is_some());
        let eviction = if tables.config(table).eviction { EVICTION } else { 0 };
        let current = free(tables, table);
        let vacancy = watched.map(|watched| Vacancy { current, ..watched.thresholds });
        let config = eviction | if vacancy.is_some() { VACANCY } else { 0 };
        TableConfig { table, config, eviction: Some(EVICTION_BY), vacancy }
    }

    /// Tables that have crossed the threshold that they wait for.
    pub(crate) fn crossed(&mut self, tables: &Tables) -> Vec<TableStatus> {
        let mut crossed = Vec::new();
        for (table, watched) in &mut self.0 {
            let (free, Vacancy { down, up, .. }) = (free(tables, *table), watched.thresholds);
            let (reason, next) = match watched.next {
                Some(TableReason::VacancyDown) if free < down => {
                    (TableReason::VacancyDown, TableReason::VacancyUp)
                }
                Some(TableReason::VacancyUp) if free > up => {
                    (TableReason::VacancyUp, TableReason::VacancyDown)
                }
                _ => continue,
            };
            watched.next = Some(next);
            crossed.push((*table, reason));
        }
        let status = |(table, reason)| TableStatus { reason, table: self.describe(table, tables) };
        crossed.into_iter().map(status).collect()
    }
}

/// Free entries of a table in per cent.
fn free(tables: &Tables, table: TableId) -> u8 {
    let limit = tables.config(table).limit;
    (limit.saturating_sub(tables.len(table)) * 100 / limit.max(1)) as u8
}

impl Request<'_> {
    /// Reports tables that have crossed their thresholds.
    pub(crate) fn report_vacancies(&mut self) {
        if self.switch.vacancies.0.is_empty() {
            return;
        }
        for status in self.switch.vacancies.crossed(&self.datapath.tables()) {
            self.session.table_status(status);
            self.others.values_mut().for_each(|other| other.table_status(status));
        }
    }
}

impl Session {
    pub(crate) fn table_status(&mut self, status: TableStatus) {
        if self.settings.wants(self.kind, self.role, Event::TableStatus, status.reason.number()) {
            self.notify(&Message::TableStatus(status));
        }
    }
}
