//! Which client accepts a new connection, if several listen on one endpoint (Affinity-Accept, `EuroSys` 2012).
//!
//! Established connections wait here until a client takes them. Must not hold more than its capacity, and knows neither
//! the stack nor rings.

use std::collections::VecDeque;

/// Accept policy of a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AcceptPolicy {
    /// One queue: a connection goes to the first client that takes it.
    #[default]
    Locked,
    /// A queue for each client, filled in turn.
    RoundRobin,
    /// A queue for each client, filled by the hash of the connection's addresses and ports, so that one flow always
    /// reaches the same client. A client takes from its own queue first; one that is not busy steals from busy ones.
    OwnWithStealing,
}

/// A queue is busy when it is more than this part full, in percent.
const BUSY: usize = 75;
/// Number of own connections that a client takes for one stolen while others are busy.
const OWN_PER_STOLEN: u32 = 5;

#[derive(Debug)]
struct Member<T> {
    client: u32,
    queue: VecDeque<T>,
    /// Own connections taken since the last stolen one.
    own: u32,
}

/// Connections of one endpoint that wait for a client.
#[derive(Debug)]
pub(crate) struct AcceptQueues<T> {
    policy: AcceptPolicy,
    /// Maximum number of waiting connections of each queue.
    capacity: usize,
    members: Vec<Member<T>>,
    /// The only queue of [`AcceptPolicy::Locked`].
    shared: VecDeque<T>,
    next: usize,
}

impl<T> AcceptQueues<T> {
    pub(crate) fn new(policy: AcceptPolicy, capacity: usize) -> Self {
        Self { policy, capacity, members: Vec::new(), shared: VecDeque::new(), next: 0 }
    }

    /// Adds a client.
    pub(crate) fn join(&mut self, client: u32) {
        self.members.push(Member { client, queue: VecDeque::new(), own: 0 });
    }

    /// Removes a client. Its waiting connections pass to the others. Returns those that have no place: all, if it was
    /// the last client.
    pub(crate) fn leave(&mut self, client: u32) -> Vec<T> {
        let Some(at) = self.members.iter().position(|member| member.client == client) else {
            return Vec::new();
        };
        let queue = self.members.swap_remove(at).queue;
        if self.members.is_empty() {
            return self.shared.drain(..).chain(queue).collect();
        }
        (0..).zip(queue).filter_map(|(hash, item)| self.push(item, hash).err()).collect()
    }

    /// Adds a connection whose addresses and ports have this hash. Returns it if its queue is full.
    pub(crate) fn push(&mut self, item: T, hash: u64) -> Result<(), T> {
        let n = self.members.len() as u64;
        if n == 0 {
            return Err(item);
        }
        let queue = match self.policy {
            AcceptPolicy::Locked => &mut self.shared,
            AcceptPolicy::RoundRobin => {
                self.next = (self.next + 1) % n as usize;
                &mut self.members[self.next].queue
            }
            AcceptPolicy::OwnWithStealing => &mut self.members[(hash % n) as usize].queue,
        };
        if queue.len() >= self.capacity {
            return Err(item);
        }
        queue.push_back(item);
        Ok(())
    }

    /// The next connection for a client.
    pub(crate) fn take(&mut self, client: u32) -> Option<T> {
        let at = self.members.iter().position(|member| member.client == client)?;
        if self.policy != AcceptPolicy::OwnWithStealing {
            return self.shared.pop_front().or_else(|| self.members[at].queue.pop_front());
        }
        let own = &self.members[at];
        if !self.is_busy(own)
            && (own.queue.is_empty() || own.own >= OWN_PER_STOLEN)
            && let Some(stolen) = self.steal()
        {
            self.members[at].own = 0;
            return Some(stolen);
        }
        let own = &mut self.members[at];
        own.own = own.own.saturating_add(1);
        own.queue.pop_front()
    }

    fn is_busy(&self, member: &Member<T>) -> bool {
        member.queue.len() * 100 > self.capacity * BUSY
    }

    /// The oldest connection of the next busy client.
    fn steal(&mut self) -> Option<T> {
        let n = self.members.len();
        let busy = (0..n).map(|i| (self.next + i) % n).find(|&i| self.is_busy(&self.members[i]))?;
        self.next = (busy + 1) % n;
        self.members[busy].queue.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queues(policy: AcceptPolicy) -> AcceptQueues<u32> {
        let mut queues = AcceptQueues::new(policy, 8);
        (0..2).for_each(|client| queues.join(client));
        queues
    }

    #[test]
    fn locked_serves_clients_in_the_order_of_their_calls() {
        let mut queues = queues(AcceptPolicy::Locked);
        (0..8).for_each(|i| queues.push(i, 0).unwrap());
        assert_eq!(queues.push(8, 0), Err(8));
        assert_eq!([queues.take(1), queues.take(0), queues.take(1)], [Some(0), Some(1), Some(2)]);
        assert_eq!(queues.take(7), None, "no member");
    }

    #[test]
    fn round_robin_fills_the_queues_evenly() {
        let mut queues = queues(AcceptPolicy::RoundRobin);
        (0..16).for_each(|i| queues.push(i, 0).unwrap());
        assert!(queues.push(16, 0).is_err());
        let of = |queues: &mut AcceptQueues<u32>, client| std::iter::from_fn(|| queues.take(client)).count();
        assert_eq!((of(&mut queues, 0), of(&mut queues, 1)), (8, 8));
    }

    #[test]
    fn an_idle_client_steals_from_a_busy_one_only() {
        let mut queues = queues(AcceptPolicy::OwnWithStealing);
        (0..6).for_each(|i| queues.push(i, 0).unwrap());
        assert_eq!(queues.take(1), None, "six of eight are not more than 75 %");
        queues.push(6, 0).unwrap();
        assert_eq!((queues.take(1), queues.take(1)), (Some(0), None));
        assert_eq!(queues.take(0), Some(1));
    }

    #[test]
    fn a_client_takes_five_own_connections_for_one_stolen() {
        let mut queues = queues(AcceptPolicy::OwnWithStealing);
        let mut stolen = Vec::new();
        for round in 0..30 {
            while queues.push(100, 0).is_ok() {}
            queues.push(round, 1).unwrap();
            if queues.take(1) == Some(100) {
                stolen.push(round);
                queues.take(1);
            }
        }
        assert_eq!(stolen, [5, 10, 15, 20, 25]);
    }

    #[test]
    fn connections_of_a_client_that_leaves_pass_to_the_others() {
        for policy in [AcceptPolicy::Locked, AcceptPolicy::RoundRobin, AcceptPolicy::OwnWithStealing] {
            let mut queues = queues(policy);
            (0..6).for_each(|i| queues.push(i, i.into()).unwrap());
            assert!(queues.leave(0).is_empty());
            assert_eq!(std::iter::from_fn(|| queues.take(1)).count(), 6, "{policy:?}");
            queues.push(9, 0).unwrap();
            assert_eq!((queues.leave(1), queues.leave(1)), (vec![9], vec![]));
            assert_eq!(queues.push(1, 0), Err(1), "no client listens");
        }
    }
}
