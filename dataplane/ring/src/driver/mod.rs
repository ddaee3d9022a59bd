//! The driver's side of a virtqueue: make buffers available, take them back used.
//!
//! A buffer is one plain descriptor under an identifier of the caller's choice below the ring's size, so that a
//! caller can bind identifier and buffer for ever. Then most of a split ring never changes: a driver compares
//! with a private shadow and writes only what differs, and lines that nobody writes stay in both caches.
//!
//! A chain is several such buffers, each with an identifier of its own, because identifiers are descriptors on a
//! split ring and the caller owns them; it comes back under the identifier of its first. A packed ring needs no
//! more than that first one, and is told the same so that callers need not ask which kind they have. An indirect
//! chain takes one descriptor whatever its length, and lies in a [`Table`] that the caller made over memory of its
//! choice; the table, too, is written only where it differs from what stands there.
//!
//! Making available: entries are written, then [`DriverRing::publish`] makes them visible with one release
//! store, which pairs with the device's acquire load. Taking back: [`DriverRing::take`] pairs the other way.
//! What a device says was used is judged: it must be out, and there may be no more of it than was published. An
//! identifier that was posted and not yet published is not told from its neighbours (that would cost every packet a
//! load); a device that guesses one gives it back in the place of another, and each still comes back once.
//!
//! Asking for calls and being asked for kicks (VIRTIO 1.2 sections 2.7.7, 2.7.10 and 2.8.10): a side that wants to
//! sleep writes a place (`EVENT_IDX`) or a flag, executes a full fence and looks again; the other side publishes,
//! executes a full fence and reads that. One of them sees the other. With `EVENT_IDX` the place is passed once, so one
//! notification is given and no second one until the sleeper has asked again. On a split ring there is no way to say
//! "nothing" then, and a side that polls leaves the place where it is, behind: it is passed again after a lap of 16
//! bits, and one notification in 65536 entries is needless. A place says nothing about laps, so whoever publishes
//! more than a place can tell between two questions notifies without looking.

mod packed;
mod split;
mod table;

pub use packed::Packed;
pub use split::Split;
pub use table::Table;

use crate::chain::WRITE;
use crate::{Direction, Layout, RingFault};
use mem::GuestMemory;
use std::sync::Arc;

/// A buffer that came back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// The identifier it was posted under.
    pub id: u16,
    /// Bytes that the device wrote; where it spoke of a batch by its last buffer alone, the others were written whole.
    pub len: u32,
}

/// A buffer to post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Post {
    /// Identifier, below the ring's size and not outstanding. In a table it means nothing.
    pub id: u16,
    /// Guest-physical address.
    pub address: u64,
    /// Bytes.
    pub len: u32,
    /// Which way the bytes go.
    pub direction: Direction,
}

/// What both ring kinds do for a driver.
pub trait DriverRing: Send + Sized + 'static {
    /// A ring at these places of `map`, all of it free.
    fn new(layout: &Layout, map: &Arc<GuestMemory>) -> Result<Self, RingFault>;

    /// Descriptors that can still be posted: a chain takes as many as it has buffers, a table takes one.
    fn free(&self) -> usize;

    /// Writes one buffer into the ring. The caller has checked [`DriverRing::free`].
    fn post(&mut self, buffer: Post);

    /// Writes buffers into the ring, one by one. As [`DriverRing::post`], with less work for each.
    #[inline(always)]
    fn post_each(&mut self, buffers: impl Iterator<Item = Post>) {
        buffers.for_each(|buffer| self.post(buffer));
    }

    /// As [`DriverRing::post_each`], of buffers that were posted alike before, each alone under the same identifier, which
    /// has stood for nothing else since: what is still written in the ring is not written again.
    #[inline(always)]
    fn post_again(&mut self, buffers: impl Iterator<Item = Post>) {
        self.post_each(buffers);
    }

    /// Writes one chain into the ring: at least one buffer and at most the ring's size, those to read before those
    /// to write, each under an identifier of its own. It comes back under the first. The caller has checked
    /// [`DriverRing::free`].
    fn post_chain(&mut self, chain: &[Post]);

    /// As [`DriverRing::post_chain`], by way of `table` and under `id`; at most as many buffers as the table holds
    /// and the ring has entries (section 2.7.5.3.1). The table is the device's until the chain comes back. Only where
    /// `INDIRECT_DESC` was negotiated.
    fn post_indirect(&mut self, id: u16, table: &mut Table, chain: &[Post]);

    /// Makes everything posted since the last publish visible at once.
    fn publish(&mut self);

    /// Whether the device wants a kick for what was published since the last question. The caller has executed a
    /// sequentially consistent fence since the publish.
    fn should_kick(&mut self) -> bool;

    /// Takes used buffers, oldest first, as many as there are and `out` holds.
    fn take(&mut self, out: &mut [Used]) -> Result<usize, RingFault>;

    /// Asks for calls. `true`: something was used meanwhile, do not sleep.
    fn enable_notification(&mut self) -> bool;

    /// Asks for no calls.
    fn disable_notification(&mut self);

    /// Fetches the lines that the next `take` reads first.
    fn prefetch(&self);
}

/// What the device has under one identifier: in the upper half the descriptors of the chain that begins there, none if
/// the device does not have it; in the lower half the bytes that the device may write, all of which a batch stands for
/// (the note in section 2.7.9). One word, for one store.
#[derive(Clone, Copy, Debug)]
struct Out(u64);

impl Out {
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

    #[inline(always)]
    fn writable(self) -> u32 {
        self.0 as u32
    }
}

impl Post {
    #[inline(always)]
    fn writable(&self) -> u32 {
        if self.direction == Direction::Write { self.len } else { 0 }
    }

    /// The flag of its direction.
    #[inline(always)]
    fn flag(&self) -> u16 {
        if self.direction == Direction::Write { WRITE } else { 0 }
    }
}

/// Whether a chain is one that a driver may make (sections 2.7.13.1, 2.7.4.2 and 2.8.13).
fn is_legal(chain: &[Post], most: usize) -> bool {
    (1..=most).contains(&chain.len())
        && chain.is_sorted_by_key(|post| post.direction == Direction::Write)
        && chain.iter().try_fold(0u32, |sum, post| sum.checked_add(post.len)).is_some()
}
