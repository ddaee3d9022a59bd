//! Packets that wait, in lists over one table of fixed size.
//!
//! The table is allocated once; adding and removing packets allocates nothing.

/// No entry.
const NONE: u32 = u32::MAX;

struct Entry<T> {
    item: Option<T>,
    next: u32,
}

/// Entries of all lists.
pub(crate) struct Store<T> {
    entries: Box<[Entry<T>]>,
    free: u32,
}

impl<T> Store<T> {
    /// A table of `most` entries.
    pub(crate) fn new(most: u32) -> Self {
        let next = |i| if i + 1 < most { i + 1 } else { NONE };
        let entries = (0..most).map(|i| Entry { item: None, next: next(i) }).collect();
        Self { entries, free: if most > 0 { 0 } else { NONE } }
    }

    /// Whether an entry is free.
    pub(crate) fn has_room(&self) -> bool {
        self.free != NONE
    }
}

/// A list in a [`Store`], first in, first out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    first: u32,
    last: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { first: NONE, last: NONE }
    }
}

impl List {
    /// Appends an item. Returns it if the table is full.
    pub(crate) fn push<T>(&mut self, store: &mut Store<T>, item: T) -> Option<T> {
        let at = store.free;
        let Some(entry) = store.entries.get_mut(at as usize) else { return Some(item) };
        store.free = std::mem::replace(&mut entry.next, NONE);
        entry.item = Some(item);
        match store.entries.get_mut(self.last as usize) {
            Some(last) => last.next = at,
            None => self.first = at,
        }
        self.last = at;
        None
    }

    /// Removes the first item.
    pub(crate) fn pop<T>(&mut self, store: &mut Store<T>) -> Option<T> {
        let at = self.first;
        let entry = store.entries.get_mut(at as usize)?;
        let item = entry.item.take();
        self.first = std::mem::replace(&mut entry.next, store.free);
        store.free = at;
        if self.first == NONE {
            self.last = NONE;
        }
        item
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn lists_are_queues_over_one_table(steps in prop::collection::vec((0usize..3, any::<bool>()), 1..300)) {
            let (mut store, mut lists) = (Store::new(20), [List::default(); 3]);
            let mut models: [VecDeque<usize>; 3] = Default::default();
            for (number, (list, adds)) in steps.into_iter().enumerate() {
                let used: usize = models.iter().map(VecDeque::len).sum();
                prop_assert_eq!(store.has_room(), used < 20);
                if !adds {
                    prop_assert_eq!(lists[list].pop(&mut store), models[list].pop_front());
                } else if used < 20 {
                    prop_assert_eq!(lists[list].push(&mut store, number), None);
                    models[list].push_back(number);
                } else {
                    prop_assert_eq!(lists[list].push(&mut store, number), Some(number));
                }
            }
        }
    }
}
