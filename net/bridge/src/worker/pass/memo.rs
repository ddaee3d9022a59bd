//! Answers that are kept for later bursts: the last answer of a port, and the flow cache.

use super::Pass;
use super::plan::{Flow, Plan};
use crate::fdb::Fdb;
use crate::vlan::Form;
use crate::worker::cache::{ADDRESSES, Entry};
use port::{EditId, PortId};

/// Bytes that determine the form of a frame: addresses and EtherType, and for tagged frames the tag and the EtherType
/// after it.
const UNTAGGED_HEADER: usize = 14;
const TAGGED_HEADER: usize = 18;

/// Cached answer: in this second, and until a station leaves one of the two ports, `flow` needs no learning and is sent
/// to `to`, or flooded if `to` is `None`.
#[derive(Clone, Copy)]
pub(in crate::worker) struct CachedVerdict {
    flow: Flow,
    /// First bytes of a frame of the flow, and its form; `form` is used only if VLAN tags are evaluated.
    first: [u8; TAGGED_HEADER],
    form: Form,
    to: Option<PortId>,
    second: u32,
    /// Change counts of the source and destination ports; 0 for flooding.
    changes: [u64; 2],
}

impl CachedVerdict {
    /// Whether the answer is still valid; `changes` is the change count of the source port.
    #[inline(always)]
    fn holds(&self, fdb: &Fdb, changes: u64, second: u32) -> bool {
        self.second == second && self.changes == [changes, self.to.map_or(0, |to| fdb.changes(to))]
    }

    #[cfg(all(test, not(loom)))]
    pub(in crate::worker) fn leaves_by(&self) -> Option<PortId> {
        self.to
    }

    #[cfg(all(test, not(loom)))]
    pub(in crate::worker) fn is_valid(&self, fdb: &Fdb, from: PortId, second: u32) -> bool {
        self.holds(fdb, fdb.changes(from), second)
    }
}

impl Pass<'_> {
    /// Sends packets while they match the cached answer. Returns their number.
    #[inline(always)]
    pub(super) fn follow_memo<const TAGGED: bool, const GUARDED: bool>(&mut self) -> usize {
        let Some(memo) = *self.memo else { return 0 };
        if !memo.holds(&self.view.bridge.fdb, self.origin.changes, self.second) {
            return 0;
        }
        let Some(to) = memo.to else {
            // Flooding is cached only for ports without a guard, on bridges without VLANs. A member of a bond may have
            // been without one before.
            if GUARDED {
                return 0;
            }
            self.flooding = 0..self.alike::<TAGGED>(&memo);
            let alike = self.flooding.end;
            self.end_flood();
            return alike;
        };
        if !GUARDED {
            let alike = self.alike::<TAGGED>(&memo);
            let edit = if TAGGED { self.edit(to, memo.form) } else { EditId::NONE };
            self.out.emit_run(0..alike, to, edit);
            return alike;
        }
        for i in 0..self.burst.len() {
            match self.read::<TAGGED, GUARDED>(i) {
                Ok((flow, form)) if flow == memo.flow => self.emit::<TAGGED>(i, to, form),
                _ => return i,
            }
        }
        self.burst.len()
    }

    /// Number of packets from the front that belong to the cached flow and have its form.
    #[inline(always)]
    fn alike<const TAGGED: bool>(&self, memo: &CachedVerdict) -> usize {
        fn begins<const N: usize>(first: &[u8; TAGGED_HEADER]) -> &[u8; N] {
            first.first_chunk().unwrap_or(&[0; N])
        }
        match (TAGGED, memo.form.is_tagged()) {
            (false, _) => self.burst.alike::<ADDRESSES>(begins(&memo.first)),
            (true, false) => self.burst.alike::<UNTAGGED_HEADER>(begins(&memo.first)),
            (true, true) => self.burst.alike(&memo.first),
        }
    }

    /// Sends packet `i` and the following ones whose cached flow has output port `to`. Returns the end of the run.
    #[inline(always)]
    pub(super) fn emit_known(&mut self, i: usize, to: PortId) -> usize {
        let rest = self.plans[i + 1..self.burst.len()].iter();
        let end = i + 1 + rest.take_while(|plan| plan.known == Some(to)).count();
        self.end_flood();
        self.out.emit_run(i..end, to, EditId::NONE);
        end
    }

    /// Output port of packet `i`, if its flow is cached.
    #[inline(always)]
    pub(super) fn recall(&self, i: usize) -> Option<PortId> {
        // Group addresses are not cached.
        let addresses: &[u8; ADDRESSES] = self.burst.first(i).filter(|addresses| addresses[0] & 1 == 0)?;
        let entry = self.cache.get(addresses, self.origin.port, self.second)?;
        let fdb = &self.view.bridge.fdb;
        let is_steady = entry.changes == [self.origin.changes as u32, fdb.changes(entry.to) as u32];
        is_steady.then_some(entry.to)
    }

    /// Caches the flow of packet `i`, which was just answered, under the same rule as [`Pass::remember`].
    #[inline(never)]
    pub(super) fn remember_flow(&mut self, i: usize, plan: &Plan) {
        let (Some((_, Some(to))), Some(&addresses)) = (self.latest, self.burst.first(i)) else { return };
        let changes = [self.origin.changes as u32, self.view.bridge.fdb.changes(to) as u32];
        let entry = Entry { addresses, from: self.origin.port, to, second: self.second, changes };
        if self.origin.member.guard.is_some() || self.cache.slot(&entry).is_none() {
            return;
        }
        if self.destination(plan) == Some(to)
            && let Some(slot) = self.cache.slot(&entry)
        {
            *slot = entry;
        }
    }

    /// Caches the answer `to` for packet `i` for the next burst. The change count of the destination port must be older
    /// than the look-up, but the port is known only from a look-up: so a second look-up is made, once per burst.
    #[inline(never)]
    pub(super) fn remember(&mut self, i: u8, to: Option<PortId>) {
        let plan = self.plans[usize::from(i)];
        let changes = [self.origin.changes, to.map_or(0, |to| self.view.bridge.fdb.changes(to))];
        let mut first = [0; TAGGED_HEADER];
        let head = self.burst.head(usize::from(i));
        let len = head.len().min(TAGGED_HEADER);
        first[..len].copy_from_slice(&head[..len]);
        if to.is_none() || self.destination(&plan) == to {
            let Plan { flow, form, .. } = plan;
            *self.memo = Some(CachedVerdict { flow, first, form, to, second: self.second, changes });
        }
    }
}
