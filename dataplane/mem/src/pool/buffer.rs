//! Buffer handle: address, capacity and data range in 16 bytes.

use crate::{VolatileSlice, Wide};
use core::ptr::NonNull;

/// Unique handle of one pool buffer. Return it to a [`super::Cache`] of its pool; a dropped handle leaks the buffer.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a buffer that is not given back is lost to its pool"]
#[repr(C)]
pub struct Buffer {
    start: NonNull<u8>,
    about: BufMeta,
}

/// Buffer metadata in one 8-byte word, so that bulk allocation writes it with one store per handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(8))]
pub(super) struct BufMeta {
    capacity: u16,
    offset: u16,
    len: u16,
    tag: u16,
}

impl BufMeta {
    /// Metadata of an empty buffer of `capacity` bytes.
    #[inline(always)]
    pub(super) fn empty(capacity: u16) -> Self {
        let word = u64::from_ne_bytes(bytes(capacity));
        // SAFETY: both types are eight bytes, and every bit pattern is valid for four `u16`.
        unsafe { core::mem::transmute::<u64, BufMeta>(word) }
    }
}

/// `BufMeta` in memory order: the capacity first, the rest zero.
#[inline(always)]
fn bytes(capacity: u16) -> [u8; 8] {
    let [one, two] = capacity.to_ne_bytes();
    [one, two, 0, 0, 0, 0, 0, 0]
}

const _: () = assert!(size_of::<Buffer>() == 16 && size_of::<Option<Buffer>>() == 16);

// SAFETY: a buffer has one handle, and its memory stays mapped while the handle exists.
unsafe impl Send for Buffer {}
// SAFETY: a shared handle gives shared slices only.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// The handle of the buffer at `start`, without data.
    ///
    /// # Safety
    /// `about.capacity` initialised bytes exist at `start` while the handle exists, and no other handle covers them.
    #[inline(always)]
    pub(super) unsafe fn new(start: NonNull<u8>, about: BufMeta) -> Self {
        Self { start, about }
    }

    /// Start address of the buffer.
    #[inline(always)]
    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Identifies the buffer among all that exist.
    #[inline]
    pub fn id(&self) -> usize {
        self.start.addr().get()
    }

    /// Consumes the handle and returns the start address of the buffer.
    #[inline(always)]
    pub(super) fn into_start(self) -> NonNull<u8> {
        self.start
    }

    /// Buffer size in bytes: headroom, data and tailroom.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.about.capacity.into()
    }

    /// Data length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.about.len.into()
    }

    /// Whether the data length is zero.
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

    /// User-defined 16-bit metadata, such as the source port. Initially zero.
    #[inline]
    pub fn tag(&self) -> u16 {
        self.about.tag
    }

    /// Sets the user-defined metadata.
    #[inline]
    pub fn set_tag(&mut self, tag: u16) {
        self.about.tag = tag;
    }

    /// The data.
    #[inline]
    pub fn data(&self) -> &[u8] {
        // SAFETY: offset plus length is at most the capacity, and this handle owns these bytes exclusively.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr().add(self.headroom()), self.len()) }
    }

    /// The data, mutable.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `data`; the slice borrows the handle mutably.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr().add(self.headroom()), self.len()) }
    }

    /// The data as a segment. Valid only while this handle exists; the user must keep the handle.
    #[inline]
    pub fn seg(&self) -> VolatileSlice {
        // SAFETY: the offset is at most the capacity, so the address is inside the buffer or one past its end.
        VolatileSlice::new(unsafe { self.start.add(self.headroom()) }, self.about.len.into())
    }

    /// The data as a wide segment. Returns `None` if fewer than [`crate::MARGIN`] bytes follow the data.
    #[inline(always)]
    pub fn wide(&self) -> Option<Wide> {
        Wide::slice(VolatileSlice::new(self.start, self.about.capacity.into()), self.headroom(), self.len())
    }

    /// Sets the data length to zero and the headroom to `headroom`, at most the capacity.
    #[inline]
    pub fn reset(&mut self, headroom: usize) {
        self.about.offset = headroom.min(self.capacity()) as u16;
        self.about.len = 0;
    }

    /// Sets headroom and data length. The data is stale, from an earlier packet. Returns `false` and changes nothing if
    /// the capacity is too small.
    #[inline(always)]
    pub fn lay_out(&mut self, headroom: u16, len: usize) -> bool {
        let fits = usize::from(headroom) + len <= self.capacity();
        if fits {
            (self.about.offset, self.about.len) = (headroom, len as u16);
        }
        fits
    }

    /// Extends the data by `len` bytes at the end and returns them. Their content is stale, from an earlier packet.
    /// Returns `None` and changes nothing if the tailroom is too small.
    #[inline]
    pub fn append(&mut self, len: usize) -> Option<&mut [u8]> {
        if len > self.tailroom() {
            return None;
        }
        let before = self.len();
        self.about.len += len as u16;
        Some(&mut self.data_mut()[before..])
    }

    /// Extends the data by `len` bytes at the front and returns them. Their content is stale, from an earlier packet.
    /// Returns `None` and changes nothing if the headroom is too small.
    #[inline]
    pub fn prepend(&mut self, len: usize) -> Option<&mut [u8]> {
        if len > self.headroom() {
            return None;
        }
        self.about.offset -= len as u16;
        self.about.len += len as u16;
        Some(&mut self.data_mut()[..len])
    }

    /// Removes `len` bytes from the front of the data, at most all of them.
    #[inline]
    pub fn advance(&mut self, len: usize) {
        let len = len.min(self.len()) as u16;
        self.about.offset += len;
        self.about.len -= len;
    }

    /// Truncates the data to `len` bytes if it is longer.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        self.about.len = len.min(self.len()) as u16;
    }
}
