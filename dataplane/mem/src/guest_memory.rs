//! Guest memory: the memory regions of one front end, and address translation.
//!
//! A [`GuestMemory`] is immutable; adding or removing a region creates a new one that shares the other regions. The
//! fast path holds a [`Translator`], which tries the region of the last hit first and holds a reference to its
//! `GuestMemory`: its segments stay mapped while the translator or a clone of that reference lives.

use crate::{Region, VolatileSlice, sigbus};
use std::sync::Arc;

/// Maximum number of regions of one front end, as reported by vhost-user `GET_MAX_MEM_SLOTS`.
pub const MAX_REGIONS: usize = 509;

/// Invalid set of regions. The front end's message is rejected and the old memory table stays in effect.
#[derive(Debug, thiserror::Error)]
pub enum GuestMemoryError {
    /// Two regions overlap in guest addresses.
    #[error("the region at guest address {0:#x} overlaps another region")]
    Overlap(u64),
    /// More than [`MAX_REGIONS`].
    #[error("a front end may have at most 509 memory regions")]
    TooMany,
    /// No region matches the one to remove.
    #[error("no region at guest address {0:#x} with these addresses exists")]
    Unknown(u64),
}

/// The regions of one front end, sorted by guest address.
#[derive(Debug, Default)]
pub struct GuestMemory {
    regions: Vec<Arc<Region>>,
}

impl GuestMemory {
    /// Creates a memory table of these regions, which must not overlap in guest addresses.
    pub fn new(mut regions: Vec<Arc<Region>>) -> Result<Self, GuestMemoryError> {
        if regions.len() > MAX_REGIONS {
            return Err(GuestMemoryError::TooMany);
        }
        regions.sort_by_key(|r| r.spec().guest);
        for pair in regions.windows(2) {
            if pair[0].spec().guest + pair[0].spec().len > pair[1].spec().guest {
                return Err(GuestMemoryError::Overlap(pair[1].spec().guest));
            }
        }
        Ok(Self { regions })
    }

    /// A copy with one more region.
    pub fn with(&self, region: Arc<Region>) -> Result<Self, GuestMemoryError> {
        let mut regions = self.regions.clone();
        regions.push(region);
        Self::new(regions)
    }

    /// A copy without the region of this guest address, user address and length.
    pub fn without(&self, guest: u64, user: u64, len: u64) -> Result<Self, GuestMemoryError> {
        let same = |r: &Arc<Region>| {
            let s = r.spec();
            s.guest == guest && s.user == user && s.len == len
        };
        if !self.regions.iter().any(same) {
            return Err(GuestMemoryError::Unknown(guest));
        }
        Ok(Self { regions: self.regions.iter().filter(|r| !same(r)).cloned().collect() })
    }

    /// Regions, sorted by guest address.
    pub fn regions(&self) -> &[Arc<Region>] {
        &self.regions
    }

    /// Whether the file of any region was truncated while mapped.
    pub fn is_lost(&self) -> bool {
        self.regions.iter().any(|r| r.is_lost())
    }

    /// `len` bytes at a front-end virtual address. Returns `None` if no single region holds them all.
    pub fn by_user(&self, user: u64, len: u32) -> Option<VolatileSlice> {
        self.regions.iter().find_map(|r| {
            let offset = user.checked_sub(r.spec().user)?;
            r.seg(offset, len)
        })
    }

    /// The guest address of a segment. Returns `None` if the segment is not inside a region of this memory table.
    pub fn guest_address(&self, seg: VolatileSlice) -> Option<u64> {
        self.regions.iter().find_map(|region| {
            let offset = (seg.addr() as u64).checked_sub(region.base().as_ptr() as u64)?;
            (offset + seg.len() as u64 <= region.spec().len).then(|| region.spec().guest + offset)
        })
    }

    fn find(&self, guest: u64) -> Option<&Arc<Region>> {
        let after = self.regions.partition_point(|r| r.spec().guest <= guest);
        let region = self.regions.get(after.checked_sub(1)?)?;
        (guest - region.spec().guest < region.spec().len).then_some(region)
    }
}

/// Bytes mapped after every [`Wide`] segment: how far a reader of whole lines may read beyond its end.
pub const MARGIN: usize = 128;

/// Maximum length of a [`Wide`] segment, in bytes: a 64 KiB frame with any header.
pub const MAX_WIDE: u32 = 66_000;

/// A segment followed by at least [`MARGIN`] bytes of the same region, so that its bytes can be read in whole lines.
/// The margin belongs to the same guest.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Wide(VolatileSlice);

impl Wide {
    /// `len` bytes from `offset` of `whole`. Returns `None` if they or the margin after them exceed `whole`.
    #[inline(always)]
    pub fn slice(whole: VolatileSlice, offset: usize, len: usize) -> Option<Self> {
        if offset.checked_add(len)?.checked_add(MARGIN)? > whole.len() {
            return None;
        }
        Some(Self(whole.split_at(offset).1.split_at(len).0))
    }

