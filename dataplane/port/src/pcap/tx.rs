//! Transmit: sent packets are spooled, and the control thread writes them. A full spool is a full queue.

use crate::spool::{Feed, Record, Spooled};
use crate::{Burst, BurstStats, DropReason, PortFault, TxQueue};
use mem::copy::Kernel;
use std::marker::PhantomData;

/// A transmit queue to a file. Selects the copy kernel.
pub(super) fn start(feed: Feed) -> Box<dyn TxQueue> {
    mem::with_kernel!(mem::copy::chosen(), K => Box::new(Tx::<K> { feed, kernel: PhantomData }) as Box<dyn TxQueue>)
}

struct Tx<K> {
    feed: Feed,
    kernel: PhantomData<K>,
}

impl<K: Kernel> TxQueue for Tx<K> {
    fn tx(&mut self, burst: &Burst, indices: &[u8], stats: &mut BurstStats) -> Result<usize, PortFault> {
        let mut done = 0;
        for &pick in indices {
            let len = burst.frame_len(pick.into());
            let record = Record { now: burst.now().0, len: len as u32, ..Record::default() };
            match self.feed.put::<K>(&record, &burst.frame(pick.into())) {
                Spooled::Taken => {
                    stats.packets += 1;
                    stats.bytes += len as u64;
                }
                Spooled::Full => {
                    self.feed.notify_now();
                    break;
                }
                Spooled::Ended => stats.drop(DropReason::PortFault, 1),
            }
            done += 1;
        }
        self.feed.notify();
        Ok(done)
    }

    /// The control thread was notified when the packets were spooled.
    fn notify(&mut self) {}

    fn fork(&mut self) -> Box<dyn TxQueue> {
        Box::new(Self { feed: self.feed.another(), kernel: PhantomData })
    }

    /// Private memory does not change.
    fn refresh(&mut self) -> Result<(), PortFault> {
        Ok(())
    }
}
