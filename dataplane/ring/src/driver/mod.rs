//! Driver side of a virtqueue: makes buffers available and reclaims used ones.
//!
//! A buffer is one plain descriptor with a caller-chosen identifier below the ring size, so that a caller can bind
//! identifiers to buffers permanently. Most of a split ring then never changes: the driver compares with a private
//! shadow copy and writes only differences, so unchanged lines stay in both caches.
//!
//! A chain consists of several such buffers, each with its own identifier, because on a split ring identifiers are
//! descriptors owned by the caller; the chain returns under the identifier of its first buffer. A packed ring needs
//! only the first identifier, but takes the same arguments so that callers are independent of the ring format. An
//! indirect chain takes one descriptor of any length and uses a [`Table`] in caller-chosen memory; the table, too, is
//! written only where it differs.
//!
//! Making available: entries are written, then [`DriverRing::publish`] makes them visible with one release store, which
//! pairs with the device's acquire load. Reclaiming: [`DriverRing::take`] pairs the other way. Used entries are
//! validated: the identifier must be outstanding, and at most as many entries as were published may be used. An
//! identifier posted and not yet published is not distinguished from published ones (that would cost a load per
//! packet); a device that guesses one returns it in place of another, and each still returns once.
//!
//! Notification suppression (VIRTIO 1.2 sections 2.7.7, 2.7.10 and 2.8.10): before sleeping, a side writes an event
//! position (`EVENT_IDX`) or a flag, executes a full fence and checks the ring again; the other side publishes,
//! executes a full fence and reads that field. At least one of them sees the other's write. With `EVENT_IDX` the
//! position is passed once, so there is one notification until the sleeper enables it again. A split ring with
//! `EVENT_IDX` cannot disable notifications; a polling side leaves the position behind, which is passed again after
//! 65536 entries and causes one spurious notification per lap. A position does not encode laps, so a side that
//! publishes more entries between two queries than a position can represent notifies unconditionally.

mod packed;
mod split;
mod state;
mod table;

pub use packed::Packed;
pub use split::Split;
pub use state::DriverState;
pub use table::Table;

use crate::chain::WRITE;
use crate::{Direction, Layout, RingFault};
use mem::GuestMemory;
use std::sync::Arc;

/// A reclaimed buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Identifier of the buffer, or of the first buffer of the chain.
    pub id: u16,
    /// Bytes written by the device. If the device returned a batch through its last buffer, the others count as fully
    /// written.
    pub len: u32,
}

/// A buffer to post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Post {
    /// Identifier, below the ring's size and not outstanding. Ignored in an indirect table.
    pub id: u16,
    /// Guest-physical address.
    pub address: u64,
    /// Length in bytes.
    pub len: u32,
    /// Transfer direction.
    pub direction: Direction,
}