    /// Wraps `seg`. The caller guarantees the margin.
    #[inline(always)]
    pub(crate) fn inside(seg: VolatileSlice) -> Self {
        Self(seg)
    }

    /// The segment.
    #[inline(always)]
    pub fn seg(self) -> VolatileSlice {
        self.0
    }

    /// The first `at` bytes and the rest. If `at` is beyond the end, the rest is empty.
    #[inline(always)]
    pub fn split_at(self, at: usize) -> (VolatileSlice, Wide) {
        let (first, rest) = self.0.split_at(at);
        (first, Wide(rest))
    }
}

/// The part of one region in which every address can start a [`Wide`] segment. A copy of a translator's last hit that
/// stays in registers; segments are valid while the translator's memory table lives.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    guest: u64,
    /// Upper bound (exclusive) for segment offsets.
    end: u64,
    base: VolatileSlice,
}

impl Window {
    const NONE: Window = Window { guest: 0, end: 0, base: VolatileSlice::EMPTY };

    /// `len` bytes at guest address `guest`. Returns `None` if they are not in the window, even if another region holds
    /// them.
    #[inline(always)]
    pub fn translate(&self, guest: u64, len: u32) -> Option<Wide> {
        let offset = guest.wrapping_sub(self.guest);
        if offset >= self.end || len > MAX_WIDE {
            return None;
        }
        Some(Wide(VolatileSlice::offset_in(self.base, offset as usize, len)))
    }
}

/// Address translation with a one-entry cache: the region of the last hit is tried first.
#[derive(Debug)]
pub struct Translator {
    map: Arc<GuestMemory>,
    guest: u64,
    len: u64,
    base: VolatileSlice,
    /// `sigbus::trips()` at the last loss check that found none; `None` if the next call must check.
    trips: Option<u64>,
}

impl Translator {
    /// Creates a translator over `map`.
    pub fn new(map: Arc<GuestMemory>) -> Self {
        Self { map, guest: 0, len: 0, base: VolatileSlice::EMPTY, trips: None }
    }

    /// The memory table of this translator.
    #[inline(always)]
    pub fn map(&self) -> &Arc<GuestMemory> {
        &self.map
    }

    /// Whether the file of any region was truncated while mapped. Costs one atomic load unless a loss has occurred in
    /// the process; call once per burst.
    #[inline(always)]
    pub fn is_lost(&mut self) -> bool {
        let trips = sigbus::trips();
        self.trips != Some(trips) && self.look_for_loss(trips)
    }

    #[cold]
    fn look_for_loss(&mut self, trips: u64) -> bool {
        let lost = self.map.is_lost();
        // A loss is permanent: `None` makes the next call check again.
        self.trips = (!lost).then_some(trips);
        lost
    }

    /// `len` bytes at guest address `guest`. Returns `None` if no single region holds them all.
    #[inline(always)]
    pub fn translate(&mut self, guest: u64, len: u32) -> Option<VolatileSlice> {
        let offset = guest.wrapping_sub(self.guest);
        if offset >= self.len || u64::from(len) > self.len - offset {
            return self.translate_elsewhere(guest, len);
        }
        Some(VolatileSlice::offset_in(self.base, offset as usize, len))
    }

    /// The window of the region of the last hit.
    #[inline]
    pub fn window(&self) -> Window {
        // A segment of maximum length and its margin end inside the region.
        match self.len.checked_sub(u64::from(MAX_WIDE) + MARGIN as u64) {
            Some(last) => Window { guest: self.guest, end: last + 1, base: self.base },
            None => Window::NONE,
        }
    }

    /// [`Translator::translate`] for addresses outside the window. Also returns the window of the region that was hit.
    #[cold]
    pub fn beyond_window(&mut self, guest: u64, len: u32) -> (Option<VolatileSlice>, Window) {
        let seg = self.translate(guest, len);
        (seg, self.window())
    }

    /// Splits the `len` bytes at `guest` at region boundaries and calls `piece` for each part, until it returns
    /// `false`. Returns `None` if a byte before that is not mapped; `piece` may then have been called for earlier
    /// parts.
    pub fn pieces(
        &mut self,
        guest: u64,
        len: u32,
        mut piece: impl FnMut(VolatileSlice) -> bool,
    ) -> Option<()> {
        let (mut at, mut left) = (guest, len);
        while left > 0 {
            let region = self.map.find(at)?;
            let inside = (region.spec().guest + region.spec().len - at).min(u64::from(left)) as u32;
            if !piece(region.seg(at - region.spec().guest, inside)?) {
                break;
            }
            at = at.checked_add(u64::from(inside))?;
            left -= inside;
        }
        Some(())
    }

