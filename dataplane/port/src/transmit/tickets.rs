//! Order of work done by several workers at once on one ring.
//!
//! Protocol: three steps per burst, the first and the last under a lock held by the caller. First, a worker reserves
//! buffers and a ticket ([`Tickets::reserve`]). Second, without the lock, it fills the buffers and puts the entries
//! to post into a batch; buffers of different tickets never overlap. Third, it returns both ([`Tickets::deliver`]).
//! With the oldest open ticket, its batch is posted, followed by the batches of all consecutive tickets already
//! returned, so the ring receives entries in reservation order. No lock is taken per packet, none is held while
//! copying, and no worker waits for another worker's copy.
//!
//! Each ticket must be returned: an open ticket delays all later ones. A worker that has reserved nothing, or fails
//! before it fills anything, returns its ticket with an empty batch. This module does not lock and is independent of
//! the type of entries. It does not allocate once the maximum number of open tickets and the maximum batch length
//! have been reached.

use std::collections::VecDeque;

/// Position in the order of posting; consumed by [`Tickets::deliver`].
#[derive(Debug)]
#[must_use = "a ticket that is not given back holds back all behind it"]
pub(crate) struct Ticket(u64);

/// Batchs of entries to post, by ticket.
#[derive(Debug)]
pub(crate) struct Tickets<P> {
    /// Oldest first; `None` while the ticket is open.
    batches: VecDeque<Option<Vec<P>>>,
    /// Number of the ticket at the front of `batches`.
    oldest: u64,
    spare: Vec<Vec<P>>,
}

impl<P> Tickets<P> {
    pub(crate) fn new() -> Self {
        Self { batches: VecDeque::new(), oldest: 0, spare: Vec::new() }
    }

    /// Reserves the next ticket.
    pub(crate) fn reserve(&mut self) -> Ticket {
        let ticket = Ticket(self.oldest + self.batches.len() as u64);
        self.batches.push_back(None);
        ticket
    }

    /// Number of tickets that are open or wait for an older one.
    #[cfg(test)]
    pub(super) fn open(&self) -> usize {
        self.batches.len()
    }

    /// Returns a ticket with its batch, which is empty afterwards, and posts all batches that no longer wait for an
    /// older ticket.
    pub(crate) fn deliver(&mut self, Ticket(number): Ticket, batch: &mut Vec<P>, mut post: impl FnMut(&[P])) {
        if number == self.oldest {
            self.batches.pop_front();
            self.oldest += 1;
            post(batch);
            batch.clear();
        } else {
            let empty = self.spare.pop().unwrap_or_default();
            self.batches[(number - self.oldest) as usize] = Some(std::mem::replace(batch, empty));
        }
        while let Some(mut batch) = self.batches.front_mut().and_then(Option::take) {
            self.batches.pop_front();
            self.oldest += 1;
            post(&batch);
            batch.clear();
            self.spare.push(batch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns `ticket` with `batch`. Returns the entries posted by this.
    fn deliver(tickets: &mut Tickets<u32>, ticket: Ticket, mut batch: Vec<u32>) -> Vec<u32> {
        let mut posted = vec![];
        tickets.deliver(ticket, &mut batch, |p| posted.extend_from_slice(p));
        assert!(batch.is_empty());
        posted
    }

    #[test]
    fn in_order_tickets_post_at_once() {
        let mut tickets = Tickets::new();
        for n in 0..5 {
            let ticket = tickets.reserve();
            assert_eq!(deliver(&mut tickets, ticket, vec![n, n + 100]), [n, n + 100]);
        }
    }

    #[test]
    fn out_of_order_ticket_waits_for_older_ones() {
        let mut tickets = Tickets::new();
        let [first, second, third] = [(); 3].map(|()| tickets.reserve());
        assert!(deliver(&mut tickets, third, vec![5, 6]).is_empty());
        assert_eq!(deliver(&mut tickets, first, vec![1, 2]), [1, 2]);
        // A ticket reserved while another waits is behind it.
        let fourth = tickets.reserve();
        assert!(deliver(&mut tickets, fourth, vec![7]).is_empty());
        assert_eq!(deliver(&mut tickets, second, vec![3, 4]), [3, 4, 5, 6, 7]);
    }

    #[test]
    fn abandoned_ticket_does_not_block_later_ones() {
        let mut tickets = Tickets::new();
        let (abandoned, next) = (tickets.reserve(), tickets.reserve());
        assert!(deliver(&mut tickets, next, vec![1]).is_empty());
        assert_eq!(deliver(&mut tickets, abandoned, vec![]), [1]);
        let last = tickets.reserve();
        assert_eq!(deliver(&mut tickets, last, vec![2]), [2]);
    }

    #[test]
    fn steady_state_does_not_allocate() {
        let mut tickets = Tickets::new();
        let mut batches = [(); 3].map(|()| vec![]);
        let mut round = |n: u32| {
            let open: Vec<_> = batches.iter_mut().map(|batch| (tickets.reserve(), batch)).collect();
            for (ticket, batch) in open.into_iter().rev() {
                batch.extend(0..n);
                tickets.deliver(ticket, batch, |_| {});
            }
            let places =
                |batches: &[Vec<u32>]| batches.iter().map(|p| (p.as_ptr(), p.capacity())).collect::<Vec<_>>();
            let mut all = [places(&batches), places(&tickets.spare)].concat();
            all.sort_unstable();
            (all, tickets.batches.capacity(), tickets.spare.capacity())
        };
        // Until every list has been used as a batch.
        let at_first = (0..6).map(|_| round(64)).last();
        for n in (0..=64).rev() {
            assert_eq!(Some(round(n)), at_first);
        }
    }

    proptest! {
        #[test]
        fn tickets_post_in_reservation_order(indices in prop::collection::vec(0_usize..8, 0..200)) {
            let (mut tickets, mut open, mut posted, mut taken) = (Tickets::new(), vec![], vec![], 0);
            for pick in indices {
                if open.len() <= pick {
                    open.push((tickets.reserve(), (taken..taken + pick).collect::<Vec<_>>()));
                    taken += pick;
                } else {
                    let (ticket, mut batch) = open.swap_remove(pick);
                    tickets.deliver(ticket, &mut batch, |p| posted.extend_from_slice(p));
                }
            }
            for (ticket, mut batch) in open {
                tickets.deliver(ticket, &mut batch, |p| posted.extend_from_slice(p));
            }
            prop_assert_eq!(posted, (0..taken).collect::<Vec<_>>());
        }
    }
}
