//! The masks of a table's flows, and the subtable that has the flows of each.

use super::mask::Mask;
use crate::key::Key;
use crate::tables::radix::Radix;
use std::sync::Arc;

/// A mask of flows.
#[derive(Clone)]
pub(super) struct Member {
    pub(super) mask: Arc<Mask>,
    /// Mask of the subtable.
    pub(super) subtable: Arc<Mask>,
    flows: u32,
}

/// Masks, by their numbers.
#[derive(Clone, Default)]
pub(super) struct Masks(Radix<Member>);

impl Masks {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn get(&self, mask: &Key) -> Option<&Member> {
        self.find(Mask::number(mask), mask)
    }

    /// Mask of the subtable that has the flows with `mask`.
    pub(super) fn subtable(&self, mask: &Mask) -> Option<&Arc<Mask>> {
        self.find(mask.number, mask.full()).map(|member| &member.subtable)
    }

    /// The masks of the flows of a subtable.
    pub(super) fn of<'a>(&'a self, subtable: &'a Arc<Mask>) -> impl Iterator<Item = &'a Arc<Mask>> {
        let members = self.0.iter().filter(move |member| Arc::ptr_eq(&member.subtable, subtable));
        members.map(|member| &member.mask)
    }

    fn find(&self, number: u64, mask: &Key) -> Option<&Member> {
        self.0.get(number).find(|member| member.mask.full() == mask)
    }

    /// Adds a flow with `mask` in `subtable`.
    pub(super) fn add(&mut self, mask: &Arc<Mask>, subtable: &Arc<Mask>) {
        if let Some(member) = self.member(mask) {
            member.flows += 1;
            return;
        }
        let member = Member { mask: mask.clone(), subtable: subtable.clone(), flows: 1 };
        self.0.insert(mask.number, member);
    }

    /// Removes a flow with `mask`.
    pub(super) fn remove(&mut self, mask: &Arc<Mask>) {
        let Some(member) = self.member(mask) else { return };
        member.flows -= 1;
        if member.flows == 0 {
            self.0.remove(mask.number, |member| member.mask.full() == mask.full());
        }
    }

    /// Notes that the flows of a subtable whose masks contain that of another one are there now.
    pub(super) fn move_all(&mut self, from: &Arc<Mask>, to: &Arc<Mask>) {
        let moved = self.of(from).filter(|mask| mask.contains(to.full()));
        for mask in moved.cloned().collect::<Vec<_>>() {
            self.member(&mask).into_iter().for_each(|member| member.subtable = to.clone());
        }
    }

    fn member(&mut self, mask: &Arc<Mask>) -> Option<&mut Member> {
        self.0.get_mut(mask.number, |member| member.mask.full() == mask.full())
    }
}
