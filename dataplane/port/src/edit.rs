//! Edits: differences between a packet as received and as sent.
//!
//! An edit belongs to one emission of one packet ([`crate::Verdicts::emit`]), so a packet can be sent several times
//! in different forms. It is applied to a copy of the packet's head, in a burst created for the output
//! ([`Burst::push_edited`]); the rest stays in place. An edit must never change the head in the received burst, which
//! other outputs and mirrors read.

use crate::burst::{ETHERNET_HEADER, HEADROOM};
use crate::soft_offload::Pieces;
use crate::{BadOffload, Burst, Capabilities, DropReason, HEAD, MAX_HEAD, Notes, Offload};
use mem::copy::Portable;

/// Maximum bytes inserted by an edit. VXLAN over IPv6 with a VLAN tag needs 74.
pub const MAX_INSERTED: usize = HEADROOM;
/// Maximum total bytes of an edit's patches: both IPv6 addresses and all fields of the other headers.
pub const MAX_PATCHED: usize = 96;
/// Maximum number of patches of an edit.
pub const MAX_PATCHES: usize = 12;

/// Least number of removed bytes after which the head of a packet is filled up with the bytes that follow: an IPv4
/// header.
const REFILLED: usize = 20;

/// An edit does not fit its limits ([`MAX_INSERTED`], [`MAX_PATCHED`], [`MAX_PATCHES`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the edit inserts more than 128 bytes, or patches more than 96 bytes or 12 places; split it up")]
pub struct EditTooLong;

/// Changes to the start of a packet: first a splice (bytes removed and inserted at one offset), then patches (bytes
/// overwritten). The default edit changes nothing.
#[derive(Clone, Copy, Debug)]
pub struct Edit {
    at: u16,
    strip: u16,
    inserted: u16,
    insert: [u8; MAX_INSERTED],
    /// The part of the splice that adds or removes headers: offset, bytes removed and bytes inserted.
    headers: (u16, u16, u16),
    patches: u16,
    /// Offset of each patch in the resulting packet, and its length.
    places: [(u16, u16); MAX_PATCHES],
    patch: [u8; MAX_PATCHED],
    /// Maximum length of the packet after the changes.
    keep: u32,
    /// Whether the splice inserts the outer headers of a tunnel.
    outer: Option<OuterHeaders>,
    /// Traffic class of the packet, in place of that of the source.
    class: Option<u8>,
    /// Edit to apply first.
    before: EditId,
}

/// Outer headers of a tunnel that an edit inserts, with offsets in the resulting packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OuterHeaders {
    /// Inner network header.
    pub network: u16,
    /// A checksum of the outer headers over everything from an offset on, and the offset of its field from there. The
    /// field has the sum of the pseudo header, or, if the payload has a checksum to be completed, the checksum.
    pub checksum: Option<(u16, u16)>,
}

impl Default for Edit {
    fn default() -> Self {
        Self {
            at: 0,
            strip: 0,
            inserted: 0,
            insert: [0; MAX_INSERTED],
            headers: (0, 0, 0),
            patches: 0,
            places: [(0, 0); MAX_PATCHES],
            patch: [0; MAX_PATCHED],
            keep: u32::MAX,
            outer: None,
            class: None,
            before: EditId::NONE,
        }
    }
}

impl Edit {
    /// Removes `strip` bytes at `at` and inserts `insert` there. `at` is 0 for an outer header and 12 for a VLAN tag.
    ///
    /// # Errors
    /// [`EditTooLong`] if `insert` is longer than [`MAX_INSERTED`].
    pub fn splice(at: usize, strip: usize, insert: &[u8]) -> Result<Self, EditTooLong> {
        let mut edit = Self::default();
        edit.set_splice(at, strip, insert)?;
        Ok(edit)
    }

