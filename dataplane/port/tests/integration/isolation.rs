//! Isolation: no bytes of another guest are disclosed, not even in the slack of a buffer, and only described buffers
//! are written.
//!
//! The tests compare the complete memory of the receiving guest, so any foreign byte is detected.

use crate::hand::{ALL, Guest, KINDS, WRITE, burst_of, frame, receive, send};
use port::vhost::Features;
use proptest::prelude::*;

const PATTERN: u8 = 0xa5;

/// Expected memory of the receiver after `frames`, each in its buffers.
fn expect(features: Features, frames: &[Vec<u8>], places: &[Vec<(u64, u32)>]) -> Vec<u8> {
    let mut all = vec![PATTERN; ALL];
    for (frame, buffers) in frames.iter().zip(places) {
        let mut bytes = vec![0; features.header_len()];
        if bytes.len() == 12 {
            bytes[10] = 1;
        }
        bytes.extend(frame);
        let to = buffers.iter().flat_map(|&(at, len)| at..at + u64::from(len));
        to.zip(bytes).for_each(|(at, byte)| all[at as usize] = byte);
    }
    all
}

#[test]
fn bytes_behind_a_frame_are_neither_written_nor_leaked() {
    for packed in KINDS {
        for features in [0, Features::VERSION_1, Features::VERSION_1 | Features::MRG_RXBUF] {
            for len in [14, 59, 60, 64, 127, 128, 129, 200, 1499, 1514, 9000] {
                let mut guest = Guest::new(packed, features);
                guest.fill(PATTERN);
                let places = [vec![(77, 0x4000)], vec![(0x8000, 0x4000)]];
                for place in &places {
                    guest.offer(place, WRITE);
                }
                let frames = [frame(len, 1), frame(len, 2)];
                send(guest.tx().as_mut(), &burst_of(&frames)).unwrap();
                assert_eq!(guest.used().len(), 2);
                assert!(guest.dump() == expect(guest.features, &frames, &places), "{len} bytes");
            }
        }
    }
}

#[test]
fn flooded_frame_is_identical_at_every_receiver() {
    let frames = [frame(60, 1), frame(1514, 2)];
    let burst = burst_of(&frames);
    for packed in KINDS {
        for _ in 0..3 {
            let mut guest = Guest::new(packed, Features::VERSION_1);
            guest.fill(PATTERN);
            let places = [vec![(0, 2048)], vec![(2048, 2048)]];
            for place in &places {
                guest.offer(place, WRITE);
            }
            send(guest.tx().as_mut(), &burst).unwrap();
            assert!(guest.dump() == expect(guest.features, &frames, &places));
        }
    }
}

/// Sizes of the buffers of one chain, then the bytes between them.
type Cuts = Vec<(u32, u8)>;

/// Contiguous buffers of the given sizes from `at`; the last one takes the rest of `total`.
fn lay_out(cuts: &Cuts, at: &mut u64, total: u32) -> Vec<(u64, u32)> {
    let (mut left, mut buffers) = (total, vec![]);
    for &(size, gap) in cuts {
        let here = size.min(left);
        buffers.push((*at, here));
        *at += u64::from(here) + u64::from(gap);
        left -= here;
    }
    buffers.push((*at, left));
    *at += u64::from(left);
    buffers
}

fn cuts() -> impl Strategy<Value = Cuts> {
    prop::collection::vec((0u32..300, 0u8..40), 0..6)
}

prop_compose! {
    fn guest()(
        packed: bool,
        features in prop::sample::select(vec![0, Features::VERSION_1, Features::VERSION_1 | Features::MRG_RXBUF]),
        indirect: bool,
        start in prop::sample::select(vec![0u64, 1, 0x1_f000, 0x1_ffe0]),
    ) -> (bool, u64, bool, u64) {
        (packed, features, indirect, start)
    }
}

fn offer(guest: &mut Guest, indirect: bool, n: u64, buffers: &[(u64, u32)], flags: u16) {
    if indirect {
        guest.offer_indirect(0x3_0000 + n * 0x400, buffers, flags);
    } else {
        guest.offer(buffers, flags);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn random_frames_and_layouts_arrive_intact(
        from in guest(), to in guest(),
        packets in prop::collection::vec((14usize..2000, cuts(), cuts(), 0u32..500), 1..8),
    ) {
        let (mut a, mut b) = (Guest::new(from.0, from.1), Guest::new(to.0, to.1));
        a.fill(0x5e);
        b.fill(PATTERN);
        let (mut at_a, mut at_b) = (from.3, to.3);
        let (mut frames, mut places, mut bytes) = (vec![], vec![], vec![]);
        for (n, (len, cut_a, cut_b, slack)) in packets.iter().enumerate() {
            let sent = frame(*len, n);
            let whole = [vec![0x77; a.header()], sent.clone()].concat();
            let layout = lay_out(cut_a, &mut at_a, whole.len() as u32);
            let mut left = &whole[..];
            for &(at, len) in &layout {
                a.write(at, &left[..len as usize]);
                left = &left[len as usize..];
            }
            offer(&mut a, from.2, n as u64, &layout, 0);
            let room = (b.header() + len) as u32 + slack;
            places.push(lay_out(cut_b, &mut at_b, room));
            bytes.push((n, (b.header() + len) as u32));
            offer(&mut b, to.2, n as u64, &places[n], WRITE);
            frames.push(sent);
        }
        let (mut rx, mut tx) = (a.rx(), b.tx());
        let before = b.dump();
        let mut got = 0;
        while got < frames.len() {
            let (burst, stats) = receive(rx.as_mut()).unwrap();
            prop_assert_eq!((stats.packets as usize, stats.lost), (burst.len(), 0));
            prop_assert_ne!(burst.len(), 0);
            got += burst.len();
            prop_assert_eq!(send(tx.as_mut(), &burst).unwrap().0, burst.len());
            rx.complete(burst.buf_ids());
        }
        prop_assert_eq!(b.used(), bytes);
        prop_assert_eq!(a.used().len(), frames.len());
        let mut expected = expect(b.features, &frames, &places);
        // The indirect tables follow the buffers.
        expected[0x3_0000..].copy_from_slice(&before[0x3_0000..]);
        prop_assert!(b.dump() == expected, "the receiver's memory");
    }
}
