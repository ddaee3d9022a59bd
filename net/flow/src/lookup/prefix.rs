//! A persistent trie of prefixes: which lengths match a value, and how many of its bits exclude the others.

use std::sync::Arc;

/// Prefixes of a leaf; more split it.
const LEAF: usize = 24;
const FANOUT: usize = 16;

/// Values with prefixes.
pub(super) trait Bits: Copy + Eq {
    const WIDTH: u32;
    /// Number of leading bits in which the values agree.
    fn common(self, other: Self) -> u32;
    /// The `depth`th 4 bits from the top.
    fn nibble(self, depth: u32) -> usize;
}

impl Bits for u32 {
    const WIDTH: u32 = 32;

    fn common(self, other: Self) -> u32 {
        (self ^ other).leading_zeros()
    }

    fn nibble(self, depth: u32) -> usize {
        (self >> (28 - depth * 4)) as usize & 15
    }
}

impl Bits for u128 {
    const WIDTH: u32 = 128;

    fn common(self, other: Self) -> u32 {
        (self ^ other).leading_zeros()
    }

    fn nibble(self, depth: u32) -> usize {
        (self >> (124 - depth * 4)) as usize & 15
    }
}

#[derive(Clone, Copy)]
struct Prefix<V> {
    value: V,
    len: u8,
    count: u32,
}

#[derive(Clone)]
enum Node<V> {
    Empty,
    Leaf(Arc<Vec<Prefix<V>>>),
    Branch(Arc<Branch<V>>),
}

#[derive(Clone)]
struct Branch<V> {
    /// Prefixes that end in the four bits of this branch.
    own: Vec<Prefix<V>>,
    children: [Node<V>; FANOUT],
}

/// Result of a lookup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lengths {
    /// Bit `n - 1` is set if a prefix of length `n` matches.
    matching: u128,
    /// Number of leading bits that exclude all prefixes that do not match.
    pub(super) excluding: u32,
}

impl Lengths {
    pub(super) fn contains(self, len: u8) -> bool {
        self.matching >> (len - 1) & 1 == 1
    }

    /// Whether a prefix matches whose length is one of `lengths`, a mask as the field `matching`.
    pub(super) fn contains_any(self, lengths: u128) -> bool {
        self.matching & lengths != 0
    }

    fn add<V: Bits>(&mut self, value: V, prefix: &Prefix<V>) {
        let common = value.common(prefix.value);
        if common >= u32::from(prefix.len) {
            self.matching |= 1 << (prefix.len - 1);
        } else {
            self.excluding = self.excluding.max(common + 1);
        }
    }
}

/// A multiset of prefixes of at least one bit.
#[derive(Clone)]
pub(super) struct PrefixTrie<V>(Node<V>);

impl<V> Default for PrefixTrie<V> {
    fn default() -> Self {
        Self(Node::Empty)
    }
}

impl<V: Bits> PrefixTrie<V> {
    pub(super) fn insert(&mut self, value: V, len: u8) {
        self.0.insert(0, Prefix { value, len, count: 1 });
    }

    pub(super) fn remove(&mut self, value: V, len: u8) {
        self.0.remove(0, value, len);
    }

    pub(super) fn lookup(&self, value: V) -> Lengths {
        let (mut node, mut depth, mut found) = (&self.0, 0, Lengths::default());
        loop {
            match node {
                Node::Empty => return found,
                Node::Leaf(leaf) => {
                    leaf.iter().for_each(|prefix| found.add(value, prefix));
                    return found;
                }
                Node::Branch(branch) => {
                    branch.own.iter().for_each(|prefix| found.add(value, prefix));
                    let nibble = value.nibble(depth);
                    let others = (0..FANOUT).filter(|i| *i != nibble && !branch.children[*i].is_empty());
                    let common = others.map(|i| ((i ^ nibble) as u8).leading_zeros() - 4).max();
                    let excluding = common.map_or(0, |common| depth * 4 + common + 1);
                    found.excluding = found.excluding.max(excluding);
                    (node, depth) = (&branch.children[nibble], depth + 1);
                }
            }
        }
    }
}

impl<V> Node<V> {
    fn is_empty(&self) -> bool {
        matches!(self, Self::Empty)
    }
}

