//! A persistent map: clones share their nodes, and a change copies the nodes on its path that are shared.
//!
//! Keys are 64-bit hashes or ordered numbers; several values may have the same key. Crates with persistent maps find a
//! value by an equal key only; here a packet's hash and a predicate find it, so that no key is stored or built.

use mem::line::prefetch_read;
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// Bits of the key that select a child.
const BITS: u32 = 4;
/// Children of a branch.
const FANOUT: usize = 1 << BITS;
/// Values of a leaf with different keys; more split it. Most memory of a map with smaller leaves is in nodes: with 8,
/// the leaves of 10^6 values have one or two.
const LEAF: usize = 24;
/// Keys that [`Radix::warm`] takes at once: about as many lines as a core loads at a time.
pub(crate) const WARMED: usize = 16;

/// Values of a leaf in the node itself: most leaves of a large map have one or two.
const IN_NODE: usize = 2;
type Leaf<T> = SmallVec<[(u64, T); IN_NODE]>;

#[derive(Clone)]
enum Node<T> {
    Empty,
    Leaf(Arc<Leaf<T>>),
    Branch(Arc<[Self; FANOUT]>),
}

/// Map from `u64` to any number of values.
#[derive(Clone)]
pub(crate) struct Radix<T> {
    root: Node<T>,
    len: usize,
}

/// Values of one key.
pub(crate) struct OfKey<'a, T> {
    leaf: std::slice::Iter<'a, (u64, T)>,
    key: u64,
}

impl<T> Clone for OfKey<'_, T> {
    fn clone(&self) -> Self {
        Self { leaf: self.leaf.clone(), key: self.key }
    }
}

impl<'a, T> Iterator for OfKey<'a, T> {
    type Item = &'a T;

    #[inline]
    fn next(&mut self) -> Option<&'a T> {
        let key = self.key;
        self.leaf.find(|(other, _)| *other == key).map(|(_, value)| value)
    }
}

impl<T> Default for Radix<T> {
    fn default() -> Self {
        Self { root: Node::Empty, len: 0 }
    }
}

impl<T> Radix<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Values of `key`.
    #[inline]
    pub(crate) fn get(&self, key: u64) -> OfKey<'_, T> {
        let (mut node, mut path) = (&self.root, key);
        while let Node::Branch(children) = node {
            node = &children[child(path)];
            path <<= BITS;
        }
        let leaf: &[(u64, T)] = if let Node::Leaf(leaf) = node { leaf } else { &[] };
        OfKey { leaf: leaf.iter(), key }
    }

    /// Loads the values of at most [`WARMED`] keys into the cache, with one step for all keys before the next one, so
    /// that the processor waits for several lines at a time. Passes each value, with the number of its key, to `found`.
    pub(crate) fn warm<'a>(&'a self, keys: &[u64], mut found: impl FnMut(usize, &'a T)) {
        let mut nodes = [&self.root; WARMED];
        let nodes = &mut nodes[..keys.len()];
        let mut depth = 0;
        while descend(nodes, keys, depth) {
            depth += 1;
        }
        let leaves = || nodes.iter().enumerate().filter_map(|(at, node)| Some((at, node.leaf()?)));
        for (_, leaf) in leaves() {
            let start = Arc::as_ptr(leaf).cast::<u8>();
            prefetch_read(start);
            prefetch_read(start.wrapping_add(size_of::<Leaf<T>>() - 1));
        }
        leaves().for_each(|(_, leaf)| prefetch_read(leaf.as_ptr().cast()));
        for (at, leaf) in leaves() {
            let same = leaf.iter().filter(|(key, _)| *key == keys[at]);
            same.for_each(|(_, value)| found(at, value));
        }
    }

    /// All values, by ascending 4-bit prefixes of the key; unordered within a leaf.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        Iter { nodes: vec![std::slice::from_ref(&self.root).iter()], leaf: [].iter() }
    }

    /// Entry with the highest key.
    pub(crate) fn last(&self) -> Option<(u64, &T)> {
        let leaf = self.outer(|children| children.iter().rev().find(|node| !node.is_empty()))?;
        leaf.iter().max_by_key(|(key, _)| *key).map(|(key, value)| (*key, value))
    }

    /// Entry with the lowest key.
    pub(crate) fn first(&self) -> Option<(u64, &T)> {
        let leaf = self.outer(|children| children.iter().find(|node| !node.is_empty()))?;
        leaf.iter().min_by_key(|(key, _)| *key).map(|(key, value)| (*key, value))
    }

    fn outer(&self, next: impl Fn(&[Node<T>; FANOUT]) -> Option<&Node<T>>) -> Option<&[(u64, T)]> {
        let mut node = &self.root;
        loop {
            match node {
                Node::Empty => return None,
                Node::Leaf(leaf) => return Some(leaf),
                Node::Branch(children) => node = next(children)?,
            }
        }
    }
}

