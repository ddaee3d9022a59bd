//! The driver's side of a virtqueue: make buffers available, take them back used.
//!
//! A buffer is one plain descriptor under an identifier of the caller's choice below the ring's size, so that a
//! caller can bind identifier and buffer for ever. Then most of a split ring never changes: a driver compares
//! with a private shadow and writes only what differs, and lines that nobody writes stay in both caches.
//!
//! Making available: entries are written, then [`DriverRing::publish`] makes them visible with one release
//! store, which pairs with the device's acquire load. Taking back: [`DriverRing::take`] pairs the other way.

mod packed;
mod split;

pub use packed::Packed;
pub use split::Split;

use crate::{Direction, Layout, RingFault};
use mem::Map;
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
    /// Identifier, below the ring's size and not outstanding.
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
    fn new(layout: &Layout, map: &Arc<Map>) -> Result<Self, RingFault>;

    /// Entries that can still be posted.
    fn free(&self) -> usize;

    /// Writes one buffer into the ring. The caller has checked [`DriverRing::free`].
    fn post(&mut self, buffer: Post);

    /// Makes everything posted since the last publish visible at once.
    fn publish(&mut self);

    /// Whether the device wants a kick for what was published since the last question. The caller has executed a
    /// sequentially consistent fence since the publish.
    fn should_kick(&mut self) -> bool;

    /// Takes used buffers, oldest first, as many as there are and `out` holds.
    fn take(&mut self, out: &mut [Used]) -> Result<usize, RingFault>;

    /// Asks for calls. `true`: something was used meanwhile, do not sleep.
    fn arm(&mut self) -> bool;

    /// Asks for no calls.
    fn disarm(&mut self);

    /// Fetches the lines that the next `take` reads first.
    fn prefetch(&self);
}
