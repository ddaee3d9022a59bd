//! Port Transmit state machine (17.26).

use crate::bpdu::{Bpdu, Flags, Parameters};
use crate::bridge::{Bridge, Event};
use crate::port::Port;
use crate::status::{Role, State};

/// `TxHoldCount`: BPDUs that a port sends at once; one more each second (17.13.12).
const HOLD_COUNT: u8 = 6;

impl Bridge {
    pub(super) fn transmit(&mut self, i: usize) -> bool {
        let (hello, source) = (self.config.hello, self.id.address());
        let port = &mut self.ports[i];
        if port.roles.role == Role::Disabled || !port.is_settled() {
            return false;
        }
        if port.timers.hello == 0 {
            port.new_info |= port.is_periodic();
            port.timers.hello = hello;
            return true;
        }
        if !port.new_info || port.timers.sent >= HOLD_COUNT {
            return false;
        }
        port.new_info = false;
        port.timers.hello = hello;
        if let Some(bpdu) = port.next_bpdu() {
            port.timers.sent += 1;
            port.counts.sent += 1;
            self.events.push(Event::Send(port.number, Box::new(bpdu.encode(source))));
        }
        true
    }
}

impl Port {
    /// Whether a BPDU is due in each interval: of designated ports, and of root ports during a topology change.
    fn is_periodic(&self) -> bool {
        let is_changing = self.timers.topology_change != 0;
        self.roles.role == Role::Designated || self.roles.role == Role::Root && is_changing
    }

    /// The BPDU to send; `None` if STP has none for the role.
    fn next_bpdu(&mut self) -> Option<Bpdu> {
        if self.version.rapid {
            self.topology.acknowledge = false;
            return Some(Bpdu::Rapid(self.parameters(self.rapid_flags())));
        }
        match self.roles.role {
            Role::Designated => {
                let acknowledges = std::mem::take(&mut self.topology.acknowledge);
                let acknowledgement = if acknowledges { Flags::ACKNOWLEDGEMENT } else { 0 };
                Some(Bpdu::Config(self.parameters(self.change_flag() | acknowledgement)))
            }
            Role::Root if self.timers.topology_change != 0 => Some(Bpdu::TopologyChange),
            _ => None,
        }
    }

    fn parameters(&self, flags: u8) -> Parameters {
        let (vector, times) = (self.info.designated, self.info.designated_times);
        Parameters { flags: Flags(flags), vector, times }
    }

    fn change_flag(&self) -> u8 {
        if self.timers.topology_change != 0 { Flags::TOPOLOGY_CHANGE } else { 0 }
    }

    /// `txRstp()` (17.21.20)
    fn rapid_flags(&self) -> u8 {
        let role = match self.roles.role {
            Role::Disabled => 0,
            Role::Root => Flags::ROOT,
            Role::Designated => Flags::DESIGNATED,
            Role::Alternate | Role::Backup => Flags::ALTERNATE,
        };
        let state = match self.flow.state {
            State::Discarding => 0,
            State::Learning => Flags::LEARNING,
            State::Forwarding => Flags::LEARNING | Flags::FORWARDING,
        };
        let agreement = if self.handshake.agree { Flags::AGREEMENT } else { 0 };
        let proposal = if self.handshake.proposing { Flags::PROPOSAL } else { 0 };
        role | state | agreement | proposal | self.change_flag()
    }
}
