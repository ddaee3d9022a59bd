//! Pipeline of an Rx stage: selects the worker of each packet, that is, the handoff queue that it leaves through.
//!
//! An indirection table with many more entries than workers maps hashes to workers, as in a NIC, so that the shares
//! of workers are even.

use crate::model::Order;
use port::{Burst, Context, EditId, Pipeline, PortId, Rss, Steering, Verdicts};

/// Number of table entries; NICs have at least as many.
const ENTRIES: usize = 128;

/// Distributes packets over workers.
pub(crate) struct Distributor {
    order: Order,
    steering: Steering,
    workers: Box<[PortId]>,
    table: [PortId; ENTRIES],
    turn: usize,
}

impl Distributor {
    /// Distributes over the workers behind these handoff queues; at least one.
    pub(crate) fn new(order: Order, rss: Rss, workers: &[PortId]) -> Self {
        let table = std::array::from_fn(|i| workers[i % workers.len()]);
        Self { order, steering: Steering::new(rss), workers: workers.into(), table, turn: 0 }
    }

    /// The worker of a packet's flow; that of its input port if it has no flow.
    #[inline]
    fn worker(&self, burst: &mut Burst, i: usize, from: PortId) -> PortId {
        let hash = burst.rss_hash(i, &self.steering).unwrap_or(u32::from(from.0));
        self.table[entry(hash)]
    }
}

/// Table index of a hash. Toeplitz is linear: consecutive addresses differ in few bits of the hash, which a
/// multiplication spreads over all bits (Knuth, The Art of Computer Programming 6.4, multiplicative hashing).
#[inline]
fn entry(hash: u32) -> usize {
    (hash.wrapping_mul(0x9e37_79b1) >> (u32::BITS - ENTRIES.ilog2())) as usize
}

impl Pipeline for Distributor {
    fn process(&mut self, burst: &mut Burst, context: &Context, verdicts: &mut Verdicts) {
        let whole = match self.order {
            // A single worker has every flow.
            Order::Flow if self.workers.len() == 1 => 0,
            Order::Flow => {
                for i in 0..burst.len() {
                    verdicts.emit(i, self.worker(burst, i, context.from), EditId::NONE);
                }
                return;
            }
            Order::Port => usize::from(context.from.0) % self.workers.len(),
            Order::None => {
                self.turn = (self.turn + 1) % self.workers.len();
                self.turn
            }
        };
        verdicts.emit_run(0..burst.len(), self.workers[whole], EditId::NONE);
    }

    fn needs_heads(&self) -> bool {
        self.order == Order::Flow && self.workers.len() > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn udp(source: u8) -> Vec<u8> {
        let mut frame = vec![2; 12];
        frame.extend([8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, source, 10, 0, 1, 1]);
        frame.extend([0, 1, 0, 2, 0, 26, 0, 0]);
        frame.resize(60, 0);
        frame
    }

    fn rss(distributor: &mut Distributor, from: u16, frames: impl Iterator<Item = Vec<u8>>) -> Vec<usize> {
        let (mut burst, mut out) = (Burst::new(), Verdicts::new(16));
        burst.begin(0);
        frames.for_each(|frame| assert!(burst.push_own(&frame)));
        let context = Context::received(PortId(from), burst.now());
        distributor.process(&mut burst, &context, &mut out);
        let mut at = vec![usize::MAX; burst.len()];
        for batch in out.batches() {
            for i in batch.indices().as_slice() {
                at[usize::from(*i)] = batch.port().0.into();
            }
        }
        at
    }

    #[test]
    fn flows_keep_their_worker_and_use_all_workers() {
        let mut distributor = Distributor::new(Order::Flow, Rss::Symmetric, &[0, 1, 2].map(PortId));
        let first = rss(&mut distributor, 0, (0..64).map(udp));
        assert_eq!(first, rss(&mut distributor, 5, (0..64).map(udp)), "independent of the receiving port");
        assert!((0..3).all(|worker| first.iter().filter(|at| **at == worker).count() > 8), "{first:?}");
        let no_flow = rss(&mut distributor, 5, std::iter::repeat_n(vec![1; 60], 4));
        assert!(no_flow.windows(2).all(|pair| pair[0] == pair[1]), "what is no flow keeps its port's order");
    }

    #[test]
    fn order_per_port_or_burst_keeps_them_on_one_worker() {
        let mut distributor = Distributor::new(Order::Port, Rss::Symmetric, &[0, 1, 2].map(PortId));
        assert_eq!(rss(&mut distributor, 4, (0..9).map(udp)), [1; 9]);
        let mut distributor = Distributor::new(Order::None, Rss::Symmetric, &[0, 1, 2].map(PortId));
        let turns = [(); 4].map(|()| rss(&mut distributor, 4, (0..3).map(udp))[0]);
        assert_eq!(turns, [1, 2, 0, 1]);
    }
}
