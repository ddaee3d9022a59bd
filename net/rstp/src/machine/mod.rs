//! State machines (17.16): each function takes one step of one machine of one port, and returns whether it did.
//!
//! States that a variable implies are not stored: `infoIs` is the state of Port Information, the role that of Port Role
//! Transitions, and `operEdge` that of Bridge Detection. Where IEEE 802.1Q-2011 corrects IEEE 802.1D-2004 (disputes,
//! agreements in designated BPDUs), its text applies.

mod information;
mod migration;
mod selection;
mod topology;
mod transitions;
mod transmit;

use crate::bridge::Bridge;
use crate::port::Port;

/// Passes over all ports until no machine takes a step; some are enough. Limits what an inconsistency can cost.
const MAX_PASSES: usize = 256;

impl Bridge {
    /// Runs all machines until none can take a step.
    pub(crate) fn settle(&mut self) {
        for _ in 0..MAX_PASSES {
            let mut changed = self.select_roles();
            for i in 0..self.ports.len() {
                changed |= self.step(i);
            }
            if !changed {
                return;
            }
        }
        debug_assert!(false, "the state machines do not settle");
    }

    /// A step of each machine of port `i`.
    fn step(&mut self, i: usize) -> bool {
        let rapid = self.is_rapid();
        self.ports[i].migrate(rapid)
            | self.ports[i].detect_edge()
            | self.update_information(i)
            | self.change_role(i)
            | self.change_state(i)
            | self.change_topology(i)
            | self.transmit(i)
    }

    /// The other ports.
    fn others(&mut self, i: usize) -> impl Iterator<Item = &mut Port> {
        self.ports.iter_mut().enumerate().filter(move |(j, _)| *j != i).map(|(_, port)| port)
    }
}
