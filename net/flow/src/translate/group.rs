//! Groups.

use super::Environment;
use super::operation::{Operation, SelectedBucket, Selection, Site, select_slot};
use super::pipeline::{Progress, Translator};
use super::record::{Event, Recorder};
use super::set::ActionSet;
use crate::action::Bucket;
use crate::key::Key;
use crate::modify::{GroupKind, PortNo};
use crate::tables::Group;

impl<E: Environment, R: Recorder> Translator<'_, E, R> {
    pub(super) fn group(&mut self, id: u32, site: Site) -> Progress {
        self.result.groups.push(id);
        let Some(group) = self.tables.group(id).cloned() else { return self.no_bucket() };
        self.result.counters.push(group.counter().clone());
        let mut positions = 0..group.buckets().len();
        match group.kind() {
            GroupKind::All | GroupKind::Indirect => {
                positions.try_for_each(|at| self.bucket(&group, at, site))
            }
            GroupKind::FastFailover => match positions.find(|at| self.is_live(&group.buckets()[*at], 0)) {
                Some(live) => self.bucket(&group, live, site),
                None => self.no_bucket(),
            },
            GroupKind::Select => self.select(&group, site),
        }
    }

    fn no_bucket(&mut self) -> Progress {
        self.recorded(|_| Event::NoBucket, |_| Ok(()))
    }

    fn bucket(&mut self, group: &Group, position: usize, site: Site) -> Progress {
        let actions = list(&group.buckets()[position]);
        self.result.counters.extend(group.bucket_counter(position).cloned());
        let event = |_: &Key| Event::Bucket { position, is_selected: true };
        self.recorded(event, |this| this.on_copy(|copy| copy.actions(&actions, site)))
    }

    fn select(&mut self, group: &Group, site: Site) -> Progress {
        let all = group.buckets();
        let live: Vec<_> = (0..all.len()).filter(|i| self.is_live(&all[*i], 0)).collect();
        let slots = group.slots(&live);
        if slots.is_empty() {
            return self.no_bucket();
        }
        self.commit()?;
        let (mut buckets, mut positions) = (Vec::new(), vec![0; all.len()]);
        for &i in live.iter().filter(|i| slots.contains(&(**i as u16))) {
            let actions = list(&all[i]);
            positions[i] = buckets.len() as u16;
            let selected = |key: &Key| usize::from(slots[select_slot(key) % slots.len()]);
            let event = |key: &Key| Event::Bucket { position: i, is_selected: selected(key) == i };
            let found = self.recorded(event, |this| this.scope(|copy| copy.actions(&actions, site)));
            let (operations, counter) = (found?.into_boxed_slice(), group.bucket_counter(i).cloned());
            buckets.push(SelectedBucket { operations, counter: counter.unwrap_or_default() });
        }
        let slots = slots.into_iter().map(|i| positions[usize::from(i)]).collect();
        self.emit(Operation::Select(Box::new(Selection { group: group.id(), slots, buckets })))
    }

    /// Whether a bucket can be used: it watches nothing, or something live (OpenFlow 1.3.5, 6.5).
    fn is_live(&mut self, bucket: &Bucket, depth: usize) -> bool {
        if bucket.watch_port.is_none() && bucket.watch_group.is_none() {
            return true;
        }
        self.result.live = true;
        let port = bucket.watch_port.is_some_and(|port| self.port_is_live(port));
        port || bucket.watch_group.is_some_and(|id| self.group_is_live(id, depth))
    }

    fn port_is_live(&self, port: PortNo) -> bool {
        port != PortNo::ANY && self.environment.is_live(port)
    }

    fn group_is_live(&mut self, id: u32, depth: usize) -> bool {
        self.result.groups.push(id);
        let Some(group) = self.tables.group(id).cloned() else { return false };
        let deep = depth >= crate::tables::limits::CHAIN;
        !deep && group.buckets().iter().any(|bucket| self.is_live(bucket, depth + 1))
    }
}

/// The actions of a bucket, in the order of execution.
fn list(bucket: &Bucket) -> Vec<crate::action::Action> {
    let mut set = ActionSet::default();
    set.write(&bucket.actions);
    set.into_list()
}
