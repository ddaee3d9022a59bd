//! Learning of stations, with the limits on it.

use super::Pass;
use super::plan::Plan;
use crate::fdb::Source;
use crate::key::Key;
use crate::listing::RefusedMove;
use crate::ports::Member;
use port::PortId;
use std::sync::atomic::{AtomicU64, Ordering};
use wire::{Arp, EtherType, Ethernet};

/// Maximum number of new or moved stations that take the table lock per burst; others are learned from later packets.
/// Limits the cost that a source with varying addresses imposes on the other ports of its worker.
const LEARNS_PER_BURST: u32 = 8;

/// Learning events of one burst.
pub(in crate::worker) struct Learning {
    /// Remaining attempts to take the table lock.
    budget: u32,
    refused: u64,
    deferred: u64,
    moves: u64,
    refused_moves: u64,
}

impl Default for Learning {
    fn default() -> Self {
        Self { budget: LEARNS_PER_BURST, refused: 0, deferred: 0, moves: 0, refused_moves: 0 }
    }
}

impl Learning {
    /// Whether a packet of this burst has moved a station.
    #[inline(always)]
    pub(super) fn has_moved(&self) -> bool {
        self.moves > 0
    }

    /// Adds the events to the counters of the port.
    #[inline(always)]
    pub(in crate::worker) fn count(&self, member: &Member) {
        if self.refused | self.deferred | self.moves | self.refused_moves != 0 {
            self.add(member);
        }
    }

    #[cold]
    fn add(&self, member: &Member) {
        let add = |counter: &AtomicU64, n| counter.fetch_add(n, Ordering::Relaxed);
        add(&member.counters.refused, self.refused);
        add(&member.counters.deferred, self.deferred);
        add(&member.counters.moves, self.moves);
        add(&member.counters.refused_moves, self.refused_moves);
    }
}

impl Pass<'_> {
    /// Learns the source of packet `i` and counts the result.
    #[cold]
    #[inline(never)]
    pub(super) fn learn(&mut self, i: usize, plan: &Plan) -> Source {
        let (key, fdb) = (plan.flow.source, &self.view.bridge.fdb);
        let source =
            match fdb.learn(key, plan.source, self.origin.port, self.second, &mut self.learning.budget) {
                Source::Contested(_) if self.is_announced(i, key) => {
                    fdb.announce(key, self.origin.port, self.second, &mut self.learning.budget)
                }
                source => source,
            };
        match source {
            Source::Refused => self.learning.refused += 1,
            Source::Deferred => self.learning.deferred += 1,
            Source::Moved => self.learning.moves += 1,
            Source::Contested(at) => self.report(key, at),
            Source::Known | Source::Learned | Source::Elsewhere => {}
        }
        source
    }

    /// Whether packet `i` is a RARP frame for `key` from a port that may announce stations.
    fn is_announced(&self, i: usize, key: Key) -> bool {
        let announces = |head: &[u8]| {
            let frame =
                Ethernet::new(head).ok().filter(|frame| frame.inner_ethertype() == EtherType::RARP)?;
            Some(Arp::new(frame.payload())?.sender_mac() == key.mac())
        };
        (self.origin.member.trusted || self.origin.injected) && announces(self.burst.head(i)) == Some(true)
    }

    fn report(&mut self, key: Key, at: PortId) {
        self.learning.refused_moves += 1;
        if self.origin.member.reports(self.second) {
            let (old_port, new_port) = (at.0, self.origin.port.0);
            let (mac, vlan, second) = (key.mac(), key.vlan(), self.second);
            self.view.bridge.refusals.add(RefusedMove { mac, vlan, old_port, new_port, second });
        }
    }
}
