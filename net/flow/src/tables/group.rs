//! Groups (OpenFlow 1.3.5, 5.6 and 7.3.4.3).

use super::apply::{Changes, RemovedReason};
use super::error::{ActionError, GroupModError};
use super::flow::visit;
use super::log::Change;
use super::snapshot::Tables;
use super::{limits, validate};
use crate::action::{Action, Bucket};
use crate::lookup::fold;
use crate::modify::{GroupCommand, GroupKind, GroupMod};
use port::Now;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// All groups; in deletions only.
const ALL: u32 = 0xffff_fffc;
/// Highest number of a group.
const MAX: u32 = 0xffff_ff00;
/// Hash values that a select group distinguishes.
pub(crate) const SLOTS: usize = 256;

/// A group.
pub struct Group {
    id: u32,
    kind: GroupKind,
    buckets: Vec<Bucket>,
    /// Scores of each bucket of a select group for each hash value.
    scores: Vec<[f32; SLOTS]>,
    created: Now,
    packets: AtomicU64,
    bytes: AtomicU64,
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
    fn new(change: &GroupMod, seed: u64, created: Now) -> Self {
        let scores = |bucket: &Bucket| std::array::from_fn(|slot| score(bucket, slot as u64, seed));
        let select = change.kind == GroupKind::Select;
        Self {
            id: change.id,
            kind: change.kind,
            buckets: change.buckets.clone(),
            scores: if select { change.buckets.iter().map(scores).collect() } else { Vec::new() },
            created,
            packets: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
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

    /// Adds packets and bytes.
    pub fn count(&self, packets: u64, bytes: u64) {
        self.packets.fetch_add(packets, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Packets and bytes.
    pub fn counts(&self) -> (u64, u64) {
        (self.packets.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
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

    /// Groups that its buckets execute.
    fn next(&self) -> impl Iterator<Item = u32> {
        groups(&self.buckets)
    }
}

fn groups(buckets: &[Bucket]) -> impl Iterator<Item = u32> {
    let mut found = Vec::new();
    for bucket in buckets {
        visit(&bucket.actions, &mut |action| {
            if let Action::Group(id) = action {
                found.push(*id);
            }
        });
    }
    found.into_iter()
}

/// Score of a bucket for a hash value: an exponential variable with the weight as its rate.
fn score(bucket: &Bucket, slot: u64, seed: u64) -> f32 {
    let hash = fold(fold(seed, slot << 32 | u64::from(bucket.id)), slot);
    let uniform = ((hash >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    (f64::from(bucket.weight) / -uniform.ln()) as f32
}

impl Tables {
    /// Changes groups. A deletion also removes the flows that execute them.
    ///
    /// # Errors
    /// If the change is not valid. Nothing is changed then.
    pub fn apply_group(&mut self, change: &GroupMod) -> Result<Changes, GroupModError> {
        self.apply_group_at(change, Now::default())
    }

    /// As [`Tables::apply_group`], with the time of the change.
    ///
    /// # Errors
    /// If the change is not valid. Nothing is changed then.
    pub fn apply_group_at(&mut self, change: &GroupMod, now: Now) -> Result<Changes, GroupModError> {
        match change.command {
            GroupCommand::Add if self.group(change.id).is_some() => Err(GroupModError::Exists(change.id)),
            GroupCommand::Add if self.groups.len() >= limits::GROUPS => Err(GroupModError::OutOfGroups),
            GroupCommand::Modify if self.group(change.id).is_none() => Err(GroupModError::Unknown(change.id)),
            GroupCommand::Add | GroupCommand::Modify => self.put_group(change, now),
            GroupCommand::Delete if change.id == ALL => Ok(self.delete_all_groups()),
            GroupCommand::Delete => self.delete_group(change.id),
        }
    }

    fn put_group(&mut self, change: &GroupMod, now: Now) -> Result<Changes, GroupModError> {
        self.validate_group(change)?;
        let old = self.take_group(change.id);
        let created = old.as_ref().map_or(now, |old| old.created);
        let group = Group::new(change, self.seed, created);
        if let Some(old) = old {
            group.count(old.counts().0, old.counts().1);
        }
        self.groups.insert(self.number_key(change.id), Arc::new(group));
        self.log.add(Change::Group(change.id));
        Ok(Changes::default())
    }

    fn validate_group(&self, change: &GroupMod) -> Result<(), GroupModError> {
        let invalid = |why| Err(GroupModError::Invalid(change.id, why));
        if change.id > MAX {
            return invalid("numbers above 0xffffff00 are reserved");
        }
        if change.buckets.len() > limits::BUCKETS {
            return Err(GroupModError::OutOfBuckets(change.id));
        }
        if change.kind == GroupKind::Indirect && change.buckets.len() != 1 {
            return invalid("an indirect group has exactly one bucket");
        }
        let unwatched = |bucket: &Bucket| bucket.watch_port.is_none() && bucket.watch_group.is_none();
        if change.kind == GroupKind::FastFailover && change.buckets.iter().any(unwatched) {
            return invalid("each bucket of a fast failover group watches a port or a group");
        }
        for bucket in &change.buckets {
            if let Some(id) = bucket.watch_group.filter(|id| self.group(*id).is_none() && *id != change.id) {
                return Err(ActionError::OutGroup(id).into());
            }
            validate::bucket(self, change.id, &bucket.actions)?;
        }
        let watched = change.buckets.iter().filter_map(|bucket| bucket.watch_group);
        let mut next = groups(&change.buckets).chain(watched);
        if next.any(|id| self.leads_to(id, change.id, limits::CHAIN)) {
            return Err(GroupModError::Loop(change.id));
        }
        Ok(())
    }

    /// Whether group `from` executes or watches group `to`, or more than `depth` groups follow each other.
    fn leads_to(&self, from: u32, to: u32, depth: usize) -> bool {
        if from == to || depth == 0 {
            return true;
        }
        self.group(from).is_some_and(|group| {
            let watched = group.buckets.iter().filter_map(|bucket| bucket.watch_group);
            group.next().chain(watched).any(|next| self.leads_to(next, to, depth - 1))
        })
    }

    fn delete_group(&mut self, id: u32) -> Result<Changes, GroupModError> {
        if self.groups.iter().any(|group| group.next().any(|next| next == id)) {
            return Err(GroupModError::Chained(id));
        }
        let mut changes = Changes::default();
        if self.take_group(id).is_some() {
            self.remove_users(id, RemovedReason::GroupDelete, &mut changes);
            self.log.add(Change::Group(id));
        }
        Ok(changes)
    }

    fn delete_all_groups(&mut self) -> Changes {
        let (mut changes, ids): (_, Vec<_>) =
            (Changes::default(), self.groups.iter().map(|group| group.id).collect());
        for id in ids {
            self.take_group(id);
            self.remove_users(id, RemovedReason::GroupDelete, &mut changes);
            self.log.add(Change::Group(id));
        }
        changes
    }

    fn take_group(&mut self, id: u32) -> Option<Arc<Group>> {
        self.groups.remove(self.number_key(id), |group| group.id == id)
    }
}
