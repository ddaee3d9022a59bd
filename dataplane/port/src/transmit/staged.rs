//! Slots in private memory, for queues without reservable memory: frames are sent from there at commit.

use super::{Form, Slots};
use crate::arena::Arena;
use crate::{BURST, Burst, BurstStats, Capabilities, DropReason, PLACES, PortFault};
use mem::VolatileSlice;
use mem::copy::chosen;

/// Maximum bytes of all staged frames; the first frame may be longer.
const STAGED: usize = 256 << 10;

/// Private memory and the burst sent from it.
#[derive(Debug, Default)]
pub(crate) struct Staging {
    memory: Option<Arena>,
    burst: Option<Box<Burst>>,
}

impl Slots {
    /// Reserves slots for up to a burst of frames, which may leave the offloads in `accepted`. Returns the number.
    pub(crate) fn stage(&mut self, lengths: &[u32], accepted: Capabilities) -> Result<usize, PortFault> {
        self.accept(accepted);
        let sizes =
            || lengths.iter().map(|&len| (len as usize).next_multiple_of(mem::line::LINE)).take(BURST);
        let all = sizes().scan(0, |sum, size| {
            *sum += size;
            Some(*sum)
        });
        let n = all.take_while(|sum| *sum <= STAGED).count().max(lengths.len().min(1));
        let bytes = sizes().take(n).sum::<usize>().max(1);
        let memory = match self.staging.memory.take().filter(|memory| memory.slot(0).len() >= bytes) {
            Some(memory) => memory,
            None => Arena::new(1, bytes.max(STAGED))?,
        };
        self.begin(memory.map(), Form::default());
        let mut room = memory.slot(0);
        for (number, size) in sizes().take(n).enumerate() {
            let (place, rest) = room.split_at(size);
            self.add_piece(place);
            self.add_slot(number, lengths[number] as usize);
            room = rest;
        }
        self.staging.memory = Some(memory);
        Ok(n)
    }

    /// Sends the staged frames with `tx`. Frames that it does not take are dropped, also if it fails, because nothing
    /// else holds them.
    pub(crate) fn send_staged(
        &mut self,
        stats: &mut BurstStats,
        tx: impl FnOnce(&Burst, &[u8], &mut BurstStats) -> Result<usize, PortFault>,
    ) -> Result<(), PortFault> {
        let mut burst = self.staging.burst.take().unwrap_or_default();
        burst.begin(0);
        if let Some(memory) = &self.staging.memory {
            burst.pin(memory.map());
        }
        for k in (0..self.len()).filter(|&k| !self.is_refused(k)) {
            burst.push_kept(self.staged(k));
            burst.set_offload(burst.len() - 1, self.offload(k));
        }
        mem::with_kernel!(chosen(), K => burst.load_heads::<K>());
        stats.drop(DropReason::BadOffload, self.refused() as u64);
        let (n, counted) = (burst.len(), stats.packets + stats.lost);
        let sent = tx(&burst, &PLACES[..n], stats);
        self.staging.burst = Some(burst);
        self.clear();
        if let Ok(done) = sent {
            stats.drop(DropReason::QueueFull, (n - done) as u64);
        } else {
            // A queue that holds packets back counts those as well.
            let counted = stats.packets + stats.lost - counted;
            stats.drop(DropReason::PortFault, (n as u64).saturating_sub(counted));
        }
        sent.map(|_| ())
    }

    fn staged(&self, k: usize) -> VolatileSlice {
        let piece = self.piece(k);
        piece.split_at(self.frame_len(k)).0
    }
}
