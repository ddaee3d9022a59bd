//! Port Protocol Migration (17.24), Bridge Detection (17.25) and Port State Transition (17.30) state machines.

use crate::bridge::{Bridge, Event};
use crate::config::Edge;
use crate::port::{MIGRATE_TIME, Migration, Port};
use crate::status::State;

impl Port {
    /// Port Protocol Migration. `rapid`: the bridge runs RSTP.
    pub(super) fn migrate(&mut self, rapid: bool) -> bool {
        let is_enabled = self.is_enabled();
        let version = &mut self.version;
        let is_due = self.timers.migration == 0;
        match version.migration {
            Migration::Checking if is_due => self.sense(),
            Migration::Checking if !is_enabled && self.timers.migration != MIGRATE_TIME => self.check(rapid),
            Migration::Selecting if is_due || !is_enabled => self.sense(),
            Migration::Sensing if !is_enabled => self.check(rapid),
            Migration::Sensing if rapid && !version.rapid && version.received_rapid => self.check(rapid),
            Migration::Sensing if version.rapid && version.received_stp => {
                (version.rapid, version.migration) = (false, Migration::Selecting);
                self.timers.migration = MIGRATE_TIME;
                true
            }
            _ => false,
        }
    }

    fn check(&mut self, rapid: bool) -> bool {
        (self.version.rapid, self.version.migration) = (rapid, Migration::Checking);
        self.timers.migration = MIGRATE_TIME;
        true
    }

    fn sense(&mut self) -> bool {
        (self.version.received_rapid, self.version.received_stp) = (false, false);
        self.version.migration = Migration::Sensing;
        true
    }

    /// Bridge Detection. A received BPDU ends an edge.
    pub(super) fn detect_edge(&mut self) -> bool {
        let (is_enabled, configured) = (self.is_enabled(), self.config.edge);
        let is_silent = self.timers.edge_delay == 0 && self.version.rapid && self.handshake.proposing;
        let edge = match (self.link.edge, is_enabled) {
            (true, true) => true,
            (false, true) => is_silent && configured != Edge::No,
            (_, false) => configured == Edge::Yes,
        };
        std::mem::replace(&mut self.link.edge, edge) != edge
    }
}

impl Bridge {
    /// Port State Transition: the state follows the wanted one.
    pub(super) fn change_state(&mut self, i: usize) -> bool {
        let port = &mut self.ports[i];
        let flow = &mut port.flow;
        let state = match flow.state {
            State::Discarding if flow.learn => State::Learning,
            State::Learning if !flow.learn => State::Discarding,
            State::Learning if flow.forward => State::Forwarding,
            State::Forwarding if !flow.forward => State::Discarding,
            _ => return false,
        };
        flow.state = state;
        self.events.push(Event::State(port.number, state));
        true
    }
}
