//! Plain buffers of the avail cache: taken, translated and prefetched.

use super::PREFETCH;
use mem::{Translator, VolatileSlice, Window};
use ring::device::VisitPlain;
use ring::{BufId, Descriptor};

/// Plain buffers in ring order: those at `first + k` for `k < held`.
pub(super) struct AvailCache {
    pub(super) places: Box<GatheredBuffers>,
    pub(super) first: usize,
    pub(super) held: usize,
}

const PLACES: usize = 2 * PREFETCH;

/// Segment and identifier of each buffer.
pub(super) struct GatheredBuffers {
    pub(super) segs: [VolatileSlice; PLACES],
    pub(super) ids: [u16; PLACES],
}

impl GatheredBuffers {
    /// Returns `false` if `at` is out of range.
    #[inline(always)]
    fn put(&mut self, at: usize, buffer: Descriptor, seg: VolatileSlice) -> bool {
        if at >= PLACES {
            return false;
        }
        (self.segs[at], self.ids[at]) = (seg, buffer.link);
        true
    }
}

impl AvailCache {
    pub(super) fn new() -> Self {
        Self {
            places: Box::new(GatheredBuffers { segs: [VolatileSlice::EMPTY; PLACES], ids: [0; PLACES] }),
            first: 0,
            held: 0,
        }
    }

    /// Position of the `k`-th buffer.
    #[inline(always)]
    pub(super) fn place(&self, k: usize) -> usize {
        self.first + k
    }

    /// Makes room for [`PREFETCH`] buffers. Returns the position of the next one.
    #[inline(always)]
    pub(super) fn make_place(&mut self) -> usize {
        if self.held == 0 {
            self.first = 0;
        } else if self.first + PREFETCH > PLACES {
            let held = self.first..self.first + self.held;
            self.places.segs.copy_within(held.clone(), 0);
            self.places.ids.copy_within(held, 0);
            self.first = 0;
        }
        self.first + self.held
    }

    /// The first buffer.
    #[inline]
    pub(super) fn front(&self) -> Option<(BufId, VolatileSlice)> {
        let at = self.place(0);
        (self.held > 0).then(|| (BufId::plain(self.places.ids[at]), self.places.segs[at]))
    }

    /// Removes the first `n` buffers.
    #[inline]
    pub(super) fn drop_front(&mut self, n: usize) {
        self.first = self.place(n);
        self.held -= n;
    }

    /// Removes the last buffer.
    pub(super) fn take_back(&mut self) -> Option<BufId> {
        self.held = self.held.checked_sub(1)?;
        Some(BufId::plain(self.places.ids[self.place(self.held)]))
    }
}

/// Adds plain buffers to the avail cache and prefetches the lines to write. Separate from the queue, so that its
/// fields stay in registers.
pub(super) struct CacheFill<'a> {
    pub(super) window: Window,
    pub(super) translator: &'a mut Translator,
    pub(super) places: &'a mut GatheredBuffers,
    /// Position of the first buffer added.
    pub(super) end: usize,
    pub(super) header_len: usize,
    /// Whether header and frame start on one line in the last buffers: drivers use one layout for all.
    pub(super) on_one_line: bool,
}

impl VisitPlain for CacheFill<'_> {
    #[inline(always)]
    fn visit(&mut self, k: usize, buffer: Descriptor) -> bool {
        let seg = if let Some(seg) = self.window.translate(buffer.address, buffer.len) {
            seg.seg()
        } else {
            let (seg, window) = self.translator.beyond_window(buffer.address, buffer.len);
            let Some(seg) = seg else { return false };
            self.window = window;
            seg
        };
        self.fetch(seg);
        self.places.put(self.end + k, buffer, seg)
    }
}

impl CacheFill<'_> {
    /// Prefetches the lines where header and frame start.
    #[inline(always)]
    fn fetch(&self, seg: VolatileSlice) {
        if self.on_one_line {
            // Linux layout: both lines are written.
            seg.prefetch_write(0);
            seg.prefetch_write(64);
        } else {
            seg.prefetch_read(0);
            seg.prefetch_write(self.header_len);
        }
    }
}
