//! Transmit queue of a stream port.
//!
//! The frames of a call are copied contiguously into memory of this handle, each after its length prefix, and sent with
//! one write. Frames that do not fit in the socket buffer find the queue full; a partially written frame counts as
//! sent, and the connection keeps the rest. Handles of several workers share only the connection.

use super::connection::Connection;
use super::frames::{MAX_FRAME, PREFIX};
use super::sys::Stop;
use crate::{BURST, Burst, BurstStats, DropReason, PortFault, TxQueue};
use mem::copy::Kernel;
use std::marker::PhantomData;
use std::sync::Arc;

/// Maximum bytes per write: two bursts of full-size Ethernet frames.
const STAGE: usize = 256 << 10;
const _: () = assert!(STAGE >= PREFIX + MAX_FRAME);

/// Creates a transmit queue. Selects the copy kernel.
pub(super) fn start(wire: Arc<Connection>) -> Box<dyn TxQueue> {
    mem::with_kernel!(mem::copy::chosen(), K => Box::new(Tx::<K>::new(wire)) as Box<dyn TxQueue>)
}

struct Tx<K> {
    wire: Arc<Connection>,
    stage: Box<[u8]>,
    /// End offset of each staged frame.
    ends: Vec<usize>,
    kernel: PhantomData<K>,
}

impl<K: Kernel> Tx<K> {
    fn new(wire: Arc<Connection>) -> Self {
        Self { wire, stage: vec![0; STAGE].into(), ends: Vec::with_capacity(BURST), kernel: PhantomData }
    }

    /// Stages frames, up to the first that does not fit or is too long.
    #[inline]
    fn fill(&mut self, burst: &Burst, indices: &[u8]) {
        self.ends.clear();
        let mut at = 0;
        for &pick in indices {
            let len = burst.frame_len(pick.into());
            let end = at + PREFIX + len;
            if len > MAX_FRAME || end > STAGE {
                break;
            }
            self.stage[at..at + PREFIX].copy_from_slice(&(len as u32).to_be_bytes());
            burst.frame(pick.into()).copy_to::<K>(&mut self.stage[at + PREFIX..end]);
            self.ends.push(end);
            at = end;
        }
    }
}

impl<K: Kernel> TxQueue for Tx<K> {
    fn tx(&mut self, burst: &Burst, indices: &[u8], stats: &mut BurstStats) -> Result<usize, PortFault> {
        let mut done = 0;
        while done < indices.len() {
            self.fill(burst, &indices[done..]);
            let staged = self.ends.len();
            if staged == 0 {
                stats.drop(DropReason::BufferTooSmall, 1);
                done += 1;
                continue;
            }
            let end = self.ends[staged - 1];
            let sent = match self.wire.send(&self.stage[..end], &self.ends) {
                Ok(sent) => sent,
                Err(Stop::Now) => 0,
                // The receive queue detects this too, after all data that the peer sent.
                Err(Stop::Ended) => {
                    stats.drop(DropReason::PortDown, (indices.len() - done) as u64);
                    return Ok(indices.len());
                }
            };
            stats.packets += sent as u64;
            let lengths = indices[done..done + sent].iter().map(|&pick| burst.frame_len(pick.into()) as u64);
            stats.bytes += lengths.sum::<u64>();
            done += sent;
            if sent < staged {
                break;
            }
        }
        Ok(done)
    }

    fn notify(&mut self) {}

    fn fork(&mut self) -> Box<dyn TxQueue> {
        Box::new(Self::new(self.wire.clone()))
    }

    /// Uses no shared memory.
    fn refresh(&mut self) -> Result<(), PortFault> {
        Ok(())
    }
}
