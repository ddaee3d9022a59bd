//! Control API: changes of the tables of a bridge.
//!
//! Several threads change tables: one that reports changes to controllers, and others that let it report theirs.
//! Recorded changes reach it in the order in which the tables have changed.

use super::directory::Bridge;
use super::error::{ChangeError, RestoreTablesError, UnknownBridge};
use super::exchange::{lock, take};
use super::switch::FlowSwitch;
use crate::modify::TableId;
use crate::tables::{Changes, Control, Flow, Modification, SavedTables, TableConfig, Tables};
use port::Now;
use std::sync::Arc;

/// Checks that a new bridge would execute all changes.
///
/// # Errors
/// As [`FlowSwitch::modify`].
pub fn check_changes(changes: &[Modification]) -> Result<(), ChangeError> {
    let done = Control::new(0).bundle(changes, Now(0));
    done.map(drop).map_err(|(i, error)| ChangeError::Invalid(i, error))
}

impl FlowSwitch {
    /// Executes all changes of a bridge's tables, or none. Workers apply them from their next burst on, all at once.
    ///
    /// # Errors
    /// If a change is not valid.
    pub fn modify(&self, bridge: &str, changes: &[Modification], now: Now) -> Result<Changes, ChangeError> {
        self.execute(bridge, changes, now, |_, _| ())
    }

    /// As [`FlowSwitch::modify`], for a caller that reports no changes itself: [`FlowSwitch::modify_after`] and
    /// [`FlowSwitch::take_recorded`] return them in the order of all changes. Calls the waker.
    ///
    /// # Errors
    /// If a change is not valid.
    pub fn modify_recorded(
        &self,
        bridge: &str,
        changes: &[Modification],
        now: Now,
    ) -> Result<Changes, ChangeError> {
        let done = self.execute(bridge, changes, now, |bridge, done| {
            lock(&bridge.recorded).extend(done.clone());
        })?;
        self.exchange.wake();
        Ok(done)
    }

    /// As [`FlowSwitch::modify`]. Also returns the recorded changes before these.
    pub fn modify_after(
        &self,
        bridge: &str,
        changes: &[Modification],
        now: Now,
    ) -> (Changes, Result<Changes, ChangeError>) {
        let mut earlier = Changes::default();
        let done = self.execute(bridge, changes, now, |bridge, _| earlier = take(&bridge.recorded));
        (earlier, done)
    }

    /// The recorded changes of all bridges.
    pub fn take_recorded(&self) -> Vec<(String, Changes)> {
        self.exchange.begin_taking();
        let directory = self.published.current();
        let bridges = directory.bridges.iter().flatten().map(|view| &view.bridge);
        let changes = bridges.map(|bridge| (bridge.name.clone(), take(&bridge.recorded)));
        changes.filter(|(_, changes)| !changes.is_empty()).collect()
    }

    /// The recorded changes of a bridge, and its tables with exactly these and all earlier changes.
    ///
    /// # Errors
    /// If there is no such bridge.
    pub fn synchronize(&self, bridge: &str) -> Result<(Changes, Arc<Tables>), UnknownBridge> {
        let bridge = self.bridge(bridge)?;
        let _control = lock(&bridge.control);
        Ok((take(&bridge.recorded), bridge.tables.current()))
    }

    /// Sets the maximum number of flows of each table of a bridge. Flows above it stay.
    ///
    /// # Errors
    /// If there is no such bridge.
    pub fn limit_flows(&self, bridge: &str, limit: usize) -> Result<(), UnknownBridge> {
        let bridge = self.bridge(bridge)?;
        let mut control = lock(&bridge.control);
        control.tables_mut().limit_flows(limit);
        self.publish_tables(&bridge, &mut control);
        Ok(())
    }

    /// Changes the settings of tables of a bridge. Flows above a new limit stay.
    ///
    /// # Errors
    /// If there is no such bridge.
    pub fn configure_tables(
        &self,
        bridge: &str,
        configs: &[(TableId, TableConfig)],
    ) -> Result<(), UnknownBridge> {
        self.change_settings(bridge, |tables| {
            for (table, config) in configs {
                tables.configure(*table, *config);
            }
        })
    }

    /// Drops fragments before the first table of a bridge, or no more.
    ///
    /// # Errors
    /// If there is no such bridge.
    pub fn drop_fragments(&self, bridge: &str, drops: bool) -> Result<(), UnknownBridge> {
        self.change_settings(bridge, |tables| tables.drop_fragments(drops))
    }

    /// Replaces everything in the tables of a bridge by the tables of another process. Returns the flows in their
    /// order. Must be called before the first packet.
    ///
    /// # Errors
    /// If something is not valid.
    pub fn restore_tables(
        &self,
        bridge: &str,
        saved: &SavedTables,
        now: Now,
    ) -> Result<Vec<Flow>, RestoreTablesError> {
        let bridge = self.bridge(bridge)?;
        let mut control = lock(&bridge.control);
        let flows = control.restore(saved, now)?;
        self.publish_tables(&bridge, &mut control);
        Ok(flows)
    }

    fn change_settings(&self, bridge: &str, change: impl FnOnce(&mut Tables)) -> Result<(), UnknownBridge> {
        let bridge = self.bridge(bridge)?;
        let mut control = lock(&bridge.control);
        change(control.tables_mut());
        self.publish_tables(&bridge, &mut control);
        drop(control);
        self.renew_underlay(&bridge.name);
        Ok(())
    }

    /// Executes all changes or none, and calls `record` before others can change the tables.
    fn execute(
        &self,
        bridge: &str,
        changes: &[Modification],
        now: Now,
        record: impl FnOnce(&Bridge, &Changes),
    ) -> Result<Changes, ChangeError> {
        let bridge = self.bridge(bridge)?;
        let mut control = lock(&bridge.control);
        let done = control.bundle(changes, now).map_err(|(i, error)| ChangeError::Invalid(i, error))?;
        self.publish_tables(&bridge, &mut control);
        record(&bridge, &done);
        drop(control);
        self.renew_underlay(&bridge.name);
        Ok(done)
    }
}