    #[cold]
    #[inline(never)]
    fn translate_elsewhere(&mut self, guest: u64, len: u32) -> Option<VolatileSlice> {
        let region = self.map.find(guest)?;
        let seg = region.seg(guest - region.spec().guest, len)?;
        (self.guest, self.len) = (region.spec().guest, region.spec().len);
        self.base = VolatileSlice::new(region.base(), 0);
        Some(seg)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(regions: &[(u64, u64)]) -> GuestMemory {
        GuestMemory::new(
            regions.iter().map(|&(g, l)| Arc::new(Region::heap(g, g + 0x1_0000_0000, l))).collect(),
        )
        .unwrap()
    }

    #[test]
    fn address_translates_only_within_its_region() {
        let mut t = Translator::new(Arc::new(map(&[(0x1000, 0x1000), (0x2000, 0x1000), (0x8000, 0x1000)])));
        assert_eq!(t.translate(0x1800, 0x800).unwrap().len(), 0x800);
        assert!(t.translate(0x1800, 0x801).is_none(), "a segment lies in one region");
        assert!(t.translate(0x8000, 0x1000).is_some());
        assert!(t.translate(0x3000, 1).is_none());
        assert!(t.translate(0x0, 1).is_none());
        assert!(t.translate(u64::MAX, u32::MAX).is_none());
        assert!(t.translate(0x8fff, u32::MAX).is_none());
    }

    #[test]
    fn window_covers_only_ranges_with_margin() {
        let len = 2 * u64::from(MAX_WIDE);
        let mut t = Translator::new(Arc::new(map(&[(0x1000, 0x800), (0x10_0000, len)])));
        assert!(t.window().translate(0x10_0000, 1).is_none(), "nothing was hit yet");
        assert!(t.window().translate(u64::MAX, 1).is_none());
        t.translate(0x1000, 1).unwrap();
        assert!(t.window().translate(0x1000, 1).is_none(), "the region is shorter than a segment may be");
        let whole = t.translate(0x10_0000, 8).unwrap();
        let (window, last) = (t.window(), len - u64::from(MAX_WIDE) - MARGIN as u64);
        assert_eq!(window.translate(0x10_0000, 8).unwrap().seg(), whole);
        assert!(window.translate(0x10_0000 + last, MAX_WIDE).is_some());
        assert!(window.translate(0x10_0000 + last + 1, 1).is_none());
        assert!(window.translate(0x10_0000, MAX_WIDE + 1).is_none());
        assert!(window.translate(0xf_ffff, 1).is_none());
    }

    #[test]
    fn range_across_regions_is_split() {
        let mut t = Translator::new(Arc::new(map(&[(0x1000, 0x1000), (0x2000, 0x1000)])));
        let mut lens = vec![];
        let mut note = |s: VolatileSlice| {
            lens.push(s.len());
            true
        };
        assert!(t.pieces(0x1ff0, 0x30, &mut note).is_some());
        assert_eq!(lens, [0x10, 0x20]);
        assert!(t.pieces(0x2ff0, 0x30, |_| true).is_none());
    }

    #[test]
    fn wide_slice_has_its_margin() {
        let region = Region::heap(0, 0, 1024);
        let whole = region.seg(0, 1024).unwrap();
        assert_eq!(Wide::slice(whole, 96, 800).map(Wide::seg), region.seg(96, 800));
        assert!(Wide::slice(whole, 97, 800).is_none() && Wide::slice(whole, usize::MAX, 1).is_none());
    }

    #[test]
    fn slice_maps_back_to_its_guest_address() {
        let map = Arc::new(map(&[(0x1000, 0x1000), (0x8000, 0x1000)]));
        let mut t = Translator::new(map.clone());
        for (address, len) in [(0x1000, 0x1000), (0x1fff, 1), (0x8010, 0x20)] {
            assert_eq!(map.guest_address(t.translate(address, len).unwrap()), Some(address));
        }
        assert_eq!(map.guest_address(VolatileSlice::EMPTY), None);
    }

    #[test]
    fn overlapping_regions_are_rejected_and_removal_needs_all_values() {
        let a = Arc::new(Region::heap(0x1000, 0x1000, 0x1000));
        let b = Arc::new(Region::heap(0x1fff, 0x5000, 0x1000));
        let one = GuestMemory::new(vec![a]).unwrap();
        assert!(matches!(one.with(b), Err(GuestMemoryError::Overlap(0x1fff))));
        assert!(matches!(one.without(0x1000, 0x1000, 0x800), Err(GuestMemoryError::Unknown(0x1000))));
        assert!(one.without(0x1000, 0x1000, 0x1000).unwrap().regions().is_empty());
    }
}