    /// [`Edit::splice`] for an edit that changes nothing.
    ///
    /// # Errors
    /// As [`Edit::splice`]; then the edit still changes nothing.
    #[inline]
    pub fn set_splice(&mut self, at: usize, strip: usize, insert: &[u8]) -> Result<(), EditTooLong> {
        if at.max(strip) > HEAD || insert.len() > MAX_INSERTED {
            return Err(EditTooLong);
        }
        self.insert[..insert.len()].copy_from_slice(insert);
        (self.at, self.strip, self.inserted) = (at as u16, strip as u16, insert.len() as u16);
        self.headers = (self.at, self.strip, self.inserted);
        Ok(())
    }

    /// Makes this an edit that changes nothing. Bytes that it does not use keep their values.
    #[inline]
    fn reset(&mut self) {
        (self.at, self.strip, self.inserted, self.headers) = (0, 0, 0, (0, 0, 0));
        (self.patches, self.keep, self.outer, self.before) = (0, u32::MAX, None, EditId::NONE);
        self.class = None;
    }

    /// Makes this one, which was reset, equal to `other`, of which only the bytes in use are copied.
    fn copy_from(&mut self, other: &Self) {
        let (inserted, patches) = (usize::from(other.inserted), usize::from(other.patches));
        (self.at, self.strip, self.inserted, self.headers) =
            (other.at, other.strip, other.inserted, other.headers);
        self.insert[..inserted].copy_from_slice(&other.insert[..inserted]);
        (self.patches, self.keep, self.outer, self.before) =
            (other.patches, other.keep, other.outer, other.before);
        self.class = other.class;
        if patches > 0 {
            (self.places, self.patch) = (other.places, other.patch);
        }
    }

    /// States that only `inserted` bytes at `at`, in place of `strip` bytes, are headers added or removed by the
    /// splice. Its other bytes replace bytes of the same headers, as a patch does, so that offloads of these headers
    /// remain. By default the whole splice adds and removes headers. The difference of both numbers must be
    /// [`Edit::growth`].
    pub fn set_headers(&mut self, at: usize, strip: usize, inserted: usize) {
        debug_assert_eq!(inserted.cast_signed() - strip.cast_signed(), self.growth());
        self.headers = (at as u16, strip as u16, inserted as u16);
    }

    /// States that the inserted headers are outer headers of a tunnel, so that offloads of the payload remain.
    pub fn set_outer(&mut self, outer: OuterHeaders) {
        self.outer = Some(outer);
    }

    /// Puts the packet into this traffic class ([`crate::Notes::class`]).
    pub fn set_class(&mut self, class: u8) {
        self.class = Some(class);
    }

    /// Bytes behind the head that are needed in it after the edit, for the headers of a tunnel's payload.
    fn removed(&self) -> usize {
        let removed = usize::from(self.strip).saturating_sub(self.inserted.into());
        if removed < REFILLED { 0 } else { removed }
    }

    /// Overwrites `bytes` at `at` of the resulting packet.
    ///
    /// # Errors
    /// [`EditTooLong`] if [`MAX_PATCHES`] or [`MAX_PATCHED`] is exceeded.
    pub fn patch(&mut self, at: usize, bytes: &[u8]) -> Result<(), EditTooLong> {
        let used: usize = self.places().map(|(_, len)| len).sum();
        let room = self.patch.get_mut(used..used + bytes.len());
        let (Some(room), Some(place)) = (room, self.places.get_mut(usize::from(self.patches))) else {
            return Err(EditTooLong);
        };
        if at > usize::from(u16::MAX) {
            return Err(EditTooLong);
        }
        room.copy_from_slice(bytes);
        *place = (at as u16, bytes.len() as u16);
        self.patches += 1;
        Ok(())
    }

    /// Cuts the packet to `len` bytes, at least an Ethernet header, after all other changes. It has no offloads then.
    pub fn truncate(&mut self, len: u16) {
        self.keep = u32::from(len).max(ETHERNET_HEADER as u32);
    }

    /// Number of bytes by which the packet grows, without [`Edit::truncate`].
    pub fn growth(&self) -> isize {
        usize::from(self.inserted).cast_signed() - usize::from(self.strip).cast_signed()
    }

