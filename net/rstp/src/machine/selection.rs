//! Port Role Selection state machine (17.28): the root, and the role of each port.

use crate::bridge::Bridge;
use crate::port::{Port, Source};
use crate::status::Role;
use crate::vector::{BridgeId, Times, Vector};

impl Bridge {
    pub(super) fn select_roles(&mut self) -> bool {
        if !self.ports.iter().any(|port| port.roles.reselect) {
            return false;
        }
        self.ports.iter_mut().for_each(|port| port.roles.reselect = false);
        self.update_roles();
        self.ports.iter_mut().for_each(|port| port.roles.selected = true);
        true
    }

    /// `updtRolesTree()` (17.21.25)
    fn update_roles(&mut self) {
        let own = Vector { root: self.id, bridge: self.id, ..Vector::default() };
        let candidates = self.ports.iter().filter_map(|port| Some((port.root_path(self.id)?, port)));
        let best = candidates.min_by_key(|(path, port)| (*path, port.id()));
        let best = best.filter(|(path, _)| *path < own);
        (self.root, self.root_times, self.root_port) = match best {
            None => (own, self.own_times(), None),
            Some((path, port)) => (path, older(port.info.times), Some(port.number)),
        };
        let (root, times) = (self.root, Times { hello: self.config.hello, ..self.root_times });
        for port in &mut self.ports {
            let (bridge, port_id) = (self.id, port.id());
            port.info.designated = Vector { bridge, port: port_id, ..root };
            port.info.designated_times = times;
            let is_root = self.root_port == Some(port.number);
            port.choose_role(is_root, self.id);
        }
    }
}

/// Times one bridge further from the root.
fn older(times: Times) -> Times {
    Times { message_age: times.message_age.saturating_add(1), ..times }
}

impl Port {
    /// Root path priority vector (17.6); `None` if the port has no information of another bridge.
    fn root_path(&self, own: BridgeId) -> Option<Vector> {
        let vector = self.info.vector;
        let is_other = self.info.source == Source::Received && vector.bridge.address() != own.address();
        is_other.then(|| Vector { cost: vector.cost.saturating_add(self.config.cost), ..vector })
    }

    /// Role for the new designated priority vector.
    fn choose_role(&mut self, is_root: bool, own: BridgeId) {
        let info = &self.info;
        let differs = info.vector != info.designated || info.times != info.designated_times;
        let is_better = info.designated < info.vector;
        let (role, update) = match info.source {
            Source::Disabled => (Role::Disabled, false),
            Source::Aged => (Role::Designated, true),
            Source::Mine => (Role::Designated, info.update || differs),
            Source::Received if is_root => (Role::Root, false),
            Source::Received if is_better => (Role::Designated, true),
            Source::Received if info.vector.bridge == own => (Role::Backup, false),
            Source::Received => (Role::Alternate, false),
        };
        (self.roles.chosen, self.info.update) = (role, update);
    }
}
