//! Adds and removes stages: stops all queues, changes the layout, and starts them again ([`crate::stage`]).
//!
//! A queue that is bound to its thread cannot be started on another one. Its port is therefore handed over to this
//! process itself: it closes the queue, keeps what the queue has received, and opens another one. Its peer, like those
//! of all other ports, does not notice.

use super::{Control, Failed};
use crate::stage::StageChange;
use port::PortId;
use std::collections::BTreeSet;
use std::io;

/// Why stages were not added or removed.
pub(crate) enum NotChanged {
    /// A port that cannot leave its thread, or a worker that hangs.
    NotStopped(Failed),
    /// No descriptors are available.
    NotJoined(io::Error),
}

impl Control {
    /// After an error, all ports have continued with the stages as they were.
    pub(super) fn change_stages(&mut self, change: StageChange) -> Result<(), NotChanged> {
        let bound = self.bound_ports();
        self.not_handed_over = self.ports.keys().filter(|port| !bound.contains(port)).copied().collect();
        let stopped = self.describe().and_then(|_| self.hand_over()).map_err(NotChanged::NotStopped);
        let changed = stopped.and_then(|_| {
            let changed = self.placement.change_stages(self.joiner.as_ref(), change);
            changed.map_err(NotChanged::NotJoined)
        });
        if changed.is_ok() {
            // Loads of other workers have the numbers of these.
            self.restart_balancing();
        }
        self.resume();
        changed
    }

    /// Ports with a receive queue that is bound to its thread.
    fn bound_ports(&self) -> BTreeSet<PortId> {
        self.placement.placed().filter(|(_, placed)| placed.bound).map(|(key, _)| key.port).collect()
    }
}
