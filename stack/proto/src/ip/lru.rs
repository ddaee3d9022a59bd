//! Order of use of the entries of a slab: a doubly linked list of their indices.
//!
//! It must not hold an index that its owner has not inserted, or hold one twice.

use alloc::vec::Vec;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Node {
    older: u32,
    newer: u32,
}

/// Indices in order of use.
pub(super) struct Lru {
    nodes: Vec<Node>,
    oldest: u32,
    newest: u32,
    len: u32,
}

impl Lru {
    pub(super) const fn new() -> Self {
        Self { nodes: Vec::new(), oldest: NONE, newest: NONE, len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    /// The index whose use is the longest time ago.
    pub(super) fn oldest(&self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    /// Appends an index as the newest one.
    pub(super) fn insert(&mut self, at: u32) {
        let needed = at as usize + 1;
        if self.nodes.len() < needed {
            self.nodes.resize(needed, Node { older: NONE, newer: NONE });
        }
        let older = core::mem::replace(&mut self.newest, at);
        self.link(at, Node { older, newer: NONE });
        match self.nodes.get_mut(older as usize) {
            Some(node) => node.newer = at,
            None => self.oldest = at,
        }
        self.len += 1;
    }

    fn link(&mut self, at: u32, node: Node) {
        if let Some(slot) = self.nodes.get_mut(at as usize) {
            *slot = node;
        }
    }

    /// Removes an inserted index.
    pub(super) fn remove(&mut self, at: u32) {
        let Some(&Node { older, newer }) = self.nodes.get(at as usize) else { return };
        match self.nodes.get_mut(older as usize) {
            Some(node) => node.newer = newer,
            None => self.oldest = newer,
        }
        match self.nodes.get_mut(newer as usize) {
            Some(node) => node.older = older,
            None => self.newest = older,
        }
        self.len -= 1;
    }

    /// Makes an inserted index the newest one.
    pub(super) fn touch(&mut self, at: u32) {
        if self.newest != at {
            self.remove(at);
            self.insert(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::prelude::v1::*;

    proptest! {
        #[test]
        fn order_is_that_of_a_list(script in prop::collection::vec((0_u8..3, 0_u32..12), 0..80)) {
            let (mut lru, mut model) = (Lru::new(), Vec::new());
            for (action, at) in script {
                let held = model.iter().position(|other| *other == at);
                match (action, held) {
                    (0, None) => {
                        lru.insert(at);
                        model.push(at);
                    }
                    (1, Some(place)) => {
                        lru.touch(at);
                        model.remove(place);
                        model.push(at);
                    }
                    (2, Some(place)) => {
                        lru.remove(at);
                        model.remove(place);
                    }
                    _ => {}
                }
                prop_assert_eq!((lru.oldest(), lru.len()), (model.first().copied(), model.len()));
            }
        }
    }
}