impl<T: Clone> Radix<T> {
    /// Adds a value.
    pub(crate) fn insert(&mut self, key: u64, value: T) {
        self.root.insert(0, key, value);
        self.len += 1;
    }

    /// Removes a value of `key` that satisfies `is`.
    pub(crate) fn remove(&mut self, key: u64, is: impl Fn(&T) -> bool) -> Option<T> {
        self.get(key).find(|value| is(value))?;
        let removed = self.root.remove(key, key, &is);
        self.len -= usize::from(removed.is_some());
        removed
    }

    /// A value of `key` that satisfies `is`, for changes.
    pub(crate) fn get_mut(&mut self, key: u64, is: impl Fn(&T) -> bool) -> Option<&mut T> {
        self.get(key).find(|value| is(value))?;
        let (mut node, mut path) = (&mut self.root, key);
        loop {
            match node {
                Node::Empty => return None,
                Node::Branch(children) => node = &mut Arc::make_mut(children)[child(path)],
                Node::Leaf(leaf) => {
                    let mut entries = Arc::make_mut(leaf).iter_mut();
                    return entries.find(|(other, value)| *other == key && is(value)).map(|(_, value)| value);
                }
            }
            path <<= BITS;
        }
    }
}

/// Replaces each branch by the child for its key, which it prefetches. Returns whether there was one.
fn descend<T>(nodes: &mut [&Node<T>], keys: &[u64], depth: u32) -> bool {
    let mut is_deeper = false;
    for (node, key) in nodes.iter_mut().zip(keys) {
        if let Node::Branch(children) = node {
            *node = &children[child(key << (depth * BITS))];
            prefetch_read(std::ptr::from_ref(*node).cast());
            is_deeper = true;
        }
    }
    is_deeper
}

impl<T> Node<T> {
    fn leaf(&self) -> Option<&Arc<Leaf<T>>> {
        if let Self::Leaf(leaf) = self { Some(leaf) } else { None }
    }

    fn is_empty(&self) -> bool {
        matches!(self, Self::Empty)
    }
}

impl<T: Clone> Node<T> {
    fn insert(&mut self, depth: u32, key: u64, value: T) {
        match self {
            Self::Empty => *self = Self::Leaf(Arc::new(smallvec![(key, value)])),
            Self::Branch(children) => {
                Arc::make_mut(children)[child(key << (depth * BITS))].insert(depth + 1, key, value);
            }
            Self::Leaf(leaf) if leaf.len() < LEAF || leaf.iter().all(|(other, _)| *other == key) => {
                let leaf = Arc::make_mut(leaf);
                // Leaves have few values, so that room for more would cost much of what they do.
                leaf.reserve_exact(1);
                leaf.push((key, value));
            }
            Self::Leaf(leaf) => {
                let entries = std::mem::take(Arc::make_mut(leaf));
                *self = Self::Branch(Arc::new(std::array::from_fn(|_| Self::Empty)));
                for (key, value) in entries.into_iter().chain([(key, value)]) {
                    self.insert(depth, key, value);
                }
            }
        }
    }

    fn remove(&mut self, path: u64, key: u64, is: &impl Fn(&T) -> bool) -> Option<T> {
        let (removed, empty) = match self {
            Self::Empty => return None,
            Self::Branch(children) => {
                let children = Arc::make_mut(children);
                let removed = children[child(path)].remove(path << BITS, key, is);
                (removed, children.iter().all(Self::is_empty))
            }
            Self::Leaf(leaf) => {
                let leaf = Arc::make_mut(leaf);
                let found = leaf.iter().position(|(other, value)| *other == key && is(value));
                (found.map(|found| leaf.swap_remove(found).1), leaf.is_empty())
            }
        };
        if empty {
            *self = Self::Empty;
        }
        removed
    }
}

