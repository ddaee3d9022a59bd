//! Actions on a private copy of a frame's head, and the edit that they amount to.
//!
//! An action that does not fit the packet is refused and changes nothing. Checksums and the CRC of SCTP are updated
//! with each change, so an invalid one remains invalid. A checksum that is left to an offload stays the sum of the
//! pseudo-header.

mod fields;
mod segment;
mod sums;
mod tags;
mod translate;
mod ttl;
mod tunnel;

use self::tunnel::OuterPlaces;
use super::{Layout, parse};
use crate::action::Action;
use crate::field::Field;
use crate::key::Key;
use port::{Edit, HEAD_HEADROOM, HEAD_SLOT, MAX_HEAD, Offload};

/// Bytes that are loaded and stored at once.
const WINDOW: usize = 16;
/// Bytes of a patch: the largest for which the maximum number of patches is within the maximum of their bytes.
const PATCH: usize = port::MAX_PATCHED / port::MAX_PATCHES;

/// Why an action was not executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ActionError {
    /// The packet has no such field.
    #[error("the packet has no field `{0}`, or its head is cut off before it")]
    Absent(&'static str),
    /// The packet has no such header.
    #[error("the packet has no {0}, or its head is cut off before the end of it")]
    NoHeader(&'static str),
    /// No action writes the field.
    #[error("field `{0}` cannot be written")]
    ReadOnly(&'static str),
    /// Not an EtherType of the pushed header.
    #[error("EtherType {0:#06x} is not that of the pushed header")]
    EtherType(u16),
    /// The frame has a length in place of the EtherType, which an MPLS label cannot follow.
    #[error("an IEEE 802.3 frame with a length has no place for an MPLS label")]
    HasLength,
    /// The time to live is 0 or 1.
    #[error("the time to live expired")]
    Expired,
    /// The CRC of a fragmented SCTP packet covers bytes of other fragments.
    #[error("the ports of a fragmented SCTP packet cannot be changed")]
    Fragment,
    /// The changes exceed the limits of an edit.
    #[error("the headers grow too long")]
    TooLong,
}

/// Range of a frame that differs from the frame received.
#[derive(Clone, Copy)]
struct Range {
    /// Offset of its start, which is the same in both frames.
    low: usize,
    /// Its end in the buffer. Later bytes have not moved there.
    high: usize,
}

impl Range {
    const EMPTY: Self = Self { low: usize::MAX, high: 0 };

    fn include(&mut self, low: usize, high: usize) {
        (self.low, self.high) = (self.low.min(low), self.high.max(high));
    }

    fn is_empty(&self) -> bool {
        self.high == 0
    }

    /// Bytes that the range had in the frame received.
    fn original(&self) -> usize {
        self.high - HEAD_HEADROOM - self.low
    }
}

/// One packet while actions are executed. Reused for many packets.
#[derive(Clone)]
pub struct Rewriter {
    /// The head, from `start` to `end`, with space for added headers before it and for a window after it. Its last
    /// bytes never move.
    bytes: [u8; HEAD_SLOT + WINDOW],
    start: usize,
    end: usize,
    /// Length of the frame.
    len: usize,
    key: Key,
    layout: Layout,
    /// Whether key and layout are those of before the last change of headers.
    is_stale: bool,
    /// Checksum that is left to an offload: where the checksummed part starts in `bytes`, and offset of the field.
    partial: Option<(usize, usize)>,
    /// All bytes that changed.
    changed: Range,
    /// Headers added or removed.
    headers: Range,
    /// Outer headers that were added.
    outer: Option<OuterPlaces>,
}

impl Default for Rewriter {
    fn default() -> Self {
        Self {
            bytes: [0; HEAD_SLOT + WINDOW],
            start: HEAD_HEADROOM,
            end: HEAD_HEADROOM,
            len: 0,
            key: Key::ZERO,
            layout: Layout::default(),
            is_stale: false,
            partial: None,
            changed: Range::EMPTY,
            headers: Range::EMPTY,
            outer: None,
        }
    }
}

impl Rewriter {
    /// A rewriter without packet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts with a frame of `len` bytes that begins with `head`, of which at most [`port::MAX_HEAD`] bytes are used.
    /// `key` and `layout` are those of [`parse`] for this frame.
    pub fn begin(&mut self, head: &[u8], len: usize, offload: Offload, key: &Key, layout: &Layout) {
        self.is_stale = head.len() > MAX_HEAD;
        let head = head.get(..MAX_HEAD).unwrap_or(head);
        self.start = HEAD_HEADROOM;
        self.end = HEAD_HEADROOM + head.len();
        self.bytes[HEAD_HEADROOM..self.end].copy_from_slice(head);
        (self.len, self.key, self.layout) = (len, *key, *layout);
        self.partial = offload.checksum().map(|(start, offset)| (HEAD_HEADROOM + start, offset));
        (self.changed, self.headers, self.outer) = (Range::EMPTY, Range::EMPTY, None);
    }

    /// The head as changed so far.
    pub fn head(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Length of the frame as changed so far.
    pub fn frame_len(&self) -> usize {
        self.len
    }

    /// The fields of the packet as changed so far.
    pub fn key(&mut self) -> &Key {
        self.refresh();
        &self.key
    }

    /// Where the headers are now.
    pub fn layout(&mut self) -> &Layout {
        self.refresh();
        &self.layout
    }

    fn refresh(&mut self) {
        if self.is_stale {
            self.layout = parse(&self.bytes[self.start..self.end], self.len, &mut self.key);
            self.is_stale = false;
        }
    }

    /// Executes an action that changes the packet, or a field of the key beside it. Returns `false` for other actions.
    ///
    /// # Errors
    /// If the action does not fit the packet.
    pub fn apply(&mut self, action: &Action) -> Result<bool, ActionError> {
        match action {
            Action::SetField { field, value, mask } => self.set(*field, *value, *mask)?,
            Action::Move { from, to } => {
                let value = self.key().get(from.field) >> from.offset;
                self.set(to.field, value << to.offset, to.mask())?;
            }
            Action::PushVlan(ethertype) => self.push_vlan(*ethertype)?,
            Action::PopVlan => self.pop_vlan()?,
            Action::PushMpls(ethertype) => self.push_mpls(*ethertype)?,
            Action::PopMpls(ethertype) => self.pop_mpls(*ethertype)?,
            Action::PushPbb(ethertype) => self.push_pbb(*ethertype)?,
            Action::PopPbb => self.pop_pbb()?,
            Action::SetMplsTtl(ttl) => self.set(Field::MplsTtl, (*ttl).into(), 0xff)?,
            Action::SetNwTtl(ttl) => self.set(Field::IpTtl, (*ttl).into(), 0xff)?,
            Action::DecMplsTtl => self.decrement(Field::MplsTtl)?,
            Action::DecNwTtl(_) => self.decrement(Field::IpTtl)?,
            Action::CopyTtlOut => self.copy_ttl_out()?,
            Action::CopyTtlIn => self.copy_ttl_in()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Whether the frame differs from the frame received.
    pub fn is_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// The edit that turns the frame received, which begins with `original`, into this one; `None` if they are equal.
    /// The data path uses [`Rewriter::write_edit`], which copies less.
    ///
    /// # Errors
    /// [`ActionError::TooLong`] if the changes exceed the limits of an edit.
    pub fn edit(&self, original: &[u8]) -> Result<Option<Edit>, ActionError> {
        let mut edit = Edit::default();
        self.write_edit(original, &mut edit)?;
        Ok(self.is_changed().then_some(edit))
    }

    /// [`Rewriter::edit`], written to an edit that changes nothing.
    ///
    /// # Errors
    /// As [`Rewriter::edit`].
    pub fn write_edit(&self, original: &[u8], edit: &mut Edit) -> Result<(), ActionError> {
        if self.splice(edit, self.changed).is_err() {
            self.patch(original, edit)?;
        } else if self.headers.is_empty() {
            edit.set_headers(0, 0, 0);
        } else {
            let Range { low, high } = self.headers;
            edit.set_headers(low, self.headers.original(), high - self.start - low);
        }
        if let Some(outer) = &self.outer {
            edit.set_outer(outer.headers(self.start));
        }
        Ok(())
    }

    /// Replaces a range of the frame received by that of this one.
    fn splice(&self, edit: &mut Edit, range: Range) -> Result<(), port::EditTooLong> {
        if range.is_empty() {
            return Ok(());
        }
        edit.set_splice(range.low, range.original(), &self.bytes[self.start + range.low..range.high])
    }

    /// Replaces only headers by a splice, and patches other bytes that differ.
    #[cold]
    fn patch(&self, original: &[u8], edit: &mut Edit) -> Result<(), ActionError> {
        self.splice(edit, self.headers).map_err(|_| ActionError::TooLong)?;
        let high = self.changed.high - self.start;
        let (before, after) = if self.headers.is_empty() {
            (0..0, self.changed.low..high)
        } else {
            (self.changed.low..self.headers.low, self.headers.high - self.start..high)
        };
        for (part, moved) in [(before, 0), (after, self.start.cast_signed() - HEAD_HEADROOM.cast_signed())] {
            for at in part.clone().step_by(PATCH) {
                let range = at..part.end.min(at + PATCH);
                let old = at.wrapping_add_signed(moved)..range.end.wrapping_add_signed(moved);
                if self.head().get(range.clone()) != original.get(old) {
                    edit.patch(at, &self.head()[range]).map_err(|_| ActionError::TooLong)?;
                }
            }
        }
        Ok(())
    }

    /// The 16 bytes at `at`, of which those after the end of the head have no meaning.
    #[inline(always)]
    fn window(&self, at: usize) -> [u8; WINDOW] {
        self.bytes.get(self.start + at..).and_then(|bytes| bytes.first_chunk()).copied().unwrap_or_default()
    }

    /// `N` bytes at `at`. Returns `None` if the head ends before.
    #[inline(always)]
    fn bytes_at<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.head().get(at..)?.first_chunk().copied()
    }

    /// Overwrites bytes of the head, which must contain them.
    #[inline(always)]
    fn overwrite<const N: usize>(&mut self, at: usize, new: [u8; N]) {
        let place = self.start + at;
        self.bytes[place..place + N].copy_from_slice(&new);
        self.changed.include(at, place + N);
    }

    /// Inserts bytes at `at`.
    fn insert<const N: usize>(&mut self, at: usize, new: [u8; N]) -> Result<(), ActionError> {
        let start = self.start.checked_sub(N).ok_or(ActionError::TooLong)?;
        self.bytes.copy_within(self.start..self.start + at, start);
        (self.start, self.len, self.is_stale) = (start, self.len + N, true);
        self.overwrite(at, new);
        self.headers.include(at, start + at + N);
        Ok(())
    }

    /// Removes `n` bytes at `at`.
    fn remove(&mut self, at: usize, n: usize) {
        self.bytes.copy_within(self.start..self.start + at, self.start + n);
        (self.start, self.len, self.is_stale) = (self.start + n, self.len - n, true);
        self.changed.include(at, self.start + at);
        self.headers.include(at, self.start + at);
    }
}