    /// Offset, number of removed bytes and inserted bytes, if the edit consists only of a splice.
    #[inline(always)]
    pub(crate) fn as_splice(&self) -> Option<(usize, usize, &[u8])> {
        let insert = &self.insert[..usize::from(self.inserted)];
        let is_splice = self.patches == 0 && self.before == EditId::NONE && self.keep == u32::MAX;
        is_splice.then_some((self.at.into(), self.strip.into(), insert))
    }

    fn places(&self) -> impl Iterator<Item = (usize, usize)> {
        self.places[..usize::from(self.patches)].iter().map(|&(at, len)| (at.into(), len.into()))
    }

    /// Writes the edited `head` to the start of `to`. Returns its length, or `None` if the edit exceeds the head.
    #[inline]
    pub(crate) fn apply(&self, head: &[u8], to: &mut [u8; HEADROOM + MAX_HEAD]) -> Option<usize> {
        let (at, inserted) = (usize::from(self.at), usize::from(self.inserted));
        let front = head.get(..at)?;
        let behind = head.get(at + usize::from(self.strip)..)?;
        let len = at + inserted + behind.len();
        to[..at].copy_from_slice(front);
        to[at..at + inserted].copy_from_slice(&self.insert[..inserted]);
        to.get_mut(at + inserted..len)?.copy_from_slice(behind);
        let mut from = 0;
        for (at, n) in self.places() {
            to[..len].get_mut(at..at + n)?.copy_from_slice(&self.patch[from..from + n]);
            from += n;
        }
        Some(len)
    }
}

/// Identifier of an edit of the burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EditId(u32);

impl EditId {
    /// No edit: the packet is sent as received.
    pub const NONE: EditId = EditId(0);
}

/// Edits of one burst.
#[derive(Debug, Default)]
pub struct Edits {
    /// The first `used` belong to this burst; the others keep their memory. An edit has several hundred bytes, few of
    /// which are used, so it is written where it stays.
    list: Vec<Edit>,
    used: usize,
    /// Whether any edit inserts outer headers, and whether any of them has a checksum.
    encapsulates: bool,
    has_checksum: bool,
    /// Whether any edit sets a traffic class.
    has_class: bool,
}

impl Edits {
    /// Adds an edit that `make` completes from one that changes nothing. The returned identifier is valid until the
    /// burst was sent to all outputs.
    #[inline]
    pub(crate) fn add_with<E>(&mut self, make: impl FnOnce(&mut Edit) -> Result<(), E>) -> Result<EditId, E> {
        if self.used == self.list.len() {
            self.list.push(Edit::default());
        }
        let edit = &mut self.list[self.used];
        edit.reset();
        make(edit)?;
        self.has_class |= edit.class.is_some();
        if let Some(outer) = edit.outer {
            self.encapsulates = true;
            self.has_checksum |= outer.checksum.is_some();
        }
        self.used += 1;
        Ok(EditId(self.used as u32))
    }

    /// Adds a copy of `edit`.
    #[inline]
    pub(crate) fn add(&mut self, edit: &Edit) -> EditId {
        let copy = |own: &mut Edit| {
            own.copy_from(edit);
            Ok::<_, std::convert::Infallible>(())
        };
        match self.add_with(copy) {
            Ok(id) => id,
        }
    }

    /// Upper bound of what an output needs to accept edited packets, of which the unedited ones need `needs`.
    #[inline(always)]
    pub fn needs(&self, needs: Capabilities) -> Capabilities {
        if self.encapsulates { needs.encapsulated(self.has_checksum) } else { needs }
    }

    /// Offloads that an output must support to accept a packet with these offloads after edit `id`.
    #[inline]
    pub fn needs_after(&self, id: EditId, offload: Offload) -> Capabilities {
        if !self.encapsulates {
            return offload.needs();
        }
        // The length is validated when the edit is applied.
        self.offload(id, offload, usize::MAX / 2).map_or(offload.needs(), |(offload, _)| offload.needs())
    }

    /// Bytes behind the head of a packet that are needed in it for edit `id`.
    fn removed(&self, id: EditId) -> usize {
        self.get(id).map_or(0, |edit| edit.removed() + self.removed(edit.before))
    }