fn child(path: u64) -> usize {
    (path >> (64 - BITS)) as usize
}

struct Iter<'a, T> {
    nodes: Vec<std::slice::Iter<'a, Node<T>>>,
    leaf: std::slice::Iter<'a, (u64, T)>,
}

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        loop {
            if let Some((_, value)) = self.leaf.next() {
                return Some(value);
            }
            match self.nodes.last_mut()?.next() {
                None => _ = self.nodes.pop(),
                Some(Node::Empty) => {}
                Some(Node::Leaf(leaf)) => self.leaf = leaf.iter(),
                Some(Node::Branch(children)) => self.nodes.push(children.iter()),
            }
        }
    }
}

/// A persistent multiset of `u64`.
#[derive(Clone, Default)]
pub(crate) struct Counts(Radix<u32>);

impl Counts {
    #[inline]
    pub(crate) fn contains(&self, key: u64) -> bool {
        self.0.get(key).next().is_some()
    }

    pub(crate) fn count(&self, key: u64) -> u32 {
        self.0.get(key).next().copied().unwrap_or(0)
    }

    pub(crate) fn max(&self) -> Option<u64> {
        self.0.last().map(|(key, _)| key)
    }

    pub(crate) fn add(&mut self, key: u64) {
        match self.0.get_mut(key, |_| true) {
            Some(count) => *count += 1,
            None => self.0.insert(key, 1),
        }
    }

    pub(crate) fn remove(&mut self, key: u64) {
        let Some(count) = self.0.get_mut(key, |_| true) else { return };
        *count -= 1;
        if *count == 0 {
            self.0.remove(key, |_| true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn content(map: &Radix<u8>) -> Vec<u8> {
        let mut all: Vec<_> = map.iter().copied().collect();
        all.sort_unstable();
        all
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn behaves_like_a_map_and_clones_keep_their_content(
            steps in prop::collection::vec((any::<bool>(), 0..24_u64, any::<u8>()), 1..200),
        ) {
            let (mut map, mut model) = (Radix::default(), BTreeMap::<u64, Vec<u8>>::new());
            for (insert, key, value) in steps {
                let key = key << if key % 2 == 0 { 60 } else { 0 };
                let (before, copy) = (content(&map), map.clone());
                if insert {
                    map.insert(key, value);
                    model.entry(key).or_default().push(value);
                } else {
                    let values = model.entry(key).or_default();
                    let position = values.iter().position(|other| *other % 2 == value % 2);
                    let removed = map.remove(key, |other| other % 2 == value % 2);
                    prop_assert_eq!(removed.is_some(), position.is_some());
                    if let Some(removed) = removed {
                        values.swap_remove(values.iter().position(|other| *other == removed).unwrap());
                    }
                    if values.is_empty() {
                        model.remove(&key);
                    }
                }
                prop_assert_eq!(content(&copy), before);
                prop_assert_eq!(map.len(), model.values().map(Vec::len).sum::<usize>());
                prop_assert_eq!(map.last().map(|(key, _)| key), model.keys().next_back().copied());
                prop_assert_eq!(map.first().map(|(key, _)| key), model.keys().next().copied());
                prop_assert_eq!(map.get(key).count(), model.get(&key).map_or(0, Vec::len));
                let (keys, mut warmed) = ([key, 7, key], [0; 3]);
                map.warm(&keys, |at, _| warmed[at] += 1);
                prop_assert_eq!(warmed, keys.map(|key| map.get(key).count()));
            }
        }
    }

    #[test]
    fn counts_keep_the_highest_key() {
        let mut counts = Counts::default();
        for key in [3_u64, 5, 5] {
            counts.add(key << 48);
        }
        counts.remove(5 << 48);
        assert_eq!(counts.max(), Some(5 << 48));
        counts.remove(5 << 48);
        assert_eq!((counts.max(), counts.contains(5 << 48)), (Some(3 << 48), false));
    }
}
