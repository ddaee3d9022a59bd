//! Doubly linked lists whose nodes are in one slab, so that a list takes no memory of its own and an operation no
//! allocation once the slab has grown to the load.

use slab::Slab;

const NONE: u32 = u32::MAX;

#[derive(Debug)]
struct Node<T> {
    value: T,
    previous: u32,
    next: u32,
}

/// Nodes of any number of lists.
#[derive(Debug)]
pub(crate) struct Nodes<T>(Slab<Node<T>>);

/// First and last node of a list. Each call must pass the [`Nodes`] to which the list belongs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    head: u32,
    tail: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { head: NONE, tail: NONE }
    }
}

impl List {
    pub(crate) const fn is_empty(self) -> bool {
        self.head == NONE
    }

    /// Number of the first node.
    pub(crate) fn first(self) -> Option<u32> {
        (self.head != NONE).then_some(self.head)
    }
}

impl<T> Nodes<T> {
    pub(crate) const fn new() -> Self {
        Self(Slab::new())
    }

    pub(crate) fn get(&self, at: u32) -> Option<&T> {
        self.0.get(at as usize).map(|node| &node.value)
    }

    pub(crate) fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.0.get_mut(at as usize).map(|node| &mut node.value)
    }

    /// Appends a value. Returns the number of its node.
    #[inline]
    pub(crate) fn push(&mut self, list: &mut List, value: T) -> u32 {
        let at = self.0.insert(Node { value, previous: NONE, next: NONE }) as u32;
        self.append(list, at);
        at
    }

    /// Appends a node that is in no list.
    #[inline]
    pub(crate) fn append(&mut self, list: &mut List, at: u32) {
        if let Some(node) = self.0.get_mut(at as usize) {
            (node.previous, node.next) = (list.tail, NONE);
        }
        match self.0.get_mut(list.tail as usize) {
            Some(last) => last.next = at,
            None => list.head = at,
        }
        list.tail = at;
    }

    /// Takes a node out of the list that holds it. The node is not removed.
    #[inline]
    pub(crate) fn unlink(&mut self, list: &mut List, at: u32) {
        let Some(&Node { previous, next, .. }) = self.0.get(at as usize) else { return };
        match self.0.get_mut(previous as usize) {
            Some(node) => node.next = next,
            None => list.head = next,
        }
        match self.0.get_mut(next as usize) {
            Some(node) => node.previous = previous,
            None => list.tail = previous,
        }
    }

    /// Removes a node that is in no list.
    pub(crate) fn remove(&mut self, at: u32) -> Option<T> {
        self.0.try_remove(at as usize).map(|node| node.value)
    }

    /// Removes the first node.
    #[inline]
    pub(crate) fn pop(&mut self, list: &mut List) -> Option<T> {
        let at = list.first()?;
        self.unlink(list, at);
        self.remove(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_move_between_lists_in_order() {
        let (mut nodes, mut one, mut other) = (Nodes::new(), List::default(), List::default());
        let all: Vec<u32> = (0..4).map(|i| nodes.push(&mut one, i)).collect();
        for at in [all[1], all[3], all[0]] {
            nodes.unlink(&mut one, at);
            nodes.append(&mut other, at);
        }
        assert_eq!((nodes.pop(&mut one), nodes.pop(&mut one)), (Some(2), None));
        let moved: Vec<i32> = std::iter::from_fn(|| nodes.pop(&mut other)).collect();
        assert_eq!((moved, one.is_empty(), other.is_empty()), (vec![1, 3, 0], true, true));
        assert!(nodes.0.is_empty());
    }
}