    /// Adds an edit that applies `before`, then `edit`.
    pub(crate) fn chain(&mut self, before: EditId, edit: Option<&Edit>) -> EditId {
        let Some(edit) = edit else { return before };
        let id = self.add(edit);
        if let Some(own) = self.list[..self.used].last_mut() {
            own.before = before;
        }
        id
    }

    /// Number of bytes by which a packet grows, without truncation.
    pub fn growth(&self, id: EditId) -> isize {
        self.get(id).map_or(0, |edit| self.growth(edit.before) + edit.growth())
    }

    /// Length to which edit `id` truncates a packet.
    fn keep(&self, id: EditId) -> usize {
        self.get(id).map_or(usize::MAX, |edit| edit.keep as usize)
    }

    /// Traffic class that edit `id` sets.
    pub(crate) fn class(&self, id: EditId) -> Option<u8> {
        let edit = self.get(id)?;
        edit.class.or_else(|| self.class(edit.before))
    }

    /// Offloads and length of a packet of `len` bytes after edit `id`.
    fn offload(&self, id: EditId, offload: Offload, len: usize) -> Result<(Offload, usize), BadOffload> {
        let Some(edit) = self.get(id) else { return Ok((offload, len)) };
        let (offload, len) = self.offload(edit.before, offload, len)?;
        let len = len.checked_add_signed(edit.growth()).ok_or(BadOffload)?;
        let (at, strip, inserted) = edit.headers;
        let splice = (at.into(), strip.into(), inserted.into());
        let offload = match edit.outer {
            None => offload.spliced(splice, len)?,
            Some(outer) => offload.encapsulated(splice, len, (outer.network, outer.checksum))?,
        };
        Ok((offload, len))
    }

    /// Writes `head`, modified by `id`, to the start of `to`. Returns its length, or `None` if an edit exceeds the
    /// head.
    fn apply(&self, id: EditId, head: &[u8], to: &mut [u8; HEADROOM + MAX_HEAD]) -> Option<usize> {
        let edit = self.get(id)?;
        if edit.before == EditId::NONE {
            return edit.apply(head, to);
        }
        let mut before = [0; HEADROOM + MAX_HEAD];
        let len = self.apply(edit.before, head, &mut before)?;
        edit.apply(&before[..len], to)
    }

    /// Edit of an identifier. Returns `None` for [`EditId::NONE`].
    #[inline]
    pub fn get(&self, id: EditId) -> Option<&Edit> {
        self.list[..self.used].get((id.0 as usize).wrapping_sub(1))
    }

    /// Number of edits.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.used
    }

    /// Removes all edits.
    #[inline]
    pub fn clear(&mut self) {
        self.used = 0;
        (self.encapsulates, self.has_checksum, self.has_class) = (false, false, false);
    }
}

impl Burst {
    /// Adds the first packets of `indices`, as long as they have the edit of the first one and it is simple: then this
    /// is [`Burst::push_edited`] for many packets. Returns their number, which may be 0. `edit` returns the edit of the
    /// packet at a place of `indices`.
    #[inline]
    pub fn push_alike(
        &mut self,
        source: &Burst,
        indices: &[u8],
        edits: &Edits,
        edit: impl Fn(usize) -> EditId,
    ) -> usize {
        let id = edit(0);
        let Some(of_all) = edits.get(id) else { return 0 };
        // Otherwise headers behind the head may be needed in it.
        let is_complete = of_all.removed() == 0 || source.is_whole();
        if !is_complete || edits.has_checksum || edits.has_class || !source.is_bare() {
            return 0;
        }
        let alike = (0..indices.len()).take_while(|place| edit(*place) == id).count();
        self.push_spliced(source, &indices[..alike], of_all)
    }

