//! Groups (OpenFlow 1.3.5, 5.6 and 7.3.4.3).

use super::flow::visit;
use crate::action::{Action, Bucket, LearnSpec};
use crate::lookup::fold;
use crate::modify::{GroupKind, GroupMod};
use port::Now;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Hash values that a select group distinguishes.
pub(crate) const SLOTS: usize = 256;

/// Packets and bytes of a group or a bucket, which outlive its modifications.
#[derive(Debug, Default)]
pub struct GroupCounter {
    packets: AtomicU64,
    bytes: AtomicU64,
}

impl GroupCounter {
    /// Adds packets and bytes. Called by workers, once for many packets.
    pub fn add(&self, packets: u64, bytes: u64) {
        self.packets.fetch_add(packets, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Packets and bytes.
    pub fn counts(&self) -> (u64, u64) {
        (self.packets.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

/// A group.
pub struct Group {
    id: u32,
    kind: GroupKind,
    buckets: Vec<Bucket>,
    /// Scores of each bucket of a select group for each hash value.
    scores: Vec<[f32; SLOTS]>,
    created: Now,
    counter: Arc<GroupCounter>,
    /// Of each bucket.
    bucket_counters: Vec<Arc<GroupCounter>>,
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut group = f.debug_struct("Group");
        group
            .field("id", &self.id)
            .field("kind", &self.kind)
            .field("buckets", &self.buckets)
            .finish_non_exhaustive()
    }
}

impl Group {
    /// A group after a change. It continues to count what `old` has counted; buckets are the same if their identifiers
    /// are.
    pub(super) fn new(change: &GroupMod, old: Option<&Self>, seed: u64, now: Now) -> Self {
        let scores = |bucket: &Bucket| std::array::from_fn(|slot| score(bucket, slot as u64, seed));
        let select = change.kind == GroupKind::Select;
        let before = old.map(Self::counters_by_bucket).unwrap_or_default();
        let counter = |bucket: &Bucket| before.get(&bucket.id).copied().cloned().unwrap_or_default();
        Self {
            id: change.id,
            kind: change.kind,
            buckets: change.buckets.clone(),
            scores: if select { change.buckets.iter().map(scores).collect() } else { Vec::new() },
            created: old.map_or(now, |old| old.created),
            counter: old.map(|old| old.counter.clone()).unwrap_or_default(),
            bucket_counters: change.buckets.iter().map(counter).collect(),
        }
    }

    fn counters_by_bucket(&self) -> HashMap<u32, &Arc<GroupCounter>> {
        self.buckets.iter().map(|bucket| bucket.id).zip(&self.bucket_counters).collect()
    }

    /// Number.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Kind.
    pub fn kind(&self) -> GroupKind {
        self.kind
    }

    /// Buckets.
    pub fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    /// Counter of all packets.
    pub fn counter(&self) -> &Arc<GroupCounter> {
        &self.counter
    }

    /// Counter of the bucket at a position.
    pub fn bucket_counter(&self, position: usize) -> Option<&Arc<GroupCounter>> {
        self.bucket_counters.get(position)
    }

    /// Time at which it was added.
    pub fn created(&self) -> Now {
        self.created
    }

    /// The bucket of each hash value in a select group, among the `live` ones; empty if none can be selected.
    ///
    /// Each bucket wins a share of the values in proportion to its weight (rendezvous hashing). When a bucket is added
    /// or dies, only the values that it wins or had won get another bucket.
    pub(crate) fn slots(&self, live: &[usize]) -> Vec<u16> {
        let eligible: Vec<_> = live.iter().copied().filter(|i| self.buckets[*i].weight > 0).collect();
        let best = |slot: usize| {
            let mut best = *eligible.first()?;
            for &i in &eligible {
                best = if self.scores[i][slot] > self.scores[best][slot] { i } else { best };
            }
            Some(best as u16)
        };
        (0..SLOTS).filter_map(best).collect()
    }

    /// Groups that its buckets execute or watch.
    pub(super) fn next(&self) -> impl Iterator<Item = u32> {
        executed(&self.buckets).into_iter().chain(self.buckets.iter().filter_map(|bucket| bucket.watch_group))
    }
}

/// Groups that buckets execute.
pub(super) fn executed(buckets: &[Bucket]) -> Vec<u32> {
    let mut found = Vec::new();
    for bucket in buckets {
        visit(&bucket.actions, &mut |action| {
            if let Action::Group(id) = action {
                found.push(*id);
            }
        });
    }
    found
}

/// Memory of a group with these buckets, in bytes.
pub(super) fn memory(kind: GroupKind, buckets: &[Bucket]) -> usize {
    let scores = if kind == GroupKind::Select { size_of::<[f32; SLOTS]>() } else { 0 };
    let own = scores + size_of::<GroupCounter>();
    let bucket = |bucket: &Bucket| size_of::<Bucket>() + own + memory_of(&bucket.actions);
    size_of::<Group>() + buckets.iter().map(bucket).sum::<usize>()
}

fn memory_of(actions: &[Action]) -> usize {
    let boxed = |action: &Action| match action {
        Action::Controller(output) => size_of_val(&**output) + output.userdata.len(),
        Action::DecNwTtl(controllers) => size_of_val(&**controllers),
        Action::Learn(learn) => size_of_val(&**learn) + learn.specs.len() * size_of::<LearnSpec>(),
        Action::Ct(tracking) => size_of_val(&**tracking) + memory_of(&tracking.actions),
        Action::Clone(actions) => memory_of(actions),
        Action::Note(note) => note.len(),
        _ => 0,
    };
    actions.iter().map(|action| size_of::<Action>() + boxed(action)).sum()
}

/// Score of a bucket for a hash value: an exponential variable with the weight as its rate.
fn score(bucket: &Bucket, slot: u64, seed: u64) -> f32 {
    let hash = fold(fold(seed, slot << 32 | u64::from(bucket.id)), slot);
    let uniform = ((hash >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    (f64::from(bucket.weight) / -uniform.ln()) as f32
}
