//! Device side of a virtqueue: takes available buffers and returns them as used.
//!
//! [`Split`] and [`Packed`] implement [`DeviceRing`], and [`Logged`] is either with a log of written pages. Buffers are
//! taken in batches of up to [`MAX_BATCH`] heads, copied to private memory, and returned in the order they were taken,
//! so that two positions (taken, used) describe the state of a stopped ring. [`DeviceRing::flush_used`] makes all used
//! entries visible with one release store, which pairs with the driver's acquire load of the used index (split) or of
//! the first descriptor's flags (packed).

mod indirect;
mod logged;
mod packed;
mod place;
mod recover;
mod split;

pub use logged::Logged;
pub use packed::Packed;
pub(crate) use place::Place;
pub use recover::{Record, recover};
pub use split::Split;

use crate::chain::{INDIRECT, NEXT, WRITE};
use crate::{BufId, Descriptor, Direction, Layout, RingFault};
use mem::{DirtyLog, GuestMemory, Translator};
use std::sync::Arc;

/// Maximum number of heads per batch.
pub const MAX_BATCH: usize = 64;

/// A batch of available heads, as private copies.
#[derive(Debug)]
pub struct AvailBatch {
    /// First descriptor of each chain. For a plain buffer, `link` is the ID that returns it.
    pub heads: [Descriptor; MAX_BATCH],
    /// Number of heads in this batch.
    pub len: usize,
    /// All descriptors of the last head's chain, if that head is not a plain buffer; such a head ends the batch.
    pub chain: Vec<Descriptor>,
    /// ID that returns `chain`.
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
    /// Whether the last head is a chain instead of a plain buffer.
    #[inline(always)]
    pub fn has_chain(&self) -> bool {
        !self.chain.is_empty()
    }

    /// Number of heads that are plain buffers: all, or all but the last.
    #[inline(always)]
    pub fn plain(&self) -> usize {
        self.len - usize::from(self.has_chain())
    }

    /// The ID that returns head `k`.
    #[inline(always)]
    pub fn buf_id(&self, k: usize) -> BufId {
        if k < self.plain() { self.heads[k].buf_id() } else { self.chain_id }
    }
}

/// Mask and expected value of the flags of a plain buffer.
#[inline(always)]
fn plain_flags(direction: Option<Direction>) -> (u16, u16) {
    direction.map_or((NEXT | INDIRECT, 0), |direction| (NEXT | INDIRECT | WRITE, direction.flag()))
}

/// Visitor for plain buffers ([`DeviceRing::pop_plain`]). A trait instead of a closure, because a method can be inlined
/// at each call site.
pub trait VisitPlain {
    /// Visits the `k`-th plain buffer of this call; its [`Descriptor::link`] is the ID that returns it. Returns whether
    /// the buffer is taken.
    fn visit(&mut self, k: usize, buffer: Descriptor) -> bool;
}

impl<F: FnMut(Descriptor) -> bool> VisitPlain for F {
    #[inline(always)]
    fn visit(&mut self, _k: usize, buffer: Descriptor) -> bool {
        self(buffer)
    }
}