    /// Adds packet `i` of `source`, modified by edit `id`, with its notes: a private head and the unchanged rest in
    /// place. The burst must have been started with [`Burst::begin_from`].
    ///
    /// # Errors
    /// The reason if nothing was added. [`DropReason::TooShort`]: the edit exceeds the packet's head, or leaves less
    /// than an Ethernet header. [`DropReason::BadOffload`]: the edit makes an offload of the packet impossible.
    pub fn push_edited(
        &mut self,
        source: &Burst,
        i: usize,
        edits: &Edits,
        id: EditId,
    ) -> Result<(), DropReason> {
        let number = match edits.get(id) {
            None => self.push_derived(source.head(i), source.frame(i).rest()),
            Some(edit) => match self.push_spliced(source, &[i as u8], edit) {
                0 => self.push_by_copy(source, i, edits, id),
                _ => Some(self.refilled(self.len() - 1, edits.removed(id))),
            },
        };
        let number = number.ok_or(DropReason::TooShort)?;
        let keep = edits.keep(id);
        if self.frame_len(number) > keep {
            self.truncate_derived(keep);
            self.note_edited(number, (source, i), edits, id);
            return Ok(());
        }
        if source.is_bare() && !edits.has_checksum && !edits.has_class {
            Ok(())
        } else {
            self.take_over(number, (source, i), edits, id)
        }
    }

    /// Offloads that packet `i` needs after edit `id`, as far as that does not depend on its headers: none if the edit
    /// truncates it.
    #[inline]
    pub fn offload_after(&self, i: usize, edits: &Edits, id: EditId) -> Offload {
        let is_cut =
            id != EditId::NONE && self.frame_len(i).saturating_add_signed(edits.growth(id)) > edits.keep(id);
        if is_cut { Offload::NONE } else { self.offload(i) }
    }

    /// Copies notes and offloads of packet `i` of `source` to packet `number`, which must be the last one.
    #[inline(never)]
    fn take_over(
        &mut self,
        number: usize,
        (source, i): (&Burst, usize),
        edits: &Edits,
        id: EditId,
    ) -> Result<(), DropReason> {
        self.note_edited(number, (source, i), edits, id);
        let Ok((offload, _)) = edits.offload(id, source.offload(i), source.frame_len(i)) else {
            self.pop_derived();
            return Err(DropReason::BadOffload);
        };
        self.set_offload(number, offload);
        Ok(())
    }

    /// Copies the notes of packet `i` of `source` to packet `number`, which is in the class that edit `id` sets.
    fn note_edited(&mut self, number: usize, (source, i): (&Burst, usize), edits: &Edits, id: EditId) {
        self.copy_notes(number, source, i);
        if let Some(class) = edits.class(id) {
            self.set_notes(number, Notes { class, ..self.notes(number) });
        }
    }

    /// Fills up the head of packet `number` with the `removed` bytes behind it, as far as there are so many. Returns
    /// `number`.
    #[inline]
    fn refilled(&mut self, number: usize, removed: usize) -> usize {
        let (head, len) = (self.head(number).len(), self.frame_len(number));
        if removed > 0 && head < len {
            let is_filled = self.pull::<Portable>(number, (head + removed).min(len));
            debug_assert!(is_filled, "the head was as long before the edit");
        }
        number
    }

    /// Slow path for any head and edit. The head is extended by as many bytes as the edit removes.
    #[inline(never)]
    fn push_by_copy(&mut self, source: &Burst, i: usize, edits: &Edits, id: EditId) -> Option<usize> {
        let (frame, mut head) = (source.frame(i), [0; HEADROOM + MAX_HEAD]);
        let (mut original, mut rest) = ([0; HEADROOM + MAX_HEAD], Pieces::default());
        let most = source.frame_len(i).min(original.len());
        let have = (frame.head.len() + edits.removed(id)).min(most).max(frame.head.len());
        frame.copy_to::<Portable>(original.get_mut(..have)?);
        rest.skip(&frame, have - frame.head.len());
        let len = edits.apply(id, &original[..have], &mut head)?;
        if len + source.frame_len(i) - have < ETHERNET_HEADER {
            return None;
        }
        self.push_derived(&head[..len], rest.take(&frame, usize::MAX))
    }
}

#[cfg(test)]
mod tests;
