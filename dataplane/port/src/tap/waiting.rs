//! Frames that a stopped queue left, because the kernel had passed them to it already. The queue that continues it
//! receives them first.

use super::rx::take;
use super::slots::Slots;
use crate::{Burst, BurstStats};
use std::collections::VecDeque;

/// Frames in order, each behind its offload header.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiting(VecDeque<Box<[u8]>>);

impl Waiting {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The frames, in order.
    pub(super) fn frames(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|frame| &**frame)
    }

    /// Receives frames while the burst and the slots have room.
    #[inline(always)]
    pub(super) fn receive(&mut self, slots: &mut Slots, burst: &mut Burst, stats: &mut BurstStats) {
        if !self.0.is_empty() {
            self.receive_some(slots, burst, stats);
        }
    }

    #[cold]
    fn receive_some(&mut self, slots: &mut Slots, burst: &mut Burst, stats: &mut BurstStats) {
        slots.pin(burst);
        while burst.room() > 0 {
            let Some((slot, whole)) = self.0.front().and_then(|frame| slots.put(frame)) else { return };
            take(slot, whole, burst, stats);
            self.0.pop_front();
        }
    }
}

impl From<Vec<Box<[u8]>>> for Waiting {
    fn from(frames: Vec<Box<[u8]>>) -> Self {
        Self(frames.into())
    }
}

impl From<Waiting> for Vec<Box<[u8]>> {
    fn from(waiting: Waiting) -> Self {
        waiting.0.into()
    }
}
