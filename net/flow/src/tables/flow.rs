//! Flows as they are stored: 10^6 of them must fit, so that masks and instructions are shared.

use super::saved::SavedFlow;
use crate::action::{Action, Instructions};
use crate::key::Key;
use crate::lookup::Mask;
use crate::matching::Match;
use crate::modify::{FlowFlags, FlowMod, PortNo, TableId};
use mem::line::{LINE, prefetch_read, prefetch_write};
use port::Now;
use smallvec::SmallVec;
use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

/// Words of a mask whose values are in the entry.
pub(crate) const IN_ENTRY: usize = 4;
/// Value of each word of a mask.
pub(crate) type Values = SmallVec<[u64; IN_ENTRY]>;

/// Part of a flow that a modification of its instructions keeps. The fields that each packet needs come first.
#[derive(Debug)]
#[repr(C)]
pub struct Entry {
    mask: Arc<Mask>,
    values: Values,
    used: AtomicU64,
    packets: AtomicU64,
    bytes: AtomicU64,
    priority: u16,
    importance: u16,
    /// Timeouts are lowered by control only.
    idle_timeout: AtomicU16,
    hard_timeout: AtomicU16,
    cookie: u64,
    created: Now,
    /// Time of the creation, or of the last packet that learned the flow.
    refreshed: AtomicU64,
    flags: FlowFlags,
    table: TableId,
}

// In two lines, also if the entry starts 16 bytes before the end of one.
const _: () = assert!(offset_of!(Entry, priority) + size_of::<u16>() <= LINE + 16);

/// A flow of a table.
#[derive(Clone, Debug)]
pub struct Flow {
    entry: Arc<Entry>,
    instructions: Arc<Instructions>,
}

impl Entry {
    pub(super) fn new(change: &FlowMod, mask: Arc<Mask>, now: Now) -> Self {
        Self {
            values: mask.values(change.matching.key()),
            mask,
            cookie: change.cookie,
            created: now,
            used: AtomicU64::new(now.0),
            refreshed: AtomicU64::new(now.0),
            packets: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            priority: change.priority,
            importance: change.importance,
            idle_timeout: AtomicU16::new(change.idle_timeout),
            hard_timeout: AtomicU16::new(change.hard_timeout),
            flags: change.flags,
            table: change.table,
        }
    }

    /// The entry of another process.
    pub(super) fn restored(change: &FlowMod, mask: Arc<Mask>, saved: &SavedFlow) -> Self {
        let entry = Self::new(change, mask, saved.created);
        entry.used.store(saved.used.0, Ordering::Relaxed);
        entry.set_refreshed(saved.refreshed);
        entry.set_counts(saved.counts);
        entry
    }

