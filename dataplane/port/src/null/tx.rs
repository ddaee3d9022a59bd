//! Transmit queue that discards packets. Supports all offloads, because they need not be completed.

use crate::{Burst, BurstStats, Capabilities, PortFault, TxQueue};

/// Stateless; all handles are equivalent.
#[derive(Debug)]
pub(super) struct Tx;

impl TxQueue for Tx {
    fn tx(&mut self, burst: &Burst, indices: &[u8], stats: &mut BurstStats) -> Result<usize, PortFault> {
        stats.packets += indices.len() as u64;
        stats.bytes += indices.iter().map(|&pick| burst.frame_len(pick.into()) as u64).sum::<u64>();
        Ok(indices.len())
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities(u8::MAX)
    }

    fn notify(&mut self) {}

    fn fork(&mut self) -> Box<dyn TxQueue> {
        Box::new(Tx)
    }

    fn refresh(&mut self) -> Result<(), PortFault> {
        Ok(())
    }
}
