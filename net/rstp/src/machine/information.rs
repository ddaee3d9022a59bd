//! Port Information state machine (17.27): received and own information of a port.

use crate::bpdu::{Bpdu, Flags, Parameters};
use crate::bridge::Bridge;
use crate::port::{Handshake, Port, Source};
use crate::vector::{Times, Vector};

/// Kind of received information: `rcvInfo()` (17.21.8).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Superior,
    Repeated,
    Inferior,
    /// Not from a designated port, and not better.
    Answer,
    Other,
}

impl Bridge {
    pub(super) fn update_information(&mut self, i: usize) -> bool {
        let is_rapid = self.is_rapid();
        let port = &mut self.ports[i];
        if !port.is_enabled() {
            return port.info.source != Source::Disabled && port.disable();
        }
        match port.info.source {
            Source::Disabled => port.age(),
            Source::Aged if port.roles.selected && port.info.update => port.adopt_own(),
            Source::Aged => false,
            _ if !port.info.update && port.info.message.is_some() => {
                let message = port.info.message.take();
                self.receive_message(i, message, is_rapid)
            }
            _ if port.roles.selected && port.info.update => port.adopt_own(),
            Source::Received if port.timers.received == 0 && !port.info.update => port.age(),
            _ => false,
        }
    }

    fn receive_message(&mut self, i: usize, message: Option<Bpdu>, is_rapid: bool) -> bool {
        let port = &mut self.ports[i];
        let (parameters, role) = match message {
            Some(Bpdu::Config(parameters)) => (parameters, Flags::DESIGNATED),
            Some(Bpdu::Rapid(parameters)) => (parameters, parameters.flags.0 & Flags::ROLE),
            Some(Bpdu::TopologyChange) => {
                port.topology.notification = true;
                return true;
            }
            None => return true,
        };
        let agrees = is_rapid && port.config.point_to_point && parameters.flags.has(Flags::AGREEMENT);
        match port.kind(&parameters, role) {
            Kind::Superior => port.receive_superior(&parameters, agrees),
            Kind::Repeated => port.receive_repeated(&parameters, agrees),
            Kind::Inferior => port.handshake.dispute(parameters.flags),
            Kind::Answer => {
                port.handshake.record_agreement(agrees);
                port.record_changes(parameters.flags);
            }
            Kind::Other => {}
        }
        true
    }
}

impl Port {
    /// State `DISABLED`.
    fn disable(&mut self) -> bool {
        let Handshake { agree, agreed, proposed, proposing, .. } = &mut self.handshake;
        (*agree, *agreed, *proposed, *proposing) = (false, false, false, false);
        self.info.message = None;
        self.timers.received = 0;
        self.info.source = Source::Disabled;
        self.reselect();
        true
    }

    /// State `AGED`.
    fn age(&mut self) -> bool {
        self.info.source = Source::Aged;
        self.reselect();
        true
    }

    /// State `UPDATE`: the designated vector becomes that of the port.
    fn adopt_own(&mut self) -> bool {
        let holds = self.info.source == Source::Mine && self.info.designated <= self.info.vector;
        let handshake = &mut self.handshake;
        (handshake.proposing, handshake.proposed) = (false, false);
        handshake.agreed &= holds;
        handshake.synced &= handshake.agreed;
        self.info.vector = self.info.designated;
        self.info.times = self.info.designated_times;
        self.info.update = false;
        self.info.source = Source::Mine;
        self.new_info = true;
        true
    }

    fn kind(&self, parameters: &Parameters, role: u8) -> Kind {
        let Parameters { vector, times, .. } = parameters;
        let is_same = *vector == self.info.vector;
        let is_superior = vector.is_superior_to(&self.info.vector);
        match role {
            // The role is unknown in a BPDU that stands for one of STP (9.3.3).
            Flags::DESIGNATED | 0 if is_same && *times == self.info.times => Kind::Repeated,
            Flags::DESIGNATED | 0 if is_same || is_superior => Kind::Superior,
            Flags::DESIGNATED | 0 => Kind::Inferior,
            _ if is_same || !is_superior => Kind::Answer,
            _ => Kind::Other,
        }
    }

    /// State `SUPERIOR_DESIGNATED`.
    fn receive_superior(&mut self, parameters: &Parameters, agrees: bool) {
        let Parameters { flags, vector, times } = *parameters;
        (self.handshake.agreed, self.handshake.proposing) = (false, false);
        self.record_proposal(flags);
        self.record_changes(flags);
        self.handshake.agree &= self.info.source == Source::Received && vector <= self.info.vector;
        self.handshake.record_agreement(agrees);
        self.handshake.synced &= self.handshake.agreed;
        self.record_information(vector, times);
        self.info.source = Source::Received;
        self.reselect();
    }

    /// State `REPEATED_DESIGNATED`.
    fn receive_repeated(&mut self, parameters: &Parameters, agrees: bool) {
        self.record_proposal(parameters.flags);
        self.record_changes(parameters.flags);
        self.handshake.record_agreement(agrees);
        self.record_information(parameters.vector, parameters.times);
    }

    /// `recordPriority()`, `recordTimes()` and `updtRcvdInfoWhile()` (17.21.23). Older information is not decoded.
    fn record_information(&mut self, vector: Vector, times: Times) {
        (self.info.vector, self.info.times) = (vector, times);
        self.timers.received = 3 * times.hello;
    }

    /// `recordProposal()`
    fn record_proposal(&mut self, flags: Flags) {
        self.handshake.proposed |= flags.has(Flags::DESIGNATED | Flags::PROPOSAL);
    }

    /// `setTcFlags()`
    fn record_changes(&mut self, flags: Flags) {
        self.topology.change |= flags.has(Flags::TOPOLOGY_CHANGE);
        self.topology.acknowledgement |= flags.has(Flags::ACKNOWLEDGEMENT);
    }
}

impl Handshake {
    /// `recordAgreement()`
    fn record_agreement(&mut self, agrees: bool) {
        self.agreed = agrees;
        self.proposing &= !agrees;
    }

    /// `recordDispute()`: the neighbour does not receive what this port sends.
    fn dispute(&mut self, flags: Flags) {
        if flags.has(Flags::LEARNING) {
            (self.disputed, self.agreed) = (true, false);
        }
    }
}
