//! Probes of the path MTU in loss recovery: a probe that is lost alone is repaired without a reduction of the window,
//! because its length is the likely reason (RFC 4821 section 7.6.1).

use super::loss::Start;
use super::pool::SentPool;
use super::{Phase, Probe, Recovery};

impl Recovery {
    /// Whether nothing is lost, selectively acknowledged or in doubt, so that a lost probe is recognised as the only
    /// loss (RFC 4821 section 7.4).
    pub(in crate::tcp) fn is_undisturbed(&self) -> bool {
        let is_quiet = self.phase == Phase::Open && self.probe == Probe::None && self.duplicates == 0;
        is_quiet && self.allows_sack && self.board.sacked() | self.board.lost() == 0
    }

    /// Notes that the segment sent last is a probe.
    pub(in crate::tcp) fn mark_mtu_probe(&mut self, pool: &mut SentPool) {
        self.board.mark_probe(pool);
        self.has_mtu_probe = true;
    }

    /// A router reports that it dropped the probe.
    pub(in crate::tcp) fn lose_mtu_probe(&mut self, pool: &mut SentPool) {
        self.board.mark_probe_lost(pool);
        if self.is_mtu_probe_lost_only(pool)
            && let Some((una, nxt)) = self.board.bounds(pool)
        {
            self.repair_mtu_probe(Start { una, nxt, flight: 0 });
        }
    }

    /// Whether what is lost and not sent again since is a probe only.
    pub(super) fn is_mtu_probe_lost_only(&mut self, pool: &SentPool) -> bool {
        if !self.has_mtu_probe {
            return false;
        }
        let (flight, lost) = self.board.probes(pool);
        self.has_mtu_probe = flight + lost > 0;
        lost > 0 && lost == self.board.lost()
    }

    pub(super) fn repair_mtu_probe(&mut self, start: Start) {
        if self.phase == Phase::Open {
            self.begin(start);
            if let Some(episode) = &mut self.episode {
                episode.repairs_probe = true;
            }
            self.phase = Phase::Loss;
        }
    }
}
