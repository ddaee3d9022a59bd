//! XPS: the transmit queues of one port on one worker, and the choice of a queue for each packet.
//!
//! The hash of a flow selects a worker. Among the port's pairs, the flow uses one whose receive queue that worker
//! serves, so that replies arrive at the same worker; if there is none, the hash selects among all pairs. The control
//! thread sends the map of receive queues, which takes effect at a burst boundary.

use crate::command::{Generation, XpsMap};
use port::{Capabilities, Now, TxQueue};

/// A transmit queue with its identity and capabilities.
pub(crate) struct TxSlot {
    pub(crate) pair: u16,
    pub(crate) generation: Generation,
    pub(crate) queue: Box<dyn TxQueue>,
    pub(crate) capabilities: Capabilities,
}

/// The transmit queues of one port, sorted by pair.
#[derive(Default)]
pub(crate) struct TxSlots {
    pub(crate) queues: Vec<TxSlot>,
    pub(crate) dirty: bool,
    /// Recent cost of a packet on this port in units of work, beyond the cost of packets and bytes. A receiver may
    /// split its buffers into a thousand pieces, whose cost is known only afterwards.
    pub(crate) rough: u64,
    /// Behind a handoff queue: a full queue is not waited for before this time, because a previous wait timed out.
    pub(crate) no_wait_before: Now,
    xps: XpsQueues,
}

impl TxSlots {
    /// Adds a queue. `xps_map` has the workers of the port's receive queues, among `workers` workers.
    pub(crate) fn add(&mut self, slot: TxSlot, xps_map: XpsMap, workers: usize) {
        let at = self.queues.partition_point(|other| other.pair < slot.pair);
        self.queues.insert(at, slot);
        self.set_xps_map(xps_map, workers);
    }

    /// Replaces the map of the port's receive queues.
    pub(crate) fn set_xps_map(&mut self, xps_map: XpsMap, workers: usize) {
        (self.xps.xps_map, self.xps.workers) = (xps_map, workers);
        self.lay();
    }

    /// Removes the queue at index `at`.
    pub(crate) fn take(&mut self, at: usize) -> TxSlot {
        let slot = self.queues.remove(at);
        self.lay();
        slot
    }

    fn lay(&mut self) {
        let pairs: Vec<u16> = self.queues.iter().map(|slot| slot.pair).collect();
        self.xps.lay(&pairs);
    }

    /// Index of the queue for a packet with this flow hash, received on pair `from`. Requires at least one queue.
    #[inline]
    pub(crate) fn choose(&self, hash: Option<u32>, from: u16) -> usize {
        match hash {
            Some(hash) => self.xps.choose(hash as usize),
            None => usize::from(from) % self.queues.len(),
        }
    }
}

/// Queue indices by the worker that receives the replies.
#[derive(Debug, Default)]
struct XpsQueues {
    xps_map: XpsMap,
    workers: usize,
    /// By worker; all queue indices for a worker without any.
    places: Vec<Vec<usize>>,
}

impl XpsQueues {
    fn lay(&mut self, pairs: &[u16]) {
        let worker_of = |pair: u16| {
            let pair = usize::from(pair);
            self.xps_map.get(pair).map_or(pair % self.workers, |at| usize::from(*at))
        };
        let of = |worker| -> Vec<usize> {
            let own = (0..pairs.len()).filter(|&at| worker_of(pairs[at]) == worker).collect::<Vec<_>>();
            if own.is_empty() { (0..pairs.len()).collect() } else { own }
        };
        self.places = (0..self.workers).map(of).collect();
    }

    #[inline]
    fn choose(&self, hash: usize) -> usize {
        let own = &self.places[hash % self.workers];
        own[hash / self.workers % own.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn xps(home: usize, workers: usize, pairs: &[u16]) -> XpsQueues {
        let xps_map = (0..8).map(|pair| ((home + pair) % workers) as u16).collect();
        let mut xps = XpsQueues { xps_map, workers, places: vec![] };
        xps.lay(pairs);
        xps
    }

    #[test]
    fn flow_maps_to_one_worker_at_every_output() {
        for workers in 1..5 {
            let (one, other) = (xps(0, workers, &[0, 1, 2, 3, 4]), xps(3 % workers, workers, &[0, 1, 2, 3]));
            for hash in 0..100 {
                let answered = |xps: &XpsQueues| xps.xps_map[xps.choose(hash)];
                assert_eq!(answered(&one), answered(&other), "hash {hash}, {workers} workers");
            }
        }
    }

    #[test]
    fn flow_follows_its_moved_receive_queue() {
        let mut xps = xps(0, 2, &[0, 1]);
        assert_eq!((xps.choose(0), xps.choose(1)), (0, 1));
        xps.xps_map = [1, 0].into();
        xps.lay(&[0, 1]);
        assert_eq!((xps.choose(0), xps.choose(1)), (1, 0));
        xps.xps_map = [1, 1].into();
        xps.lay(&[0, 1]);
        let all: Vec<_> = (0..8).map(|hash| xps.choose(hash)).collect();
        assert!(all.contains(&0) && all.contains(&1), "a worker without any uses all: {all:?}");
    }

    #[test]
    fn every_queue_gets_flows_with_more_workers_or_gaps() {
        for (workers, pairs) in
            [(1, &[0_u16, 1, 2][..]), (2, &[0, 1, 2, 3, 4]), (4, &[0, 1]), (2, &[0, 2, 4]), (3, &[5])]
        {
            let xps = xps(1 % workers, workers, pairs);
            for place in 0..pairs.len() {
                assert!((0..1000).any(|hash| xps.choose(hash) == place), "{workers} workers, {pairs:?}");
            }
        }
    }
}
