//! Port Role Transitions state machine (17.29): which ports may learn and forward, and agreements between neighbours.

use crate::bridge::Bridge;
use crate::port::{MIGRATE_TIME, Port};
use crate::status::{Role, State};

impl Bridge {
    pub(super) fn change_role(&mut self, i: usize) -> bool {
        let port = &mut self.ports[i];
        if !port.is_settled() {
            return false;
        }
        if port.roles.role != port.roles.chosen {
            port.enter_role();
            return true;
        }
        match port.roles.role {
            Role::Disabled => port.run_disabled(),
            Role::Root => self.run_root(i),
            Role::Designated => port.run_designated(),
            Role::Alternate | Role::Backup => self.run_blocked(i),
        }
    }

    /// States of a root port.
    fn run_root(&mut self, i: usize) -> bool {
        // `reRooted`: no other port was a root port recently.
        let is_alone = self.others(i).all(|other| other.timers.recent_root == 0);
        let is_rapid = self.is_rapid();
        let port = &mut self.ports[i];
        let delay = port.info.designated_times.forward_delay;
        if port.timers.recent_root != delay {
            port.timers.recent_root = delay;
            return true;
        }
        let may_forward = port.timers.forward == 0 || is_rapid && is_alone && port.timers.recent_backup == 0;
        if port.handshake.reroot && port.flow.forward {
            port.handshake.reroot = false;
            return true;
        }
        if may_forward && port.advance() {
            return true;
        }
        if !port.flow.forward && !port.handshake.reroot {
            self.ports.iter_mut().for_each(|port| port.handshake.reroot = true);
            return true;
        }
        self.answer_proposal(i)
    }

    /// States of an alternate or backup port.
    fn run_blocked(&mut self, i: usize) -> bool {
        let port = &mut self.ports[i];
        if port.flow.state != State::Discarding {
            return false;
        }
        let backup = 2 * port.info.designated_times.hello;
        if port.roles.role == Role::Backup && port.timers.recent_backup != backup {
            port.timers.recent_backup = backup;
            return true;
        }
        port.rest(port.forward_delay()) || self.answer_proposal(i)
    }

    /// Answers a proposal once all other ports are synchronised: states `ROOT_PROPOSED`, `ROOT_AGREED` and those of
    /// alternate ports.
    fn answer_proposal(&mut self, i: usize) -> bool {
        let handshake = &self.ports[i].handshake;
        let (proposed, agree) = (handshake.proposed, handshake.agree);
        if proposed && !agree {
            self.ports.iter_mut().for_each(|port| port.handshake.sync = true);
            self.ports[i].handshake.proposed = false;
            return true;
        }
        if agree && proposed || !agree && self.is_synced() {
            let port = &mut self.ports[i];
            (port.handshake.proposed, port.handshake.sync) = (false, false);
            (port.handshake.agree, port.new_info) = (true, true);
            return true;
        }
        false
    }

    /// `allSynced`
    fn is_synced(&self) -> bool {
        self.ports.iter().all(|port| {
            let roles = &port.roles;
            port.is_settled()
                && roles.role == roles.chosen
                && (roles.role == Role::Root || port.handshake.synced)
        })
    }
}

impl Port {
    /// First state of the chosen role.
    fn enter_role(&mut self) {
        self.roles.role = self.roles.chosen;
        match self.roles.role {
            Role::Root => self.timers.recent_root = self.info.designated_times.forward_delay,
            Role::Designated => {}
            Role::Disabled | Role::Alternate | Role::Backup => self.stop(),
        }
    }

    fn stop(&mut self) {
        (self.flow.learn, self.flow.forward) = (false, false);
    }

    /// States of a disabled port.
    fn run_disabled(&mut self) -> bool {
        self.flow.state == State::Discarding && self.rest(self.info.designated_times.max_age)
    }

    /// Keeps the timer of a port that discards at `delay`, and the port synchronised.
    fn rest(&mut self, delay: u8) -> bool {
        let handshake = &mut self.handshake;
        let is_at_rest =
            self.timers.forward == delay && handshake.synced && !handshake.sync && !handshake.reroot;
        (handshake.synced, handshake.sync, handshake.reroot) = (true, false, false);
        (self.timers.forward, self.timers.recent_root) = (delay, 0);
        !is_at_rest
    }

    /// Lets the port learn, or forward if it learns. Returns `false` if it forwards.
    fn advance(&mut self) -> bool {
        if !self.flow.learn {
            self.timers.forward = self.forward_delay();
            self.flow.learn = true;
            return true;
        }
        if self.flow.forward {
            return false;
        }
        self.timers.forward = 0;
        self.flow.forward = true;
        self.handshake.agreed = self.version.rapid && self.roles.role == Role::Designated;
        true
    }

    /// States of a designated port.
    fn run_designated(&mut self) -> bool {
        let (edge, is_retired) = (self.link.edge, self.timers.recent_root == 0);
        let handshake = &self.handshake;
        let must_stop =
            handshake.sync && !handshake.synced || handshake.reroot && !is_retired || handshake.disputed;
        if must_stop && !edge && (self.flow.learn || self.flow.forward) {
            self.discard();
            return true;
        }
        let may_forward = self.timers.forward == 0 || handshake.agreed || edge;
        if may_forward && (is_retired || !handshake.reroot) && !handshake.sync && self.advance() {
            return true;
        }
        self.synchronise(is_retired) || self.propose()
    }

    /// State `DESIGNATED_DISCARD`.
    fn discard(&mut self) {
        self.stop();
        self.handshake.disputed = false;
        self.timers.forward = self.forward_delay();
    }

    /// States `DESIGNATED_SYNCED` and `DESIGNATED_RETIRED`.
    fn synchronise(&mut self, is_retired: bool) -> bool {
        let is_discarding = self.flow.state == State::Discarding;
        let handshake = &mut self.handshake;
        let is_safe = is_discarding || handshake.agreed || self.link.edge;
        if is_safe && !handshake.synced || handshake.sync && handshake.synced {
            (handshake.synced, handshake.sync) = (true, false);
            self.timers.recent_root = 0;
            return true;
        }
        let retires = is_retired && handshake.reroot;
        handshake.reroot &= !retires;
        retires
    }

    /// State `DESIGNATED_PROPOSE`.
    fn propose(&mut self) -> bool {
        let handshake = &mut self.handshake;
        if self.flow.forward || handshake.agreed || handshake.proposing || self.link.edge {
            return false;
        }
        handshake.proposing = true;
        let times = &self.info.designated_times;
        self.timers.edge_delay = if self.config.point_to_point { MIGRATE_TIME } else { times.max_age };
        self.new_info = true;
        true
    }
}
