//! The device's side of a virtqueue: take what the driver made available, give it back used.
//!
//! [`Split`] and [`Packed`] have one shape, [`DeviceRing`]. Buffers are taken in batches of up to [`MAX_BATCH`] heads
//! that are snapshot into private memory, and given back in the order they were taken, so the two positions
//! (taken, used) say everything about a stopped ring. Used entries become visible all at once with
//! [`DeviceRing::flush_used`]: one release store, which pairs with the driver's acquire load of the used index
//! (split) or of the first descriptor's flags (packed).

mod indirect;
mod packed;
mod split;

pub use packed::Packed;
pub(crate) use packed::Place;
pub use split::Split;

use crate::chain::{INDIRECT, NEXT, WRITE};
use crate::{BufId, Descriptor, Direction, Layout, RingFault};
use mem::{GuestMemory, Translator};
use std::sync::Arc;

/// Most heads taken in one batch.
pub const MAX_BATCH: usize = 64;

/// Heads taken in one batch: private copies.
#[derive(Debug)]
pub struct AvailBatch {
    /// The first descriptor of each chain. Of a plain buffer, `link` is the number that returns it.
    pub heads: [Descriptor; MAX_BATCH],
    /// Heads in this batch.
    pub len: usize,
    /// When the last head is not a plain buffer: every descriptor of its chain. A batch ends with such a head.
    pub chain: Vec<Descriptor>,
    /// What returns that chain.
    pub(crate) chain_id: BufId,
}

impl Default for AvailBatch {
    fn default() -> Self {
        Self {
            heads: [Descriptor::default(); MAX_BATCH],
            len: 0,
            chain: Vec::with_capacity(usize::from(crate::MAX_SIZE)),
            chain_id: BufId::default(),
        }
    }
}

impl AvailBatch {
    /// Whether the last head brings a chain instead of a plain buffer.
    #[inline(always)]
    pub fn has_chain(&self) -> bool {
        !self.chain.is_empty()
    }

    /// Heads that are plain buffers: all of them, or all but the last.
    #[inline(always)]
    pub fn plain(&self) -> usize {
        self.len - usize::from(self.has_chain())
    }

    /// What returns head `k`.
    #[inline(always)]
    pub fn buf_id(&self, k: usize) -> BufId {
        if k < self.plain() { self.heads[k].buf_id() } else { self.chain_id }
    }
}

/// The flags of a plain buffer: which ones are looked at, and what they have to be.
#[inline(always)]
fn plain_flags(direction: Option<Direction>) -> (u16, u16) {
    direction.map_or((NEXT | INDIRECT, 0), |direction| (NEXT | INDIRECT | WRITE, direction.flag()))
}

/// Receives plain buffers ([`DeviceRing::pop_plain`]). A trait, because a method can be inlined into each of the places that
/// call it, and a closure is not.
pub trait VisitPlain {
    /// The `k`-th plain buffer of this call; its [`Descriptor::link`] is the number that returns it. Returns whether it is
    /// taken.
    fn visit(&mut self, k: usize, buffer: Descriptor) -> bool;
}

impl<F: FnMut(Descriptor) -> bool> VisitPlain for F {
    #[inline(always)]
    fn visit(&mut self, _k: usize, buffer: Descriptor) -> bool {
        self(buffer)
    }
}

