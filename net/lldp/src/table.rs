//! Neighbours of one port.

use crate::frame::Lldpdu;
use std::time::Duration;

/// Neighbours of a port at most: more than one are there behind a bridge that forwards LLDP.
pub const MAX_NEIGHBORS: usize = 8;

/// A neighbour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbor {
    /// Received information.
    pub lldpdu: Lldpdu,
    /// When it was first received.
    pub since: Duration,
    /// When it becomes invalid.
    pub until: Duration,
}

/// Result of an LLDPDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    New,
    Updated,
    Removed,
    /// The table is full.
    Refused,
}

#[derive(Default)]
pub(crate) struct Table(Vec<Neighbor>);

impl Table {
    pub(crate) fn receive(&mut self, lldpdu: Lldpdu, now: Duration) -> Change {
        let until = now + Duration::from_secs(lldpdu.ttl.into());
        let is_it =
            |known: &Neighbor| known.lldpdu.chassis == lldpdu.chassis && known.lldpdu.port == lldpdu.port;
        let known = self.0.iter().position(is_it);
        match known {
            Some(at) if lldpdu.ttl == 0 => {
                self.0.remove(at);
                Change::Removed
            }
            Some(at) => {
                self.0[at] = Neighbor { lldpdu, until, ..self.0[at] };
                Change::Updated
            }
            None if lldpdu.ttl == 0 => Change::Removed,
            None if self.0.len() >= MAX_NEIGHBORS => Change::Refused,
            None => {
                self.0.push(Neighbor { lldpdu, since: now, until });
                Change::New
            }
        }
    }

    /// Removes neighbours that are not valid any more. Returns their number.
    pub(crate) fn expire(&mut self, now: Duration) -> usize {
        let before = self.0.len();
        self.0.retain(|known| known.until > now);
        before - self.0.len()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.0.iter().map(|known| known.until).min()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Neighbor> {
        self.0.iter()
    }
}
