//! Changes of groups (OpenFlow 1.3.5, 7.3.4.3; OpenFlow 1.5.1 for single buckets).

use super::apply::{Changes, RemovedReason};
use super::error::{ActionError, GroupModError};
use super::flow::Flow;
use super::group::{Group, executed, memory};
use super::log::Change;
use super::radix::Counts;
use super::snapshot::Tables;
use super::{limits, validate};
use crate::action::Bucket;
use crate::modify::{BucketPlace, GroupCommand, GroupKind, GroupMod};
use port::Now;
use std::collections::BTreeSet;
use std::sync::Arc;

/// All groups; in deletions only.
const ALL: u32 = 0xffff_fffc;
/// Highest number of a group.
const MAX: u32 = 0xffff_ff00;

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
        let old = self.group(change.id).cloned();
        match (change.command, old) {
            (GroupCommand::Add, Some(_)) => Err(GroupModError::Exists(change.id)),
            (GroupCommand::Add, None) if self.groups.len() >= limits::GROUPS => {
                Err(GroupModError::OutOfGroups)
            }
            (GroupCommand::Add, None) => self.put_group(change, None, now),
            (GroupCommand::Delete, _) if change.id == ALL => Ok(self.delete_all_groups()),
            (GroupCommand::Delete, old) => self.delete_group(old.as_deref()),
            (_, None) => Err(GroupModError::Unknown(change.id)),
            (GroupCommand::Modify, Some(old)) => self.put_group(change, Some(&old), now),
            (GroupCommand::InsertBuckets(at), Some(old)) => {
                self.put_group(&with_buckets(&old, inserted(&old, &change.buckets, at)?), Some(&old), now)
            }
            (GroupCommand::RemoveBuckets(at), Some(old)) => {
                self.put_group(&with_buckets(&old, without(&old, at)?), Some(&old), now)
            }
        }
    }

    fn put_group(
        &mut self,
        change: &GroupMod,
        old: Option<&Group>,
        now: Now,
    ) -> Result<Changes, GroupModError> {
        self.validate_group(change)?;
        let before = old.map_or(0, |old| memory(old.kind(), old.buckets()));
        let bytes = self.group_bytes - before + memory(change.kind, &change.buckets);
        if bytes > limits::GROUP_BYTES {
            return Err(GroupModError::OutOfBuckets(change.id));
        }
        let group = Group::new(change, old, self.seed, now);
        if let Some(old) = old {
            self.take_group(old);
        }
        self.group_bytes = bytes;
        self.count_chained(group.buckets(), Counts::add);
        self.groups.insert(self.number_key(change.id), Arc::new(group));
        self.log.add(Change::Group(change.id));
        Ok(Changes::default())
    }

    fn validate_group(&mut self, change: &GroupMod) -> Result<(), GroupModError> {
        let invalid = |why| Err(GroupModError::Invalid(change.id, why));
        if change.id > MAX {
            return invalid("numbers above 0xffffff00 are reserved");
        }
        if change.buckets.len() > limits::BUCKETS {
            return Err(GroupModError::OutOfBuckets(change.id));
        }
        let ids: BTreeSet<_> = change.buckets.iter().map(|bucket| bucket.id).collect();
        if ids.len() < change.buckets.len() {
            return Err(GroupModError::BucketExists(change.id));
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
        if self.leads_to(executed(&change.buckets).into_iter().chain(watched).collect(), change.id) {
            return Err(GroupModError::Loop(change.id));
        }
        Ok(())
    }

    /// Whether one of the groups `next` executes or watches group `to`, or too many groups follow each other. Visits
    /// each group once for each length of a chain that leads to it.
    fn leads_to(&mut self, mut next: BTreeSet<u32>, to: u32) -> bool {
        for _ in 0..limits::CHAIN {
            if next.is_empty() || next.contains(&to) {
                break;
            }
            let groups: Vec<_> = next.iter().filter_map(|id| self.group(*id)).cloned().collect();
            self.work += next.len() + groups.iter().map(|group| group.buckets().len()).sum::<usize>();
            next = groups.iter().flat_map(|group| group.next()).collect();
        }
        !next.is_empty()
    }

    fn delete_group(&mut self, old: Option<&Group>) -> Result<Changes, GroupModError> {
        let Some(old) = old else { return Ok(Changes::default()) };
        let id = old.id();
        if self.uses.contains(self.chained_key(id)) {
            return Err(GroupModError::Chained(id));
        }
        self.take_group(old);
        self.log.add(Change::Group(id));
        let mut changes = Changes::default();
        if self.group_users(id) > 0 {
            self.remove_users(|flow| flow.has_group(id), RemovedReason::GroupDelete, &mut changes);
        }
        Ok(changes)
    }

    fn delete_all_groups(&mut self) -> Changes {
        let (mut changes, groups): (_, Vec<_>) = (Changes::default(), self.groups.iter().cloned().collect());
        self.work += groups.len();
        for group in &groups {
            self.take_group(group);
            self.log.add(Change::Group(group.id()));
        }
        if !groups.is_empty() {
            self.remove_users(Flow::has_any_group, RemovedReason::GroupDelete, &mut changes);
        }
        changes
    }

    fn take_group(&mut self, group: &Group) {
        self.groups.remove(self.number_key(group.id()), |other| other.id() == group.id());
        self.group_bytes -= memory(group.kind(), group.buckets());
        self.count_chained(group.buckets(), Counts::remove);
    }

    /// Counts the groups that buckets execute, and the options that their actions use.
    fn count_chained(&mut self, buckets: &[Bucket], change: fn(&mut Counts, u64)) {
        for id in executed(buckets) {
            let key = self.chained_key(id);
            change(&mut self.uses, key);
        }
        for bucket in buckets {
            self.count_set_options(&bucket.actions, change);
        }
    }
}

fn with_buckets(group: &Group, buckets: Vec<Bucket>) -> GroupMod {
    GroupMod { command: GroupCommand::Modify, kind: group.kind(), id: group.id(), buckets }
}

fn position(group: &Group, id: u32) -> Result<usize, GroupModError> {
    let found = group.buckets().iter().position(|bucket| bucket.id == id);
    found.ok_or(GroupModError::UnknownBucket(group.id(), id))
}

/// The buckets of a group with `new` ones.
fn inserted(group: &Group, new: &[Bucket], at: BucketPlace) -> Result<Vec<Bucket>, GroupModError> {
    let old = group.buckets();
    let at = match at {
        BucketPlace::First => 0,
        BucketPlace::Last => old.len(),
        BucketPlace::Bucket(id) => position(group, id)? + 1,
        BucketPlace::All => {
            return Err(GroupModError::Invalid(group.id(), "buckets are inserted at one place"));
        }
    };
    Ok([&old[..at], new, &old[at..]].concat())
}

/// The buckets of a group that remain.
fn without(group: &Group, at: BucketPlace) -> Result<Vec<Bucket>, GroupModError> {
    let mut buckets = group.buckets().to_vec();
    match at {
        BucketPlace::All => buckets.clear(),
        BucketPlace::First if !buckets.is_empty() => drop(buckets.remove(0)),
        BucketPlace::First | BucketPlace::Last => drop(buckets.pop()),
        BucketPlace::Bucket(id) => drop(buckets.remove(position(group, id)?)),
    }
    Ok(buckets)
}
