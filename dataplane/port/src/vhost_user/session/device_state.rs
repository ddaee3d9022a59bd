//! The state of the device, which a front end saves with its guest and restores (`DEVICE_STATE`).
//!
//! The state is empty: front ends keep features, memory and positions of rings themselves. The descriptor is closed
//! before the reply, so a front end that saves reads the end of the state at once, and the state of another back end
//! cannot be written to it.

use super::Session;
use crate::vhost::message::{Reply, StateTransfer};

/// Bit of the reply: it has no descriptor, so the front end uses its own.
const NO_DESCRIPTOR: u64 = 1 << 8;
const FAILED: u64 = 1;

impl Session {
    /// Accepts a transfer in either direction while all rings are stopped.
    pub(super) fn set_device_state(&self, transfer: StateTransfer) -> Reply {
        let is_known = transfer.direction <= StateTransfer::LOAD && transfer.phase == StateTransfer::STOPPED;
        let accepts = is_known && !self.vrings.iter().any(|vring| vring.running);
        Reply::U64(NO_DESCRIPTOR | if accepts { 0 } else { FAILED })
    }
}
