//! Grace period of invalid rings.
//!
//! A guest that shuts down or is reset clears its rings shortly before its front end stops them or closes the
//! connection, so a ring that just became invalid is not yet a fault. Its queue is stopped at once. The connection ends
//! with the fault unless the front end stops the ring within the grace period. A ring has at most one grace period a
//! second, so that a front end cannot hide that its ring becomes invalid again and again.

use super::Session;
use crate::{Attach, PortFault, QueueId};
use std::time::{Duration, Instant};

/// Time within which the front end has to stop an invalid ring or to disconnect.
pub(crate) const GRACE: Duration = Duration::from_millis(100);
/// Minimum interval between the beginnings of two grace periods of a ring.
pub(crate) const GRACE_INTERVAL: Duration = Duration::from_secs(1);

/// Grace period of one ring.
#[derive(Debug)]
pub(super) struct Grace {
    fault: PortFault,
    end: Instant,
}

impl Session {
    /// Handles the `fault` of `queue`, which a worker has stopped using. The ring of an invalid virtqueue stops on all
    /// workers and does not start before the front end has stopped it.
    ///
    /// # Errors
    /// The fault, if it ends the session: the ring has no grace period, or a worker may still use it.
    pub fn suspend(
        &mut self,
        queue: Option<QueueId>,
        fault: PortFault,
        now: Instant,
        engine: &mut dyn Attach,
    ) -> Result<(), PortFault> {
        let ring = queue.filter(|_| fault.is_invalid_ring()).map(|queue| match queue {
            QueueId::Tx(pair) => 2 * u32::from(pair),
            QueueId::Rx(pair) => 2 * u32::from(pair) + 1,
        });
        let Some(ring) = ring.filter(|&ring| (ring as usize) < self.vrings.len()) else { return Err(fault) };
        self.stop(ring, engine);
        if let Some(failure) = engine.failure() {
            return Err(failure);
        }
        let vring = &mut self.vrings[ring as usize];
        if vring.last_grace.is_some_and(|at| now < at + GRACE_INTERVAL) {
            return Err(fault);
        }
        vring.last_grace = Some(now);
        vring.grace = Some(Grace { fault, end: now + GRACE });
        Ok(())
    }

    /// Whether a ring is in its grace period.
    pub fn is_suspended(&self) -> bool {
        self.vrings.iter().any(|vring| vring.grace.is_some())
    }

    /// End of the first grace period.
    pub fn deadline(&self) -> Option<Instant> {
        self.vrings.iter().filter_map(|vring| Some(vring.grace.as_ref()?.end)).min()
    }

    /// Fault of a ring that the front end has not stopped within the grace period.
    pub fn expired(&self, now: Instant) -> Option<PortFault> {
        let mut graces = self.vrings.iter().filter_map(|vring| vring.grace.as_ref());
        graces.find(|grace| now >= grace.end).map(|grace| grace.fault.clone())
    }
}
