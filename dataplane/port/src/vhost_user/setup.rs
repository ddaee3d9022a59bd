//! Everything a queue must know to start: the result of the protocol's messages about one ring.

use crate::vhost::Features;
use mem::MemTable;
use rustix::fd::OwnedFd;
use std::sync::Arc;

/// One ring, ready to run.
#[derive(Clone, Debug)]
pub struct QueueSetup {
    /// The front end's memory, swapped when it changes.
    pub memory: Arc<MemTable>,
    /// Entries: a power of two up to 32768 on split rings, any number up to 32768 on packed ones.
    pub size: u16,
    /// User address of the descriptor area (VIRTIO 1.2 section 2.6: "Descriptor Area").
    pub descriptors: u64,
    /// User address of the driver area (available ring; driver event suppression).
    pub driver: u64,
    /// User address of the device area (used ring; device event suppression).
    pub device: u64,
    /// Where to start, as `SET_VRING_BASE` says: split: the next available index (used index equal to it);
    /// packed: bits 0-14 next available, bit 15 its wrap counter, bits 16-30 next used, bit 31 its wrap counter.
    pub base: u32,
    /// What was negotiated.
    pub features: Features,
    /// Readable with a kick of the front end. `None`: the front end wants to be polled.
    pub kick: Option<Arc<OwnedFd>>,
    /// Written to call the front end. `None`: it polls.
    pub call: Option<Arc<OwnedFd>>,
}

impl QueueSetup {
    /// The part that the ring needs.
    pub fn layout(&self) -> ring::Layout {
        ring::Layout {
            size: self.size,
            descriptors: self.descriptors,
            driver: self.driver,
            device: self.device,
            base: self.base,
            event_idx: self.features.has(Features::EVENT_IDX),
            indirect: self.features.has(Features::INDIRECT_DESC),
            in_order: self.features.has(Features::IN_ORDER),
        }
    }
}