    /// Adds packets and bytes, last seen at `now`. Called by workers, once for many packets.
    pub fn count(&self, packets: u64, bytes: u64, now: Now) {
        self.packets.fetch_add(packets, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        // One locked instruction less for the other packets of a burst.
        if self.used.load(Ordering::Relaxed) < now.0 {
            self.used.fetch_max(now.0, Ordering::Relaxed);
        }
    }

    /// Packets and bytes.
    pub fn counts(&self) -> (u64, u64) {
        (self.packets.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }

    pub(super) fn set_counts(&self, (packets, bytes): (u64, u64)) {
        self.packets.store(packets, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Time of the last packet; of the creation before the first.
    pub fn used(&self) -> Now {
        Now(self.used.load(Ordering::Relaxed))
    }

    /// Starts both timeouts anew, because a packet at `now` has learned the flow again. Called by workers and control.
    pub fn refresh(&self, now: Now) {
        self.refreshed.fetch_max(now.0, Ordering::Relaxed);
    }

    /// A new flow is as old as the packet that has learned it, so that a later packet replaces it for any difference
    /// between the clocks of workers and control.
    pub(super) fn set_refreshed(&self, now: Now) {
        self.refreshed.store(now.0, Ordering::Relaxed);
    }

    /// Time of the creation, or of the last packet that learned the flow.
    pub fn refreshed(&self) -> Now {
        Now(self.refreshed.load(Ordering::Relaxed))
    }

    /// Time of the creation.
    pub fn created(&self) -> Now {
        self.created
    }

    /// Match.
    pub fn matching(&self) -> Match {
        Match::new(&self.key(), self.mask.full())
    }

    /// Loads the lines that a lookup and [`Entry::count`] need into the cache, except [`Entry::prefetch_values`].
    pub(crate) fn prefetch(&self) {
        let start = std::ptr::from_ref(self).cast::<u8>();
        prefetch_write(start);
        prefetch_write(start.wrapping_add(offset_of!(Self, priority)));
    }

    /// Loads the values into the cache, of which there are more than [`IN_ENTRY`]. Reads the entry.
    pub(crate) fn prefetch_values(&self) {
        prefetch_read(self.values.as_ptr().cast());
    }

    pub(crate) fn key(&self) -> Key {
        self.mask.key(&self.values)
    }

    pub(crate) fn mask(&self) -> &Arc<Mask> {
        &self.mask
    }

    #[inline]
    pub(crate) fn selects(&self, key: &Key) -> bool {
        self.mask.selects(&self.values, key)
    }

    /// Adds bits to `bits` in which `key` differs from the match, which does not select it.
    #[inline]
    pub(crate) fn add_difference(&self, key: &Key, bits: &mut Key) {
        self.mask.add_difference(&self.values, key, bits);
    }

    /// Whether a packet that it selects agrees with `key` in the bits of `mask`.
    pub fn overlaps(&self, key: &Key, mask: &Key) -> bool {
        self.mask.overlaps(&self.values, key, mask)
    }

    /// Whether `matching` covers it.
    pub(crate) fn is_within(&self, matching: &Match) -> bool {
        self.mask.contains(matching.mask()) && self.overlaps(matching.key(), matching.mask())
    }

    /// Whether it is the table-miss flow: priority 0, and a match of every packet.
    pub fn is_table_miss(&self) -> bool {
        self.priority == 0 && self.values.is_empty()
    }

    /// Priority.
    pub fn priority(&self) -> u16 {
        self.priority
    }

    /// Importance for eviction.
    pub fn importance(&self) -> u16 {
        self.importance
    }

    /// Cookie.
    pub fn cookie(&self) -> u64 {
        self.cookie
    }

    /// Idle and hard timeout in seconds; 0 for none.
    pub fn timeouts(&self) -> (u16, u16) {
        (self.idle_timeout.load(Ordering::Relaxed), self.hard_timeout.load(Ordering::Relaxed))
    }

    pub(super) fn set_timeouts(&self, (idle, hard): (u16, u16)) {
        self.idle_timeout.store(idle, Ordering::Relaxed);
        self.hard_timeout.store(hard, Ordering::Relaxed);
    }

    /// Flags.
    pub fn flags(&self) -> FlowFlags {
        self.flags
    }

    /// Table.
    pub fn table(&self) -> TableId {
        self.table
    }

    /// Times at which the flow expires by its idle and by its hard timeout, as of now.
    pub(super) fn deadlines(&self) -> [Option<Now>; 2] {
        let after = |start: Now, seconds: u16| {
            (seconds > 0).then(|| Now(start.0.saturating_add(u64::from(seconds) * 1_000_000_000)))
        };
        let (refreshed, (idle, hard)) = (self.refreshed(), self.timeouts());
        [after(self.used().max(refreshed), idle), after(refreshed, hard)]
    }
}

impl Flow {
    pub(super) fn new(entry: Entry, instructions: Arc<Instructions>) -> Self {
        Self { entry: Arc::new(entry), instructions }
    }

    /// Part that modifications keep.
    pub fn entry(&self) -> &Arc<Entry> {
        &self.entry
    }

    /// Instructions.
    pub fn instructions(&self) -> &Arc<Instructions> {
        &self.instructions
    }

    pub(super) fn set_instructions(&mut self, instructions: Arc<Instructions>) {
        self.instructions = instructions;
    }

    pub(crate) fn is(&self, entry: &Arc<Entry>) -> bool {
        Arc::ptr_eq(&self.entry, entry)
    }

    /// Conjunction, clause and number of clauses of each `conjunction` action.
    pub(crate) fn conjunctions(&self) -> impl Iterator<Item = (u32, u8, u8)> {
        self.instructions.apply.iter().filter_map(|action| match action {
            Action::Conjunction { id, clause, clauses } => Some((*id, *clause, *clauses)),
            _ => None,
        })
    }

    /// Whether it is a part of conjunctions, and so has no actions of its own.
    pub(crate) fn is_part(&self) -> bool {
        self.conjunctions().next().is_some()
    }

    /// Whether it has an output to `port`.
    pub fn outputs_to(&self, port: PortNo) -> bool {
        any(&self.instructions, &|action| match action {
            Action::Output { port: to, .. } => *to == port,
            Action::Controller(_) => port == PortNo::CONTROLLER,
            _ => false,
        })
    }

    /// Whether it executes group `id`.
    pub fn has_group(&self, id: u32) -> bool {
        any(&self.instructions, &|action| matches!(action, Action::Group(group) if *group == id))
    }

    /// Whether it executes a group.
    pub(super) fn has_any_group(&self) -> bool {
        any(&self.instructions, &|action| matches!(action, Action::Group(_)))
    }

    /// Whether it applies a meter; `id`: `None` for any.
    pub(super) fn has_meter(&self, id: Option<u32>) -> bool {
        let is = |meter: u32| id.is_none_or(|id| id == meter);
        let action = |action: &Action| matches!(action, Action::Meter(meter) if is(*meter));
        self.instructions.meter.is_some_and(is) || any(&self.instructions, &action)
    }
}

/// Whether an action of `instructions`, also within `clone`, satisfies `is`.
fn any(instructions: &Instructions, is: &dyn Fn(&Action) -> bool) -> bool {
    let mut found = false;
    visit(&instructions.apply, &mut |action| found |= is(action));
    visit(&instructions.write, &mut |action| found |= is(action));
    found
}

/// Calls `each` for all actions, also within `clone`.
pub(super) fn visit<'a>(actions: &'a [Action], each: &mut dyn FnMut(&'a Action)) {
    for action in actions {
        each(action);
        if let Action::Clone(inner) = action {
            visit(inner, each);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_small() {
        assert_eq!((size_of::<Entry>(), size_of::<Flow>()), (112, 16));
    }
}