impl<V: Bits> Node<V> {
    fn insert(&mut self, depth: u32, prefix: Prefix<V>) {
        match self {
            Self::Empty => *self = Self::Leaf(Arc::new(vec![prefix])),
            Self::Branch(branch) => Arc::make_mut(branch).insert(depth, prefix),
            Self::Leaf(leaf) => {
                let leaf = Arc::make_mut(leaf);
                add(leaf, prefix);
                if leaf.len() <= LEAF {
                    return;
                }
                let mut branch = Branch { own: Vec::new(), children: std::array::from_fn(|_| Self::Empty) };
                leaf.drain(..).for_each(|prefix| branch.insert(depth, prefix));
                *self = Self::Branch(Arc::new(branch));
            }
        }
    }

    fn remove(&mut self, depth: u32, value: V, len: u8) {
        let empty = match self {
            Self::Empty => return,
            Self::Leaf(leaf) => {
                let leaf = Arc::make_mut(leaf);
                take(leaf, value, len);
                leaf.is_empty()
            }
            Self::Branch(branch) => {
                let branch = Arc::make_mut(branch);
                if ends_here(depth, len) {
                    take(&mut branch.own, value, len);
                } else {
                    branch.children[value.nibble(depth)].remove(depth + 1, value, len);
                }
                branch.own.is_empty() && branch.children.iter().all(Self::is_empty)
            }
        };
        if empty {
            *self = Self::Empty;
        }
    }
}

impl<V: Bits> Branch<V> {
    fn insert(&mut self, depth: u32, prefix: Prefix<V>) {
        if ends_here(depth, prefix.len) {
            add(&mut self.own, prefix);
        } else {
            self.children[prefix.value.nibble(depth)].insert(depth + 1, prefix);
        }
    }
}

/// Whether a prefix does not contain all bits of a branch at `depth`.
fn ends_here(depth: u32, len: u8) -> bool {
    u32::from(len) < depth * 4 + 4
}

fn add<V: Bits>(prefixes: &mut Vec<Prefix<V>>, new: Prefix<V>) {
    let same = prefixes.iter_mut().find(|prefix| prefix.value == new.value && prefix.len == new.len);
    if let Some(prefix) = same {
        prefix.count += new.count;
        return;
    }
    prefixes.reserve_exact(1);
    prefixes.push(new);
}

fn take<V: Bits>(prefixes: &mut Vec<Prefix<V>>, value: V, len: u8) {
    let Some(i) = prefixes.iter().position(|prefix| prefix.value == value && prefix.len == len) else {
        return;
    };
    prefixes[i].count -= 1;
    if prefixes[i].count == 0 {
        prefixes.swap_remove(i);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn lookups_agree_with_a_scan(
            prefixes in prop::collection::vec((any::<u32>(), 0..8_u32, 1..=32_u8), 0..60),
            removed in 0..60_usize,
            value in any::<u32>(),
        ) {
            // Few high bits vary, so that prefixes overlap.
            let narrow = |value: u32, kept: u32| value >> kept << kept & 0xf0ff_000f;
            let mut prefixes: Vec<_> = prefixes
                .into_iter()
                .map(|(value, kept, len)| (narrow(value, kept) & u32::MAX << (32 - u32::from(len)), len))
                .collect();
            let mut trie = PrefixTrie::default();
            for (value, len) in &prefixes {
                trie.insert(*value, *len);
            }
            let gone = prefixes.len().min(removed);
            prefixes.drain(..gone).for_each(|(value, len)| trie.remove(value, len));
            let value = narrow(value, 0);
            let mut expected = Lengths::default();
            for (prefix, len) in &prefixes {
                expected.add(value, &Prefix { value: *prefix, len: *len, count: 1 });
            }
            prop_assert_eq!(trie.lookup(value), expected);
            if prefixes.is_empty() {
                prop_assert!(trie.0.is_empty());
            }
        }
    }

    #[test]
    fn one_prefix_is_excluded_by_the_first_bit_that_differs() {
        let mut trie = PrefixTrie::default();
        trie.insert(0x0a00_0000_u32, 8);
        let other = trie.lookup(0xc0a8_0101);
        assert!(!other.contains(8));
        assert_eq!(other.excluding, 1);
        let same = trie.lookup(0x0a01_0203);
        assert!(same.contains(8));
        assert_eq!(same.excluding, 0);
    }
}