/// Device operations common to split and packed rings.
pub trait DeviceRing: Send + Sized + 'static {
    /// Creates a ring at `layout` in `map`.
    fn new(layout: &Layout, map: &Arc<GuestMemory>) -> Result<Self, RingFault>;

    /// User addresses and lengths of the areas that a device writes.
    fn device_areas(layout: &Layout) -> Vec<(u64, u32)>;

    /// Logs the pages that are written from now on, those of buffers only if the queue writes buffers. Only [`Logged`]
    /// rings do.
    fn set_log(&mut self, _log: Arc<DirtyLog>, _direction: Direction) {}

    /// Records the position of the device from now on. Only packed rings need it: the used index of a split ring is in
    /// guest memory.
    fn set_record(&mut self, _record: Record) {}

    /// Translates the ring addresses again after a memory table change.
    fn remap(&mut self, map: &Arc<GuestMemory>) -> Result<(), RingFault>;

    /// Takes plain buffers of one direction from the front of the ring. Calls `visitor` for each, in order, until it
    /// returns `false` (that buffer is not taken), `max` were taken, or the next head is not such a buffer. Returns the
    /// number taken.
    fn pop_plain(
        &mut self,
        max: usize,
        direction: Option<Direction>,
        visitor: &mut impl VisitPlain,
    ) -> Result<usize, RingFault>;

    /// Takes the next head if it is not a plain buffer: appends its whole chain or indirect table to `chain`. Returns
    /// its buffer ID, or `None` if the next head is a plain buffer or the ring is empty.
    fn pop_chain(
        &mut self,
        translator: &mut Translator,
        chain: &mut Vec<Descriptor>,
    ) -> Result<Option<BufId>, RingFault>;

    /// Takes the next head of any form: appends its descriptors to `chain`. Returns its buffer ID, or `None` if the
    /// ring is empty.
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

    /// Takes up to `max` heads. `translator` is used only for indirect tables.
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

    /// Whether at least one entry is available after the next `slots` entries. The entry is not validated.
    fn has_beyond(&self, slots: u32) -> bool;

    /// Prefetches the lines that the next batch reads first.
    fn prefetch(&self);

    /// Write position for used entries, separate from the ring so that it stays in registers between entries.
    type Cursor;

    /// A cursor at the next used entry.
    fn cursor(&self) -> Self::Cursor;

    /// Writes one used entry; `len` is the number of bytes written by the device. Entries must be in the order in which
    /// buffers were taken.
    fn put_used(&self, cursor: &mut Self::Cursor, buf_id: BufId, len: u32);

    /// [`DeviceRing::put_used`] for device-readable buffers, with length 0.
    #[inline(always)]
    fn put_read(&self, cursor: &mut Self::Cursor, buf_ids: &[BufId]) {
        for &buf_id in buf_ids {
            self.put_used(cursor, buf_id, 0);
        }
    }

    /// Commits the entries written through `cursor`, from [`DeviceRing::cursor`] on.
    fn advance(&mut self, cursor: Self::Cursor);

    /// Writes and commits one used entry.
    #[inline]
    fn push_used(&mut self, buf_id: BufId, len: u32) {
        let mut cursor = self.cursor();
        self.put_used(&mut cursor, buf_id, len);
        self.advance(cursor);
    }

    /// Whether `VIRTIO_F_IN_ORDER` was negotiated.
    fn is_in_order(&self) -> bool;

    /// Writes and commits used entries for device-readable buffers.
    #[inline]
    fn push_read(&mut self, buf_ids: &[BufId]) {
        let Some(last) = buf_ids.last() else { return };
        if self.is_in_order() {
            // One entry for the batch, with the ID of the last buffer, in the first slot of the batch (sections 2.7.9
            // and 2.8.11).
            let slots = buf_ids.iter().map(|buf_id| buf_id.slots).sum();
            let mut cursor = self.cursor();
            self.put_read(&mut cursor, &[BufId { id: last.id, slots }]);
            return self.advance(cursor);
        }
        let mut cursor = self.cursor();
        self.put_read(&mut cursor, buf_ids);
        self.advance(cursor);
    }

    /// Makes all entries written since the last flush visible at once.
    fn flush_used(&mut self);

    /// Whether the driver needs a notification (call) for the entries flushed since the last query. The caller must
    /// execute a sequentially consistent fence between the flush and this call.
    fn needs_notification(&mut self) -> bool;

    /// Enables driver notifications (kicks). Returns `true` if a buffer became available meanwhile; the caller must not
    /// sleep then. Contains the required full fence.
    fn enable_notification(&mut self) -> bool;

    /// Disables driver notifications (kicks).
    fn disable_notification(&mut self);

    /// Base to resume from after a stop: all entries before it are used, none after it are taken. Buffers taken and not
    /// used are taken again.
    fn base(&self) -> u32;

    /// Un-takes the most recently taken chains, which must not be used yet; the next batch takes them again.
    fn rewind(&mut self, buf_ids: &[BufId]);
}
