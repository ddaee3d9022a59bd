//! Features of tables (OpenFlow 1.3.5, 7.3.5.5). All tables have the same features, and only their names can change.

use crate::groups::actions;
use crate::request::{Answer, Request};
use crate::tables::{EVICTION, VACANCY};
use flow::{Access, Field, Masking, TableId};
use openflow::{ErrorCode, MultipartReply, OxmId, Role, TableFeatures, TableProperty, TypeId, Version};

/// Commands of OpenFlow 1.5; before, every request replaces the features of all tables.
const REPLACE: u8 = 0;
const MODIFY: u8 = 1;
const LAST_COMMAND: u8 = 3;
/// Numbers of the instructions but `GOTO`, which the last table lacks.
const INSTRUCTIONS: std::ops::RangeInclusive<u16> = 2..=6;
const GOTO: u16 = 1;

impl Request<'_> {
    /// Answers with the features of all tables, after a change if the request lists tables.
    pub(crate) fn table_features(&mut self, requested: &[TableFeatures]) -> Answer {
        if !requested.is_empty() {
            self.change_tables(requested)?;
        }
        let tables: Vec<_> = TableId::each().map(|table| self.features_of(table)).collect();
        self.reply_list(tables, |table| table, MultipartReply::TableFeatures)
    }

    fn features_of(&self, table: TableId) -> TableFeatures {
        let (version, config) = (self.version(), self.datapath.tables().config(table));
        TableFeatures {
            table,
            command: REPLACE,
            name: self.table_name(table),
            metadata_match: u64::MAX,
            metadata_write: u64::MAX,
            capabilities: if version >= Version::V14 { EVICTION | VACANCY } else { 0 },
            max_entries: u32::try_from(config.limit).unwrap_or(u32::MAX),
            properties: properties(table, version),
        }
    }

    fn change_tables(&mut self, requested: &[TableFeatures]) -> Answer {
        if self.session.role == Role::Secondary {
            return Err(ErrorCode::RequestIsSecondary);
        }
        let command = if self.version() >= Version::V15 { requested[0].command } else { REPLACE };
        match command {
            REPLACE if requested.len() != TableId::COUNT => return Err(ErrorCode::TableFeaturesPermissions),
            REPLACE | MODIFY => {}
            ..=LAST_COMMAND => return Err(ErrorCode::TableFeaturesPermissions),
            _ => return Err(ErrorCode::TableFeaturesBadCommand),
        }
        let mut seen = [false; TableId::COUNT];
        for table in requested {
            let seen = seen.get_mut(usize::from(table.table.0)).ok_or(ErrorCode::TableFeaturesBadTable)?;
            let is_allowed =
                !std::mem::replace(seen, true) && includes(&self.features_of(table.table), table);
            if !is_allowed {
                return Err(ErrorCode::TableFeaturesPermissions);
            }
        }
        let names = requested.iter().map(|table| (table.table.0, table.name.clone()));
        self.switch.table_names.extend(names);
        Ok(())
    }
}

/// Whether a table has all features of a request.
fn includes(own: &TableFeatures, requested: &TableFeatures) -> bool {
    let has = |property| own.properties.iter().any(|own| includes_property(own, property));
    own.max_entries == requested.max_entries && requested.properties.iter().all(has)
}

fn includes_property(own: &TableProperty, requested: &TableProperty) -> bool {
    use TableProperty as Property;
    match (own, requested) {
        (Property::Instructions(_, own), Property::Instructions(_, requested))
        | (Property::WriteActions(_, own), Property::WriteActions(_, requested))
        | (Property::ApplyActions(_, own), Property::ApplyActions(_, requested)) => subset(own, requested),
        (Property::NextTables(_, own), Property::NextTables(_, requested)) => subset(own, requested),
        (Property::Match(own), Property::Match(requested))
        | (Property::Wildcards(own), Property::Wildcards(requested))
        | (Property::WriteSetField(_, own), Property::WriteSetField(_, requested))
        | (Property::ApplySetField(_, own), Property::ApplySetField(_, requested)) => subset(own, requested),
        _ => false,
    }
}

fn subset<T: PartialEq>(own: &[T], requested: &[T]) -> bool {
    requested.len() <= own.len() && requested.iter().all(|one| own.contains(one))
}

/// Properties of a table. Those of its table-miss flow are the same, and therefore absent.
fn properties(table: TableId, version: Version) -> Vec<TableProperty> {
    let next: Vec<_> = TableId::each().filter(|next| *next > table).collect();
    let goto = (!next.is_empty()).then_some(GOTO);
    let ids = |numbers: &mut dyn Iterator<Item = u16>| numbers.map(TypeId::standard).collect::<Vec<_>>();
    let fields = |is_listed: fn(Field) -> bool, may_mask: bool| {
        // Tunnels have no group policies.
        let is_there = |field: Field| !matches!(field, Field::TunGbpId | Field::TunGbpFlags);
        let listed = Field::ALL.iter().copied().filter(|field| is_there(*field) && is_listed(*field));
        let id = |field: Field| OxmId::of(field, may_mask && field.info().masking == Masking::Bits, version);
        listed.filter_map(id).collect::<Vec<_>>()
    };
    // The fields of a connection are set within `ct` only.
    let is_writable: fn(Field) -> bool =
        |field| field.info().access == Access::Write && !matches!(field, Field::CtMark | Field::CtLabel);
    vec![
        TableProperty::Instructions(false, ids(&mut goto.into_iter().chain(INSTRUCTIONS))),
        TableProperty::NextTables(false, next),
        TableProperty::WriteActions(false, ids(&mut actions(version))),
        TableProperty::ApplyActions(false, ids(&mut actions(version))),
        TableProperty::Match(fields(|_| true, true)),
        TableProperty::Wildcards(fields(|_| true, false)),
        TableProperty::WriteSetField(false, fields(is_writable, false)),
        TableProperty::ApplySetField(false, fields(is_writable, false)),
    ]
}
