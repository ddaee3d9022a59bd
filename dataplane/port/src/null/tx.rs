//! The queue to nowhere. Whatever a source left to be done never needs to be.

use crate::{Burst, BurstStats, Capabilities, PortFault, TxQueue};

/// Any number of handles are the same, because there is nothing behind them.
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
