//! Settings of bridges and ports that change while packets are forwarded. Stations stay, and no packet is lost.

use super::{Switch, station_limit};
use crate::config::{BridgeConfig, PortConfig};
use crate::error::{SetBridgeError, UnknownBridge};
use port::PortId;
use std::sync::PoisonError;

impl Switch {
    /// Sets the ageing time of a bridge, when its stations move, and whether it forwards reserved groups. Workers apply
    /// the change from their next burst on.
    ///
    /// # Errors
    /// If no bridge has this name, the ageing time is out of range, or another setting differs. Nothing is changed
    /// then.
    pub fn set_bridge(&self, name: &str, config: &BridgeConfig) -> Result<(), SetBridgeError> {
        let (_changing, mut table) = self.change();
        let (number, view) = table.named(name).ok_or_else(|| UnknownBridge(name.to_owned()))?;
        check(name, &view.config, config)?;
        view.bridge.fdb.configure(config);
        if let Some(Some(view)) = table.views.get_mut(usize::from(number)) {
            view.config.clone_from(config);
        }
        self.publish(table);
        Ok(())
    }

    /// Sets how many stations are learned on a port, as [`Switch::add_port`] does with `config`. A port that has more
    /// keeps them. Ports on no bridge, such as members of bonds, have no limit.
    pub fn limit_stations(&self, port: PortId, config: &PortConfig) {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let table = self.published.current();
        if let Some(view) = table.member(port).and_then(|member| table.view(member.bridge)) {
            view.bridge.fdb.limit(port, station_limit(&view.config, config));
        }
    }
}

fn check(name: &str, old: &BridgeConfig, new: &BridgeConfig) -> Result<(), SetBridgeError> {
    let BridgeConfig { ageing_seconds, forward_reserved, mac_moves, .. } = *new;
    if !BridgeConfig::AGEING.contains(&ageing_seconds) {
        return Err(SetBridgeError::Ageing { name: name.to_owned(), seconds: ageing_seconds });
    }
    if (BridgeConfig { ageing_seconds, forward_reserved, mac_moves, ..old.clone() }) != *new {
        return Err(SetBridgeError::Fixed(name.to_owned()));
    }
    Ok(())
}