/// What both ring kinds do for a device.
pub trait DeviceRing: Send + Sized + 'static {
    /// A ring at these places of `map`.
    fn new(layout: &Layout, map: &Arc<GuestMemory>) -> Result<Self, RingFault>;

    /// Finds the same places in a changed map.
    fn remap(&mut self, map: &Arc<GuestMemory>) -> Result<(), RingFault>;

    /// Takes plain buffers of one direction from the front of the ring: `visitor` sees each, in order, until it refuses one
    /// (that buffer stays in front), `max` were taken, or something else is in front. Returns how many were taken.
    fn pop_plain(
        &mut self,
        max: usize,
        direction: Option<Direction>,
        visitor: &mut impl VisitPlain,
    ) -> Result<usize, RingFault>;

    /// Takes what is in front if it is not a plain buffer: appends its whole chain, or the table it names, to `chain`. What
    /// returns it, or `None` if a plain buffer or nothing is in front.
    fn pop_chain(
        &mut self,
        translator: &mut Translator,
        chain: &mut Vec<Descriptor>,
    ) -> Result<Option<BufId>, RingFault>;

    /// Takes what is in front, whatever its form: appends its descriptors to `chain`. Returns its buffer id, or `None` if nothing is
    /// available.
    #[cold]
    fn pop_any(
        &mut self,
        translator: &mut Translator,
        chain: &mut Vec<Descriptor>,
    ) -> Result<Option<BufId>, RingFault> {
        let buf_id = self.pop_chain(translator, chain)?;
        if buf_id.is_some() {
            return Ok(buf_id);
        }
        let mut buf_id = None;
        self.pop_plain(1, None, &mut |d: Descriptor| {
            chain.push(d);
            buf_id = Some(d.buf_id());
            true
        })?;
        Ok(buf_id)
    }

    /// Takes up to `max` heads. `translator` is asked only for indirect tables.
    #[inline]
    fn pop_avail(
        &mut self,
        max: usize,
        batch: &mut AvailBatch,
        translator: &mut Translator,
    ) -> Result<(), RingFault> {
        let max = max.min(MAX_BATCH);
        batch.chain.clear();
        let mut heads = batch.heads.iter_mut();
        batch.len =
            self.pop_plain(max, None, &mut |d: Descriptor| heads.next().map(|head| *head = d).is_some())?;
        if batch.len < max
            && let Some(buf_id) = self.pop_chain(translator, &mut batch.chain)?
        {
            batch.chain_id = buf_id;
            batch.len += 1;
        }
        Ok(())
    }

    /// Whether the driver has made anything available behind the next `slots` entries. Says nothing of its worth.
    fn has_beyond(&self, slots: u32) -> bool;

    /// Fetches the lines that the next batch will read first.
    fn prefetch(&self);

    /// Where used entries are written next, apart from the ring so that it stays in registers between entries.
    type Cursor;

    /// The place of the next used entry.
    fn cursor(&self) -> Self::Cursor;

    /// Writes one used entry with `len` bytes written by the device. Entries come in the order of the batches.
    fn put_used(&self, cursor: &mut Self::Cursor, buf_id: BufId, len: u32);

    /// The same for buffers that the device only read.
    #[inline(always)]
    fn put_read(&self, cursor: &mut Self::Cursor, buf_ids: &[BufId]) {
        for &buf_id in buf_ids {
            self.put_used(cursor, buf_id, 0);
        }
    }

    /// Takes note of what was written from [`DeviceRing::cursor`] to here.
    fn advance(&mut self, cursor: Self::Cursor);

    /// Writes one used entry and takes note of it.
    #[inline]
    fn push_used(&mut self, buf_id: BufId, len: u32) {
        let mut cursor = self.cursor();
        self.put_used(&mut cursor, buf_id, len);
        self.advance(cursor);
    }

    /// Whether `VIRTIO_F_IN_ORDER` was negotiated.
    fn is_in_order(&self) -> bool;

    /// Writes used entries for buffers that the device only read.
    #[inline]
    fn push_read(&mut self, buf_ids: &[BufId]) {
        let Some(last) = buf_ids.last() else { return };
        if self.is_in_order() {
            // One entry for the batch, with the last buffer's number, at the batch's first place (sections 2.7.9 and
            // 2.8.11).
            let slots = buf_ids.iter().map(|buf_id| buf_id.slots).sum();
            let mut cursor = self.cursor();
            self.put_read(&mut cursor, &[BufId { id: last.id, slots }]);
            return self.advance(cursor);
        }
        let mut cursor = self.cursor();
        self.put_read(&mut cursor, buf_ids);
        self.advance(cursor);
    }

    /// Makes all entries written since the last publish visible at once.
    fn flush_used(&mut self);

    /// Whether the driver wants a call for what was published since the last question. The caller has executed a
    /// sequentially consistent fence since the publish.
    fn needs_notification(&mut self) -> bool;

    /// Asks the driver for kicks. `true`: something became available meanwhile, do not sleep. Contains the full
    /// fence that this question needs.
    fn enable_notification(&mut self) -> bool;

    /// Asks the driver for no kicks.
    fn disable_notification(&mut self);

    /// The base to start from after a stop: everything before it was used, nothing after it was taken. What was
    /// taken and not used is taken again.
    fn base(&self) -> u32;

    /// Gives back the newest taken chains, not yet used, so that the next batch takes them again.
    fn rewind(&mut self, buf_ids: &[BufId]);
}
