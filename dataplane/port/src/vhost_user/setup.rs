//! Parameters to start a queue: the result of the protocol's messages for one ring.

use crate::vhost::Features;
use mem::{DirtyLog, GuestMemory, MemTable};
use ring::device::Record;
use rustix::fd::OwnedFd;
use std::sync::Arc;

/// One ring, ready to start.
#[derive(Clone, Debug)]
pub struct QueueSetup {
    /// The front end's memory, replaced when it changes.
    pub memory: Arc<MemTable>,
    /// Number of entries: a power of two up to 32768 for split rings, any number up to 32768 for packed rings.
    pub size: u16,
    /// User address of the descriptor area (VIRTIO 1.2 section 2.6: "Descriptor Area").
    pub descriptors: u64,
    /// User address of the driver area (available ring; driver event suppression).
    pub driver: u64,
    /// User address of the device area (used ring; device event suppression).
    pub device: u64,
    /// Start position, as in `SET_VRING_BASE`. Split: the next available index, which is also the used index. Packed:
    /// bits 0-14 next available, bit 15 its wrap counter, bits 16-30 next used, bit 31 its wrap counter.
    pub base: u32,
    /// Map and address of the record of a packed ring's position ([`ring::device::Record`]).
    pub record: Option<(Arc<GuestMemory>, u64)>,
    /// Negotiated features.
    pub features: Features,
    /// Log of written pages, while the guest migrates.
    pub log: Option<Arc<DirtyLog>>,
    /// Readable after a kick of the front end. `None`: the back end must poll.
    pub kick: Option<Arc<OwnedFd>>,
    /// Written to call the front end. `None`: the front end polls.
    pub call: Option<Arc<OwnedFd>>,
}

impl QueueSetup {
    /// The record of the ring's position.
    pub(super) fn record(&self) -> Option<Record> {
        let (map, address) = self.record.as_ref()?;
        Record::new(map, *address)
    }

    /// The ring's layout.
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
