//! Requests without a complete reply, in one pool that all connections share.
//!
//! The requests of a connection are a circular list in order of sending; the connection has the number of the last one.
//! So an idle connection needs four bytes, and a request sixteen.

use stack::Time;

/// Number of no request.
pub(super) const NONE: u32 = u32::MAX;

/// A request without a complete reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// Time at which the request was due.
    pub(super) due: Time,
    /// Expected reply, in the encoding of the workload.
    pub(super) tag: u32,
    /// The next request of the connection, or the next free entry.
    next: u32,
}

/// The pool.
#[derive(Debug)]
pub(super) struct Pending {
    entries: Vec<Request>,
    free: u32,
    len: usize,
}

impl Default for Pending {
    fn default() -> Self {
        Self { entries: Vec::new(), free: NONE, len: 0 }
    }
}

impl Pending {
    /// Number of requests.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of the pool.
    pub(super) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Request>()
    }

    /// Adds a request behind the one with number `last`, which becomes the number of the new one.
    #[inline]
    pub(super) fn push(&mut self, last: &mut u32, due: Time, tag: u32) {
        let at = self.free;
        let at = if at == NONE {
            self.entries.push(Request { due, tag, next: NONE });
            self.entries.len() as u32 - 1
        } else {
            self.free = self.entries[at as usize].next;
            at
        };
        let first = if *last == NONE { at } else { self.entries[*last as usize].next };
        self.entries[at as usize] = Request { due, tag, next: first };
        if *last != NONE {
            self.entries[*last as usize].next = at;
        }
        *last = at;
        self.len += 1;
    }

    /// The oldest request of the list that ends with `last`.
    #[inline]
    pub(super) fn first(&self, last: u32) -> Option<&Request> {
        self.entries.get(last as usize).and_then(|entry| self.entries.get(entry.next as usize))
    }

    /// The requests of the list that ends with `last`, in order.
    pub(super) fn list(&self, last: u32) -> impl Iterator<Item = &Request> {
        let entry = |at: u32| self.entries.get(at as usize).map(|entry| (at, entry));
        let first = self.entries.get(last as usize).and_then(|entry_of_last| entry(entry_of_last.next));
        let next = move |(at, request): &(u32, &Request)| entry(request.next).filter(|_| *at != last);
        std::iter::successors(first, next).map(|(_, request)| request)
    }

    /// Removes the oldest request of a list.
    #[inline]
    pub(super) fn pop(&mut self, last: &mut u32) -> Option<Request> {
        let first = self.entries.get(*last as usize)?.next;
        let request = *self.entries.get(first as usize)?;
        if first == *last {
            *last = NONE;
        } else {
            self.entries[*last as usize].next = request.next;
        }
        self.entries[first as usize].next = self.free;
        self.free = first;
        self.len -= 1;
        Some(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[test]
    fn a_request_needs_sixteen_bytes() {
        assert_eq!(size_of::<Request>(), 16);
    }

    proptest! {
        #[test]
        fn pending_lists_behave_as_queues(steps in prop::collection::vec((0..4_usize, any::<bool>()), 0..200)) {
            let (mut pending, mut lists, mut queues) = (Pending::default(), [NONE; 4], [const { VecDeque::new() }; 4]);
            for (n, (list, push)) in steps.into_iter().enumerate() {
                if push {
                    pending.push(&mut lists[list], Time(n as u64), n as u32);
                    queues[list].push_back(n as u32);
                } else {
                    prop_assert_eq!(pending.first(lists[list]).map(|r| r.tag), queues[list].front().copied());
                    prop_assert_eq!(pending.pop(&mut lists[list]).map(|r| r.tag), queues[list].pop_front());
                }
            }
            prop_assert_eq!(pending.len(), queues.iter().map(VecDeque::len).sum::<usize>());
        }
    }
}
