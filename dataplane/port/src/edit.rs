//! Edits: differences between a packet as received and as sent.
//!
//! An edit belongs to one emission of one packet ([`crate::Verdicts::emit`]), so a packet can be sent several times
//! in different forms. It is applied to a copy of the packet's head, in a burst created for the output
//! ([`Burst::push_edited`]); the rest stays in place. An edit must never change the head in the received burst, which
//! other outputs and mirrors read.

use crate::burst::{ETHERNET_HEADER, HEADROOM};
use crate::{BadOffload, Burst, DropReason, HEAD, MAX_HEAD, Offload};

/// Maximum bytes inserted by an edit. VXLAN over IPv6 with a VLAN tag needs 74.
pub const MAX_INSERTED: usize = HEADROOM;
/// Maximum total bytes of an edit's patches: both IPv6 addresses and all fields of the other headers.
pub const MAX_PATCHED: usize = 96;
/// Maximum number of patches of an edit.
pub const MAX_PATCHES: usize = 12;

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
    patches: u16,
    /// Offset of each patch in the resulting packet, and its length.
    places: [(u16, u16); MAX_PATCHES],
    patch: [u8; MAX_PATCHED],
    /// Edit to apply first.
    before: EditId,
}

impl Default for Edit {
    fn default() -> Self {
        Self {
            at: 0,
            strip: 0,
            inserted: 0,
            insert: [0; MAX_INSERTED],
            patches: 0,
            places: [(0, 0); MAX_PATCHES],
            patch: [0; MAX_PATCHED],
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
        let mut edit = Self { at: at as u16, strip: strip as u16, ..Self::default() };
        if at.max(strip) > HEAD || insert.len() > MAX_INSERTED {
            return Err(EditTooLong);
        }
        edit.insert[..insert.len()].copy_from_slice(insert);
        edit.inserted = insert.len() as u16;
        Ok(edit)
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

    /// Number of bytes by which the packet grows.
    pub fn growth(&self) -> isize {
        usize::from(self.inserted).cast_signed() - usize::from(self.strip).cast_signed()
    }

    /// Offset, number of removed bytes and inserted bytes, if the edit consists only of a splice.
    #[inline(always)]
    pub(crate) fn as_splice(&self) -> Option<(usize, usize, &[u8])> {
        let insert = &self.insert[..usize::from(self.inserted)];
        let is_splice = self.patches == 0 && self.before == EditId::NONE;
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
pub struct Edits(Vec<Edit>);

impl Edits {
    /// Adds an edit. The returned identifier is valid until the burst was sent to all outputs.
    #[inline]
    pub(crate) fn add(&mut self, edit: &Edit) -> EditId {
        self.0.push(*edit);
        EditId(self.0.len() as u32)
    }

    /// Adds an edit that applies `before`, then `edit`.
    pub(crate) fn chain(&mut self, before: EditId, edit: Option<&Edit>) -> EditId {
        edit.map_or(before, |edit| self.add(&Edit { before, ..*edit }))
    }

    /// Offloads and length of a packet of `len` bytes after edit `id`.
    fn offload(&self, id: EditId, offload: Offload, len: usize) -> Result<(Offload, usize), BadOffload> {
        let Some(edit) = self.get(id) else { return Ok((offload, len)) };
        let (offload, len) = self.offload(edit.before, offload, len)?;
        let len = len.checked_add_signed(edit.growth()).ok_or(BadOffload)?;
        let splice = (edit.at.into(), edit.strip.into(), edit.inserted.into());
        Ok((offload.spliced(splice, len)?, len))
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
        self.0.get((id.0 as usize).wrapping_sub(1))
    }

    /// Number of edits.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Removes all edits.
    #[inline]
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

impl Burst {
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
            None => self.push_made(source.head(i), source.frame(i).rest()),
            Some(edit) => match self.push_spliced(source, i, edit) {
                None => self.push_by_copy(source, i, edits, id),
                number => number,
            },
        };
        let number = number.ok_or(DropReason::TooShort)?;
        if source.is_bare() { Ok(()) } else { self.take_over(number, (source, i), edits, id) }
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
        self.copy_notes(number, source, i);
        let Ok((offload, _)) = edits.offload(id, source.offload(i), source.frame_len(i)) else {
            self.pop_made();
            return Err(DropReason::BadOffload);
        };
        self.set_offload(number, offload);
        Ok(())
    }

    /// Slow path for any head and edit.
    #[cold]
    fn push_by_copy(&mut self, source: &Burst, i: usize, edits: &Edits, id: EditId) -> Option<usize> {
        let (frame, mut head) = (source.frame(i), [0; HEADROOM + MAX_HEAD]);
        let len = edits.apply(id, frame.head, &mut head)?;
        if len + source.frame_len(i) - frame.head.len() < ETHERNET_HEADER {
            return None;
        }
        self.push_made(&head[..len], frame.rest())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BufId, Offload};
    use mem::copy::Portable;
    use mem::{GuestMemory, Region};
    use proptest::prelude::*;
    use std::sync::Arc;

    fn burst(frame: &[u8]) -> Burst {
        let mut burst = Burst::new();
        burst.begin(0);
        assert!(burst.push_own(frame));
        burst
    }

    fn edited(frame: &[u8], edit: &Edit) -> Option<Vec<u8>> {
        edited_by(frame, &[*edit])
    }

    /// The frame after all edits, applied in order.
    fn edited_by(frame: &[u8], chain: &[Edit]) -> Option<Vec<u8>> {
        let (source, mut made, mut edits) = (burst(frame), Burst::new(), Edits::default());
        let id = chain.iter().fold(EditId::NONE, |before, edit| edits.chain(before, Some(edit)));
        made.begin_from(&source);
        made.push_edited(&source, 0, &edits, id).ok()?;
        let mut bytes = vec![0; made.frame_len(0)];
        assert_eq!(made.frame(0).copy_to::<Portable>(&mut bytes), bytes.len());
        assert_eq!(source.head(0), frame, "the received packet is unchanged");
        Some(bytes)
    }

    #[test]
    fn edit_beyond_its_packet_adds_nothing() {
        assert_eq!(edited(&[1; 20], &Edit::splice(12, 9, &[]).unwrap()), None);
        let mut edit = Edit::splice(0, 10, &[]).unwrap();
        edit.patch(9, &[0; 2]).unwrap();
        assert_eq!(edited(&[1; 20], &edit), None);
    }

    #[test]
    fn an_edit_that_leaves_less_than_an_ethernet_header_adds_nothing() {
        assert_eq!(edited(&[1; 60], &Edit::splice(0, 47, &[]).unwrap()), None);
        assert_eq!(edited(&[1; 60], &Edit::splice(0, 46, &[]).unwrap()), Some(vec![1; 14]));
        let mut patched = Edit::splice(0, 60, &[]).unwrap();
        patched.patch(0, &[]).unwrap();
        assert_eq!(edited(&[1; 60], &patched), None);
        let chain = [Edit::splice(0, 20, &[]).unwrap(), Edit::splice(0, 30, &[]).unwrap()];
        assert_eq!(edited_by(&[1; 60], &chain), None);
    }

    #[test]
    fn a_short_private_head_is_compared_with_its_own_bytes() {
        let bytes = vec![7; 400];
        let region = Arc::new(Region::of_bytes(bytes.into()).unwrap());
        let map = Arc::new(GuestMemory::new(vec![region.clone()]).unwrap());
        let (mut source, mut made, mut edits) = (Burst::new(), Burst::new(), Edits::default());
        source.begin(0);
        source.pin(&map);
        source.push(BufId::default(), region.seg(0, 400).unwrap());
        source.load_heads::<Portable>();
        // The edit leaves 8 bytes of the head; the frame is long enough.
        let id = edits.add(&Edit::splice(0, HEAD - 8, &[]).unwrap());
        made.begin_from(&source);
        made.push_edited(&source, 0, &edits, id).unwrap();
        assert_eq!((made.head(0), made.frame_len(0)), (&[7; 8][..], 400 - HEAD + 8));
        assert_eq!((made.alike(&[7; 8]), made.alike(&[7; 12])), (1, 0));
    }

    #[test]
    fn notes_follow_edited_and_unedited_packets() {
        let (mut source, mut made, mut edits) = (burst(&[1; 60]), Burst::new(), Edits::default());
        let notes = crate::Notes { tunnel: 5, class: 2, ..crate::Notes::default() };
        source.set_notes(0, notes);
        let mut patched = Edit::splice(0, 0, &[]).unwrap();
        patched.patch(0, &[9]).unwrap();
        let ids = [edits.add(&Edit::splice(12, 0, &[0; 4]).unwrap()), edits.add(&patched), EditId::NONE];
        made.begin_from(&source);
        for id in &ids {
            made.push_edited(&source, 0, &edits, *id).unwrap();
        }
        assert_eq!([0, 1, 2].map(|i| made.notes(i)), [notes; 3]);
    }

    #[test]
    fn offloads_follow_edited_and_unedited_packets() {
        let mut source = burst(&[1; 100]);
        source.set_offload(0, Offload::with_checksum(34, 16));
        let mut made = Burst::new();
        made.begin_from(&source);
        let edit = Edit::splice(12, 0, &[0; 4]).unwrap();
        let mut edits = Edits::default();
        let id = edits.add(&edit);
        made.push_edited(&source, 0, &edits, EditId::NONE).unwrap();
        let to_the_checksum = edits.add(&Edit::splice(0, 34, &[]).unwrap());
        assert_eq!(made.push_edited(&source, 0, &edits, to_the_checksum), Err(DropReason::BadOffload));
        made.push_edited(&source, 0, &edits, id).unwrap();
        assert_eq!((made.len(), made.offload(0)), (2, Offload::with_checksum(34, 16)));
        assert_eq!((made.offload(1), made.frame_len(1)), (Offload::with_checksum(38, 16), 104));
    }

    #[test]
    fn decapsulation_clears_the_outer_checksum_offload() {
        let mut source = burst(&[1; 110]);
        source.set_offload(0, Offload::with_checksum(34, 6));
        let (mut made, mut edits) = (Burst::new(), Edits::default());
        let inner = edits.add(&Edit::splice(0, 50, &[]).unwrap());
        let outer = edits.chain(inner, Some(&Edit::splice(0, 0, &[9; 54]).unwrap()));
        made.begin_from(&source);
        made.push_edited(&source, 0, &edits, outer).unwrap();
        assert_eq!((made.frame_len(0), made.offload(0)), (114, Offload::NONE));
    }

    #[test]
    fn pulled_head_is_edited_completely() {
        let bytes: Vec<u8> = (0..400).map(|i| (i % 251) as u8).collect();
        let region = Arc::new(Region::of_bytes(bytes.clone().into()).unwrap());
        let map = Arc::new(GuestMemory::new(vec![region.clone()]).unwrap());
        for pulled in [HEAD, 140, 150, MAX_HEAD] {
            for (at, insert) in [(0, 50), (12, 4), (12, 0), (0, 0)] {
                let (mut source, mut made) = (Burst::new(), Burst::new());
                source.begin(0);
                source.pin(&map);
                source.push(BufId::default(), region.seg(0, 400).unwrap());
                source.load_heads::<Portable>();
                assert!(source.pull_head::<Portable>(0, pulled));
                made.begin_from(&source);
                let edit = Edit::splice(at, 0, &vec![9; insert]).unwrap();
                let mut edits = Edits::default();
                let id = edits.add(&edit);
                made.push_edited(&source, 0, &edits, id).unwrap();
                let mut read = vec![0; made.frame_len(0)];
                made.frame(0).copy_to::<Portable>(&mut read);
                assert_eq!(
                    read,
                    [&bytes[..at], &vec![9; insert], &bytes[at..]].concat(),
                    "{pulled} {at} {insert}"
                );
            }
        }
    }

    #[test]
    fn edits_apply_in_order() {
        let mut relabel = Edit::splice(0, 6, &[8; 4]).unwrap();
        relabel.patch(4, &[1, 2]).unwrap();
        let chain = [Edit::splice(0, 10, &[]).unwrap(), Edit::splice(12, 0, &[9; 4]).unwrap(), relabel];
        let frame: Vec<u8> = (0..60).collect();
        let wanted = [&[8; 4][..], &[1, 2], &frame[18..22], &[9; 4], &frame[22..]].concat();
        assert_eq!(edited_by(&frame, &chain), Some(wanted));
        assert_eq!(
            edited_by(&frame[..14], &chain),
            None,
            "the second exceeds the packet that the first leaves"
        );
    }

    #[test]
    fn an_edit_has_limits() {
        assert!(Edit::splice(0, 0, &[0; MAX_INSERTED]).is_ok());
        assert_eq!(Edit::splice(0, 0, &[0; MAX_INSERTED + 1]).unwrap_err(), EditTooLong);
        let mut edit = Edit::default();
        assert_eq!(edit.patch(0, &[0; MAX_PATCHED + 1]), Err(EditTooLong));
        (0..MAX_PATCHES).for_each(|at| edit.patch(at, &[7]).unwrap());
        assert_eq!(edit.patch(0, &[7]), Err(EditTooLong));
        assert_eq!(edited(&[1; 20], &edit).unwrap(), [vec![7; MAX_PATCHES], vec![1; 8]].concat());
    }

    proptest! {
        #[test]
        fn edit_applies_splice_then_patches(
            frame in prop::collection::vec(any::<u8>(), 14..=HEAD),
            at in 0_usize..14,
            strip in 0_usize..20,
            insert in prop::collection::vec(any::<u8>(), 0..=MAX_INSERTED),
            patches in prop::collection::vec((0_usize..40, prop::collection::vec(any::<u8>(), 1..8)), 0..6),
        ) {
            let mut edit = Edit::splice(at, strip, &insert).unwrap();
            let mut wanted = (at + strip <= frame.len()).then(|| [&frame[..at], &insert, &frame[at + strip..]].concat());
            for (at, bytes) in &patches {
                edit.patch(*at, bytes).unwrap();
                wanted = wanted.filter(|wanted| at + bytes.len() <= wanted.len());
                if let Some(wanted) = &mut wanted {
                    wanted[*at..at + bytes.len()].copy_from_slice(bytes);
                }
            }
            prop_assert_eq!(edited(&frame, &edit), wanted.filter(|wanted| wanted.len() >= ETHERNET_HEADER));
        }
    }
}
