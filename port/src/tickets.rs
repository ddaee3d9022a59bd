//! The order of work that several workers do at once on one ring.
//!
//! Protocol, three steps a burst, the first and the last under a lock that the user holds. First a worker takes what
//! it is going to fill, and a ticket with an empty parcel ([`Tickets::reserve`]). Then, without the lock, it fills and
//! puts what is to be posted into the parcel; what different tickets took never overlaps. Last it gives both back
//! ([`Tickets::deliver`]), and whoever gives back the oldest open ticket posts its parcel and those of all tickets
//! behind it that are back already, so the ring sees the order in which things were taken. No lock is taken per
//! packet, none is held while copying, and nobody waits for another worker's copy.
//!
//! Each ticket must be given back: one that is not holds back all behind it for ever. A worker that has taken nothing,
//! or fails before it has filled anything, gives its ticket back with an empty parcel. Nothing here locks or knows what
//! is posted, and nothing allocates once there were as many open tickets, and parcels as long, as there will be.

use std::collections::VecDeque;

/// A place in the order. There is one of each, and giving it back uses it up.
#[derive(Debug)]
#[must_use = "a ticket that is not given back holds back all behind it"]
pub(crate) struct Ticket(u64);

/// Parcels of what is to be posted, by ticket.
#[derive(Debug)]
pub(crate) struct Tickets<P> {
    /// Oldest first; `None` while the ticket is out.
    parcels: VecDeque<Option<Vec<P>>>,
    /// The ticket at the front of `parcels`.
    oldest: u64,
    spare: Vec<Vec<P>>,
}

impl<P> Tickets<P> {
    pub(crate) fn new() -> Self {
        Self { parcels: VecDeque::new(), oldest: 0, spare: Vec::new() }
    }

    /// The next ticket, and an empty parcel.
    pub(crate) fn reserve(&mut self) -> (Ticket, Vec<P>) {
        let ticket = Ticket(self.oldest + self.parcels.len() as u64);
        self.parcels.push_back(None);
        (ticket, self.spare.pop().unwrap_or_default())
    }

    /// Tickets that are out, or wait for one that is.
    #[cfg(test)]
    pub(crate) fn open(&self) -> usize {
        self.parcels.len()
    }

    /// Takes a ticket back, and posts what does not wait for an older one any more.
    pub(crate) fn deliver(&mut self, Ticket(number): Ticket, parcel: Vec<P>, mut post: impl FnMut(P)) {
        let at = (number - self.oldest) as usize;
        self.parcels[at] = Some(parcel);
        while let Some(mut parcel) = self.parcels.front_mut().and_then(Option::take) {
            self.parcels.pop_front();
            self.oldest += 1;
            parcel.drain(..).for_each(&mut post);
            self.spare.push(parcel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Gives `ticket` back with `parcel`; what was posted then.
    fn deliver(tickets: &mut Tickets<u32>, ticket: Ticket, parcel: Vec<u32>) -> Vec<u32> {
        let mut posted = vec![];
        tickets.deliver(ticket, parcel, |p| posted.push(p));
        posted
    }

    #[test]
    fn in_order_each_parcel_is_posted_at_once() {
        let mut tickets = Tickets::new();
        for n in 0..5 {
            let (ticket, parcel) = tickets.reserve();
            assert!(parcel.is_empty());
            assert_eq!(deliver(&mut tickets, ticket, vec![n, n + 100]), [n, n + 100]);
        }
    }

    #[test]
    fn a_ticket_out_of_order_waits_for_the_older_ones() {
        let mut tickets = Tickets::new();
        let [(first, _), (second, _), (third, _)] = [(); 3].map(|()| tickets.reserve());
        assert!(deliver(&mut tickets, third, vec![5, 6]).is_empty());
        assert_eq!(deliver(&mut tickets, first, vec![1, 2]), [1, 2]);
        // A ticket that is taken while another waits stands behind it.
        let (fourth, _) = tickets.reserve();
        assert!(deliver(&mut tickets, fourth, vec![7]).is_empty());
        assert_eq!(deliver(&mut tickets, second, vec![3, 4]), [3, 4, 5, 6, 7]);
    }

    #[test]
    fn an_abandoned_ticket_lets_those_behind_it_pass() {
        let mut tickets = Tickets::new();
        let (abandoned, empty) = tickets.reserve();
        let (next, _) = tickets.reserve();
        assert!(deliver(&mut tickets, next, vec![1]).is_empty());
        assert_eq!(deliver(&mut tickets, abandoned, empty), [1]);
        let (last, _) = tickets.reserve();
        assert_eq!(deliver(&mut tickets, last, vec![2]), [2]);
    }

    #[test]
    fn in_the_steady_state_nothing_is_allocated() {
        let mut tickets = Tickets::new();
        let mut round = |n: u32| {
            let mut open: Vec<_> = (0..3).map(|_| tickets.reserve()).collect();
            for (_, parcel) in &mut open {
                parcel.extend(0..n);
            }
            let mut places: Vec<_> = open.iter().map(|(_, p)| (p.as_ptr(), p.capacity())).collect();
            for (ticket, parcel) in open.into_iter().rev() {
                tickets.deliver(ticket, parcel, |_| {});
            }
            places.sort_unstable();
            (places, tickets.parcels.capacity(), tickets.spare.capacity())
        };
        let at_first = round(64);
        for n in (0..=64).rev() {
            assert_eq!(round(n), at_first);
        }
    }

    proptest! {
        #[test]
        fn whatever_the_order_everything_is_posted_as_it_was_taken(picks in prop::collection::vec(0_usize..8, 0..200)) {
            let (mut tickets, mut open, mut posted, mut taken) = (Tickets::new(), vec![], vec![], 0);
            for pick in picks {
                if open.len() <= pick {
                    let (ticket, mut parcel) = tickets.reserve();
                    parcel.extend(taken..taken + pick);
                    taken += pick;
                    open.push((ticket, parcel));
                } else {
                    let (ticket, parcel) = open.swap_remove(pick);
                    tickets.deliver(ticket, parcel, |p| posted.push(p));
                }
            }
            for (ticket, parcel) in open {
                tickets.deliver(ticket, parcel, |p| posted.push(p));
            }
            prop_assert_eq!(posted, (0..taken).collect::<Vec<_>>());
        }
    }
}
