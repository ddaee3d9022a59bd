//! The handle of one buffer: where it is and what lies in it, in sixteen bytes.

use crate::{VolatileSlice, Wide};
use core::ptr::NonNull;

/// One buffer of a pool, with its only owner. Give it back to a [`super::Cache`] of its pool; dropping it loses it.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a buffer that is not given back is lost to its pool"]
#[repr(C)]
pub struct Buffer {
    start: NonNull<u8>,
    about: About,
}

/// What is known of a buffer, in one word: four stores for each handle are what a call for many would wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(8))]
pub(super) struct About {
    capacity: u16,
    offset: u16,
    len: u16,
    tag: u16,
}

impl About {
    /// A buffer of so many bytes without data.
    #[inline(always)]
    pub(super) fn empty(capacity: u16) -> Self {
        let word = u64::from_ne_bytes(bytes(capacity));
        // SAFETY: eight bytes for four numbers of two, any of which will do.
        unsafe { core::mem::transmute::<u64, About>(word) }
    }
}

/// The capacity first, and nothing else, as the fields lie.
#[inline(always)]
fn bytes(capacity: u16) -> [u8; 8] {
    let [one, two] = capacity.to_ne_bytes();
    [one, two, 0, 0, 0, 0, 0, 0]
}

const _: () = assert!(size_of::<Buffer>() == 16 && size_of::<Option<Buffer>>() == 16);

// SAFETY: a buffer has one handle, and the memory behind it stays mapped for as long as the handle exists.
unsafe impl Send for Buffer {}
// SAFETY: a shared handle gives shared slices only.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// The handle of the buffer at `start`, without data.
    ///
    /// # Safety
    /// As many initialised bytes as `about` says lie there, for as long as the handle exists, and no other handle names them.
    #[inline(always)]
    pub(super) unsafe fn new(start: NonNull<u8>, about: About) -> Self {
        Self { start, about }
    }

    /// Where the buffer starts.
    #[inline(always)]
    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Ends the handle: where the buffer starts.
    #[inline(always)]
    pub(super) fn into_start(self) -> NonNull<u8> {
        self.start
    }

    /// Bytes of the buffer: headroom, data and tailroom.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.about.capacity.into()
    }

    /// Bytes of data.
    #[inline]
    pub fn len(&self) -> usize {
        self.about.len.into()
    }

    /// Whether there is no data.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.about.len == 0
    }

    /// Bytes before the data.
    #[inline]
    pub fn headroom(&self) -> usize {
        self.about.offset.into()
    }

    /// Bytes after the data.
    #[inline]
    pub fn tailroom(&self) -> usize {
        self.capacity() - self.headroom() - self.len()
    }

    /// A number that the holder may keep with the packet, such as the port that it came from. Zero at first.
    #[inline]
    pub fn tag(&self) -> u16 {
        self.about.tag
    }

    /// Keeps a number with the packet.
    #[inline]
    pub fn set_tag(&mut self, tag: u16) {
        self.about.tag = tag;
    }

    /// The data.
    #[inline]
    pub fn data(&self) -> &[u8] {
        // SAFETY: offset plus length never exceeds the capacity, whose bytes belong to this handle alone.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr().add(self.headroom()), self.len()) }
    }

    /// The data, for writing.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `data`; the handle is borrowed for as long as the slice.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr().add(self.headroom()), self.len()) }
    }

    /// The data as a segment, valid for as long as this handle exists and is not given back: whatever reads through it
    /// keeps the handle.
    #[inline]
    pub fn seg(&self) -> VolatileSlice {
        // SAFETY: the offset never exceeds the capacity, so this stays inside the buffer or one past its end.
        VolatileSlice::new(unsafe { self.start.add(self.headroom()) }, self.about.len.into())
    }

    /// The same where the buffer has the margin behind its data.
    #[inline(always)]
    pub fn wide(&self) -> Option<Wide> {
        Wide::slice(VolatileSlice::new(self.start, self.about.capacity.into()), self.headroom(), self.len())
    }

    /// Empties the buffer and starts its data `headroom` bytes in, or at the end if there are not so many.
    #[inline]
    pub fn reset(&mut self, headroom: usize) {
        self.about.offset = headroom.min(self.capacity()) as u16;
        self.about.len = 0;
    }

    /// Has the buffer hold `len` bytes, `headroom` bytes in: they hold what some packet left there. Returns `false` if there are
    /// not so many; then nothing changes.
    #[inline(always)]
    pub fn lay_out(&mut self, headroom: u16, len: usize) -> bool {
        let fits = usize::from(headroom) + len <= self.capacity();
        if fits {
            (self.about.offset, self.about.len) = (headroom, len as u16);
        }
        fits
    }

    /// Adds `len` bytes after the data and returns them for overwriting: they hold what some packet left there.
    /// `None` when the tailroom is shorter; then nothing changes.
    #[inline]
    pub fn append(&mut self, len: usize) -> Option<&mut [u8]> {
        if len > self.tailroom() {
            return None;
        }
        let before = self.len();
        self.about.len += len as u16;
        Some(&mut self.data_mut()[before..])
    }

    /// Adds `len` bytes before the data and returns them for overwriting: they hold what some packet left there.
    /// `None` when the headroom is shorter; then nothing changes.
    #[inline]
    pub fn prepend(&mut self, len: usize) -> Option<&mut [u8]> {
        if len > self.headroom() {
            return None;
        }
        self.about.offset -= len as u16;
        self.about.len += len as u16;
        Some(&mut self.data_mut()[..len])
    }

    /// Drops `len` bytes from the front of the data, or all if there are fewer.
    #[inline]
    pub fn advance(&mut self, len: usize) {
        let len = len.min(self.len()) as u16;
        self.about.offset += len;
        self.about.len -= len;
    }

    /// Keeps the first `len` bytes of the data, or all if there are fewer.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        self.about.len = len.min(self.len()) as u16;
    }
}