/// Driver operations common to split and packed rings.
pub trait DriverRing: Send + Sized + 'static {
    /// Creates an empty ring at `layout` in `map`.
    fn new(layout: &Layout, map: &Arc<GuestMemory>) -> Result<Self, RingFault>;

    /// Publishes what is posted and returns the state from which [`DriverRing::thaw`] continues. This ring must not be
    /// used afterwards.
    fn freeze(&mut self) -> DriverState;

    /// Continues the ring at `layout` in `map` from the state of another. The next [`DriverRing::should_kick`]
    /// returns true unless the device has disabled kicks, because the state does not contain which kicks were sent.
    ///
    /// # Errors
    /// [`RingFault::State`] if the state is invalid or of another ring, and those of [`DriverRing::new`].
    fn thaw(layout: &Layout, map: &Arc<GuestMemory>, state: &DriverState) -> Result<Self, RingFault>;

    /// Free descriptors: a chain takes one per buffer, an indirect table takes one.
    fn free(&self) -> usize;

    /// Writes one buffer to the ring. The caller must check [`DriverRing::free`] before.
    fn post(&mut self, buffer: Post);

    /// [`DriverRing::post`] for several buffers, with less work per buffer.
    #[inline(always)]
    fn post_each(&mut self, buffers: impl Iterator<Item = Post>) {
        buffers.for_each(|buffer| self.post(buffer));
    }

    /// [`DriverRing::post_each`] for buffers last posted unchanged, each alone and under the same identifier:
    /// descriptors still in the ring are not written again.
    #[inline(always)]
    fn post_again(&mut self, buffers: impl Iterator<Item = Post>) {
        self.post_each(buffers);
    }

    /// Writes one chain: one to ring-size buffers, device-readable ones before device-writable ones, each with its own
    /// identifier. It returns under the first identifier. The caller must check [`DriverRing::free`] before.
    fn post_chain(&mut self, chain: &[Post]);

    /// [`DriverRing::post_chain`] through `table`, under `id`; at most as many buffers as the table holds and the ring
    /// has entries (section 2.7.5.3.1). The device owns the table until the chain returns. Requires `INDIRECT_DESC`.
    fn post_indirect(&mut self, id: u16, table: &mut Table, chain: &[Post]);

    /// Makes all buffers posted since the last publish visible at once.
    fn publish(&mut self);

    /// Whether the device needs a kick for the buffers published since the last query. The caller must execute a
    /// sequentially consistent fence between the publish and this call.
    fn should_kick(&mut self) -> bool;

    /// Reclaims used buffers, oldest first, as many as are used and fit in `out`. Returns the number.
    fn take(&mut self, out: &mut [Used]) -> Result<usize, RingFault>;

    /// Enables device notifications (calls). Returns `true` if a buffer was used meanwhile; the caller must not sleep
    /// then.
    fn enable_notification(&mut self) -> bool;

    /// Disables device notifications (calls).
    fn disable_notification(&mut self);

    /// Prefetches the lines that the next `take` reads first.
    fn prefetch(&self);
}

/// State of one identifier. Upper half: number of descriptors of the outstanding chain that starts here, 0 if not
/// outstanding. Lower half: device-writable bytes, the length assumed if the chain is skipped in a batch (note in
/// section 2.7.9). One word, so that one store updates it.
#[derive(Clone, Copy, Debug)]
struct Outstanding(u64);

impl Outstanding {
    const NONE: Self = Self(0);

    #[inline(always)]
    fn new(descriptors: u16, writable: u32) -> Self {
        Self(u64::from(descriptors) << 32 | u64::from(writable))
    }

    fn of(chain: &[Post], descriptors: u16) -> Self {
        Self::new(descriptors, chain.iter().map(Post::writable).fold(0, u32::saturating_add))
    }

    #[inline(always)]
    fn is_none(self) -> bool {
        self.descriptors() == 0
    }

    #[inline(always)]
    fn descriptors(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// [`Outstanding::descriptors`], where a single one is the common case: a loop over chains then predicts where the
    /// next one begins, and does not wait for the load of this one's length.
    #[inline(always)]
    fn passed(self) -> u32 {
        match self.descriptors() {
            1 => 1,
            n => several(n),
        }
    }

    #[inline(always)]
    fn writable(self) -> u32 {
        self.0 as u32
    }
}

/// Keeps the compiler from computing both cases of [`Outstanding::passed`] without a branch.
#[cold]
#[inline(never)]
fn several(descriptors: u32) -> u32 {
    descriptors
}

impl Post {
    #[inline(always)]
    fn writable(&self) -> u32 {
        if self.direction == Direction::Write { self.len } else { 0 }
    }

    /// WRITE flag value for the direction.
    #[inline(always)]
    fn flag(&self) -> u16 {
        if self.direction == Direction::Write { WRITE } else { 0 }
    }
}

/// Whether a driver may create this chain (sections 2.7.13.1, 2.7.4.2 and 2.8.13).
fn is_legal(chain: &[Post], most: usize) -> bool {
    (1..=most).contains(&chain.len())
        && chain.is_sorted_by_key(|post| post.direction == Direction::Write)
        && chain.iter().try_fold(0u32, |sum, post| sum.checked_add(post.len)).is_some()
}
