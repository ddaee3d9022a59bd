//! Writing: what is sent is spooled, and control writes it. A full spool is a full queue.

use crate::spool::{Feed, Record, Spooled};
use crate::{Burst, BurstStats, DropReason, PortFault, TxQueue};
use mem::copy::Kernel;
use std::marker::PhantomData;

/// A queue that ends in a file. The copy kernel is chosen here, once.
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
                    self.feed.hurry();
                    break;
                }
                Spooled::Ended => stats.drop(DropReason::PortFault, 1),
            }
            done += 1;
        }
        self.feed.tell();
        Ok(done)
    }

    /// Control was told when the packets were spooled.
    fn notify(&mut self) {}

    fn fork(&mut self) -> Box<dyn TxQueue> {
        Box::new(Self { feed: self.feed.another(), kernel: PhantomData })
    }

    /// The memory is our own and stays as it is.
    fn refresh(&mut self) -> Result<(), PortFault> {
        Ok(())
    }
}
