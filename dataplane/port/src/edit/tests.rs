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
    let (mut source, mut made) = (Burst::new(), Burst::new());
    source.begin(0);
    source.pin(&map);
    made.begin_from(&source);
    made.push_derived(&[7; 8], std::iter::once(region.seg(0, 392).unwrap())).unwrap();
    assert_eq!((made.head(0), made.frame_len(0)), (&[7; 8][..], 400));
    assert_eq!((made.alike(&[7; 8]), made.alike(&[7; 12])), (1, 0));
}

#[test]
fn packets_of_one_edit_are_changed_together() {
    let (mut source, mut edits) = (Burst::new(), Edits::default());
    source.begin(0);
    (1..=5).for_each(|k| assert!(source.push_own(&[k; 128][..usize::from(k) * 25])));
    let [tag, other] = [5, 6].map(|byte| edits.add(&Edit::splice(12, 0, &[byte; 4]).unwrap()));
    let ids = [tag, tag, tag, other, tag];
    let (mut alike, mut single) = (Burst::new(), Burst::new());
    alike.begin_from(&source);
    single.begin_from(&source);
    assert_eq!(alike.push_alike(&source, &[0, 1, 2, 3, 4], &edits, |place| ids[place]), 3);
    for (i, id) in ids.iter().enumerate().take(3) {
        single.push_edited(&source, i, &edits, *id).unwrap();
        assert_eq!((alike.head(i), alike.frame_len(i)), (single.head(i), single.frame_len(i)));
        assert_eq!(alike.head(i)[..17], [&[i as u8 + 1; 12][..], &[5; 4], &[i as u8 + 1]].concat());
    }
    source.set_notes(0, crate::Notes { class: 2, ..crate::Notes::default() });
    assert_eq!(alike.push_alike(&source, &[0], &edits, |_| tag), 0, "notes are copied one by one");
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
fn replaced_bytes_of_a_header_keep_its_offloads() {
    let offload = Offload::with_checksum(34, 16).with_segments(crate::Segmentation::Tcp4, 1448, false);
    let mut source = burst(&[1; 100]);
    source.set_offload(0, offload);
    let (mut made, mut edits) = (Burst::new(), Edits::default());
    let mut replaced = Edit::splice(26, 26, &[9; 26]).unwrap();
    replaced.set_headers(0, 0, 0);
    let mut tagged = Edit::splice(0, 52, &[9; 56]).unwrap();
    tagged.set_headers(12, 0, 4);
    let [replaced, tagged] = [edits.add(&replaced), edits.add(&tagged)];
    made.begin_from(&source);
    made.push_edited(&source, 0, &edits, replaced).unwrap();
    made.push_edited(&source, 0, &edits, tagged).unwrap();
    assert_eq!((made.offload(0), made.frame_len(0)), (offload, 100));
    let moved = Offload::with_checksum(38, 16).with_segments(crate::Segmentation::Tcp4, 1448, false);
    assert_eq!((made.offload(1), made.frame_len(1)), (moved, 104));
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
    assert_eq!(edited_by(&frame[..14], &chain), None, "the second exceeds the packet that the first leaves");
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

#[test]
fn a_truncated_packet_loses_its_end_and_its_offloads() {
    let bytes: Vec<u8> = (0..400).map(|i| i as u8).collect();
    let region = Arc::new(Region::of_bytes(bytes.clone().into()).unwrap());
    let map = Arc::new(GuestMemory::new(vec![region.clone()]).unwrap());
    let (mut source, mut made, mut edits) = (Burst::new(), Burst::new(), Edits::default());
    source.begin(0);
    source.pin(&map);
    source.push(BufId::default(), region.seg(0, 400).unwrap());
    source.load_heads::<Portable>();
    source.set_offload(0, Offload::with_checksum(34, 16));
    for keep in [0, 14, 60, HEAD, HEAD + 1, 399, 400, 1000] {
        for tag in [false, true] {
            let inserted: &[u8] = if tag { &[0x81, 0, 0, 5] } else { &[] };
            let tagged = edits.add(&Edit::splice(12, 0, inserted).unwrap());
            let mut cut = Edit::default();
            cut.truncate(keep as u16);
            let id = edits.chain(tagged, Some(&cut));
            made.begin_from(&source);
            made.push_edited(&source, 0, &edits, id).unwrap();
            let mut expected = [&bytes[..12], inserted, &bytes[12..]].concat();
            expected.truncate(keep.max(14));
            let mut frame = vec![0; made.frame_len(0)];
            made.frame(0).copy_to::<Portable>(&mut frame);
            assert_eq!(frame, expected);
            assert_eq!(made.offload(0) == Offload::NONE, keep < 400 + inserted.len());
            assert_eq!(edits.growth(id), inserted.len().cast_signed());
        }
    }
    assert_eq!(
        edited(&[1; 60], &{
            let mut cut = Edit::default();
            cut.truncate(20);
            cut
        }),
        Some(vec![1; 20])
    );
}

/// A payload's headers must be in the head after outer headers were removed, so that a second edit can reach them.
#[test]
fn head_is_filled_up_after_outer_headers_were_removed() {
    let bytes: Vec<u8> = (0..400).map(|i| (i % 251) as u8).collect();
    let region = Arc::new(Region::of_bytes(bytes.clone().into()).unwrap());
    let map = Arc::new(GuestMemory::new(vec![region.clone()]).unwrap());
    let (mut source, mut made, mut edits) = (Burst::new(), Burst::new(), Edits::default());
    source.begin(0);
    source.pin(&map);
    source.push(BufId::default(), region.seg(0, 400).unwrap());
    source.load_heads::<Portable>();
    let removed = edits.add(&Edit::splice(0, 70, &[]).unwrap());
    let changed = edits.chain(removed, Some(&Edit::splice(HEAD - 4, 4, &[1, 2, 3, 4]).unwrap()));
    made.begin_from(&source);
    made.push_edited(&source, 0, &edits, removed).unwrap();
    made.push_edited(&source, 0, &edits, changed).unwrap();
    assert_eq!((made.head(0), made.frame_len(0)), (&bytes[70..70 + HEAD], 330));
    let mut read = vec![0; made.frame_len(1)];
    made.frame(1).copy_to::<Portable>(&mut read);
    let expected = [&bytes[70..70 + HEAD - 4], &[1, 2, 3, 4], &bytes[70 + HEAD..]].concat();
    assert_eq!(read, expected);
}

#[test]
fn encapsulation_leaves_a_checksum_to_the_output() {
    let source = burst(&[1; 100]);
    let (mut made, mut edits) = (Burst::new(), Edits::default());
    let mut edit = Edit::splice(0, 0, &[9; 50]).unwrap();
    edit.set_outer(OuterHeaders { network: 64, checksum: Some((34, 6)) });
    let id = edits.add(&edit);
    assert_eq!(edits.needs(Capabilities::NONE), Capabilities(Capabilities::CHECKSUM));
    assert_eq!(edits.needs_after(id, Offload::NONE), Capabilities(Capabilities::CHECKSUM));
    made.begin_from(&source);
    made.push_edited(&source, 0, &edits, id).unwrap();
    assert_eq!(made.offload(0), Offload::with_checksum(34, 6));
    // The outer checksum is complete if that of the payload is not.
    let partial = Offload::with_checksum(34, 16);
    assert_eq!(edits.offload(id, partial, 100), Ok((Offload::with_checksum(84, 16), 150)));
    let cut = partial.with_segments(crate::Segmentation::Tcp4, 1448, false);
    let needs = edits.needs_after(id, cut);
    assert!(!Capabilities::ALL.cover(needs) && !Capabilities::ALL.cover(edits.needs(cut.needs())));
    edits.clear();
    assert_eq!(edits.needs(cut.needs()), cut.needs());
}
