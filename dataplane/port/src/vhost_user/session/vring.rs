//! State of one ring, as set by messages.

use super::grace::Grace;
use crate::PortFault;
use crate::vhost::Features;
use crate::vhost::message::VringAddress;
use crate::vhost_user::setup::QueueSetup;
use mem::{DirtyLog, MemTable};
use rustix::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Maximum ring size (VIRTIO 1.2 sections 2.7 and 2.8).
pub(super) const MAX_SIZE: u32 = 32_768;

/// Notification method for added buffers.
#[derive(Clone, Debug)]
pub(super) enum Kick {
    /// This eventfd.
    Event(Arc<OwnedFd>),
    /// None: the back end must poll.
    Polled,
}

/// One ring. It runs if its size, addresses and kick are known, it is enabled, and it is not in a grace period.
#[derive(Debug, Default)]
pub(super) struct Vring {
    pub(super) size: Option<u16>,
    pub(super) address: Option<VringAddress>,
    /// Position as encoded in messages; `None` for a fresh ring.
    pub(super) base: Option<u32>,
    /// Present from `SET_VRING_KICK` until `GET_VRING_BASE`: "started" in the specification.
    pub(super) kick: Option<Kick>,
    pub(super) call: Option<Arc<OwnedFd>>,
    /// Kept open for the front end. Never signalled: a broken ring ends the whole session.
    pub(super) err: Option<OwnedFd>,
    pub(super) enabled: bool,
    /// Whether the engine has the ring's queue.
    pub(super) running: bool,
    /// Present from a fault of the ring until the front end stops it. The ring does not run meanwhile.
    pub(super) grace: Option<Grace>,
    /// Beginning of the last grace period.
    pub(super) last_grace: Option<Instant>,
}

impl Vring {
    /// Removes the kick, so that the ring needs a new one to start, and ends its grace period.
    pub(super) fn stop(&mut self) {
        (self.kick, self.grace) = (None, None);
    }

    /// Whether the ring should run. Without protocol features every started ring is enabled.
    pub(super) fn is_ready(&self, features: Option<Features>) -> bool {
        let Some(features) = features else { return false };
        let enabled = self.enabled || !features.has(Features::PROTOCOL);
        enabled
            && self.grace.is_none()
            && self.size.is_some()
            && self.address.is_some()
            && self.kick.is_some()
    }

    /// The setup to start the queue, or the rule that the front end violated.
    pub(super) fn setup(
        &self,
        memory: &Arc<MemTable>,
        features: Features,
        log: Option<&Arc<DirtyLog>>,
    ) -> Result<QueueSetup, PortFault> {
        let size = self.size.unwrap_or(0);
        let address = self.address.unwrap_or_default();
        if !features.has(Features::RING_PACKED) && !size.is_power_of_two() {
            return Err(PortFault::Protocol(format!(
                "a split ring has {size} entries, which is not a power of two"
            )));
        }
        Ok(QueueSetup {
            memory: memory.clone(),
            size,
            descriptors: address.descriptor,
            driver: address.available,
            device: address.used,
            base: self.start_base(memory, features, size)?,
            record: None,
            features,
            log: log.cloned(),
            kick: match &self.kick {
                Some(Kick::Event(event)) => Some(event.clone()),
                _ => None,
            },
            call: self.call.clone(),
        })
    }

    fn start_base(&self, memory: &MemTable, features: Features, size: u16) -> Result<u32, PortFault> {
        if features.has(Features::RING_PACKED) {
            return packed_base(self.base, size);
        }
        let base = self.base.unwrap_or(0);
        if base > u32::from(u16::MAX) {
            return Err(PortFault::Protocol(format!(
                "the base {base:#x} of a split ring has more than 16 bits"
            )));
        }
        Ok(self.used_index(memory).map_or(base, u32::from))
    }

    /// "The device is supposed to read the next index in the Used Ring from the respective vring structure in guest
    /// memory." Nothing is in flight when a ring of this back end stops, so this is also the next available index. It
    /// corrects front ends that lose the base (DPDK's sends 0 after every reconnection).
    fn used_index(&self, memory: &MemTable) -> Option<u16> {
        let map = memory.load();
        let used = map.by_user(self.address?.used, 4)?;
        if !used.addr().is_multiple_of(4) {
            return None;
        }
        // SAFETY: `map` lives to the end of this function; the integer is inside the four bytes and aligned.
        Some(unsafe { used.load_u16(2, Ordering::Acquire) })
    }
}

/// Bits 0-14 and 15 are the position of the next available descriptor, bits 16-30 and 31 that of the next used one.
/// The two are equal, since nothing is in flight. Front ends that fill only the lower half (DPDK's) are accepted.
fn packed_base(base: Option<u32>, size: u16) -> Result<u32, PortFault> {
    const FRESH: u32 = 0x8000;
    let next = base.unwrap_or(FRESH) & 0xffff;
    if next & 0x7fff >= u32::from(size) {
        let index = next & 0x7fff;
        return Err(PortFault::Protocol(format!(
            "the base {index} lies past the end of a ring of {size} entries"
        )));
    }
    Ok(next | next << 16)
}
