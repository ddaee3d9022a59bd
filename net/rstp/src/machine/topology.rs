//! Topology Change state machine (17.31): notifies other bridges, and flushes addresses.

use crate::bridge::{Bridge, Event};
use crate::port::{Phase, Port, Topology};
use crate::status::{Role, State};

impl Bridge {
    pub(super) fn change_topology(&mut self, i: usize) -> bool {
        match self.ports[i].topology.phase {
            Phase::Inactive if self.ports[i].flow.learn => self.ports[i].topology.begin(),
            Phase::Inactive => false,
            Phase::Learning => self.detect_change(i),
            Phase::Active => self.notify(i),
        }
    }

    /// State `LEARNING`.
    fn detect_change(&mut self, i: usize) -> bool {
        let port = &mut self.ports[i];
        let is_part = port.is_part();
        if port.topology.is_pending() {
            return port.topology.begin();
        }
        if is_part && port.flow.forward && !port.link.edge {
            self.ports[i].topology.phase = Phase::Active;
            self.start_change(i);
            self.propagate(i);
            self.ports[i].new_info = true;
            return true;
        }
        let leaves = !is_part && !port.flow.learn && port.flow.state == State::Discarding;
        if leaves {
            port.topology.phase = Phase::Inactive;
            port.topology.acknowledge = false;
            port.timers.topology_change = 0;
            self.flush(i);
        }
        leaves
    }

    /// State `ACTIVE` and those behind it.
    fn notify(&mut self, i: usize) -> bool {
        let port = &mut self.ports[i];
        let Topology { change, notification, acknowledgement, propagate, .. } = port.topology;
        if !port.is_part() || port.link.edge {
            return port.topology.begin();
        }
        if notification || change {
            port.topology.acknowledge |= port.roles.role == Role::Designated;
            (port.topology.change, port.topology.notification) = (false, false);
            if notification {
                self.start_change(i);
            }
            self.propagate(i);
        } else if propagate {
            port.topology.propagate = false;
            self.start_change(i);
            self.flush(i);
        } else if acknowledgement {
            port.topology.acknowledgement = false;
            port.timers.topology_change = 0;
        }
        notification || change || propagate || acknowledgement
    }

    /// `newTcWhile()` (17.21.7)
    fn start_change(&mut self, i: usize) {
        let hello = self.config.hello;
        let times = self.root_times;
        let port = &mut self.ports[i];
        if port.timers.topology_change != 0 {
            return;
        }
        if port.version.rapid {
            port.timers.topology_change = hello + 1;
            port.new_info = true;
        } else {
            port.timers.topology_change = times.max_age + times.forward_delay;
        }
    }

    /// `setTcPropTree()` (17.21.18)
    fn propagate(&mut self, i: usize) {
        self.topology_changes += 1;
        self.others(i).for_each(|other| other.topology.propagate = true);
    }

    fn flush(&mut self, i: usize) {
        self.events.push(Event::Flush(self.ports[i].number));
    }
}

impl Port {
    /// Whether the port is part of the active topology.
    fn is_part(&self) -> bool {
        matches!(self.roles.role, Role::Root | Role::Designated)
    }
}

impl Topology {
    /// State `LEARNING`.
    fn begin(&mut self) -> bool {
        *self = Self { phase: Phase::Learning, acknowledge: self.acknowledge, ..Self::default() };
        true
    }

    fn is_pending(&self) -> bool {
        self.change || self.notification || self.acknowledgement || self.propagate
    }
}
