//! Segments injected by others, and segments of a peer that contradict each other.

use super::*;
use proptest::prelude::*;

/// Two ends that disagree about their numbers: each answers the other's acknowledgement (an ACK storm).
#[test]
fn hostile_acknowledgements_outside_the_window_are_answered_at_a_low_rate() {
    let mut victim = Victim::new(Limits::default(), Options::default());
    let mut peer = victim.connect(1000);
    let connection = victim.accepted()[0];
    let mut answers = 0;
    for _ in 0..10_000 {
        let wrong = victim.segment(peer.port, flag::ACK, (peer.snd - 100_000, peer.rcv));
        answers += victim.inject(&wrong) + victim.wait(1000);
    }
    assert!((10..=20).contains(&answers), "{answers} answers in 10 seconds");
    victim.works(&mut peer, connection);
}

/// The number of challenge ACKs of a second tells a third party nothing about other connections (CVE-2016-5696).
#[test]
fn hostile_resets_learn_no_constant_number_of_challenges() {
    let limits = Limits { challenge_acks: 100, ..Limits::default() };
    let mut victim = Victim::new(limits, Options::default());
    let mut peer = victim.connect(1000);
    let connection = victim.accepted()[0];
    let mut counts = Vec::new();
    for _ in 0..20 {
        let mut challenges = 0;
        for offset in 1..=200 {
            challenges += victim.inject(&victim.segment(peer.port, flag::RST, (peer.snd + offset, 0)));
        }
        counts.push(challenges);
        victim.wait(SECOND);
    }
    assert!(counts.iter().all(|count| (50..=100).contains(count)), "{counts:?}");
    counts.sort_unstable();
    counts.dedup();
    assert!(counts.len() > 3, "{counts:?}");
    victim.works(&mut peer, connection);
}

/// Resets, SYNs and data with guessed numbers (RFC 5961): only the exact number resets.
#[test]
fn hostile_guesses_of_numbers_neither_reset_nor_change_a_stream() {
    let mut victim = Victim::new(Limits::default(), Options::default());
    let mut peer = victim.connect(1000);
    let connection = victim.accepted()[0];
    // The peer's window of acceptable acknowledgements is 64 KiB, so a guess in 65536 steps through all others.
    for guess in 1..2000_u32 {
        let (seq, ack) = (peer.snd.wrapping_add(guess * 2_147_000), peer.rcv.wrapping_add(guess * 2_100_000));
        for flags in
            [flag::RST, flag::RST | flag::ACK, flag::SYN, flag::SYN | flag::ACK, flag::FIN | flag::ACK]
        {
            assert!(victim.inject(&victim.segment(peer.port, flags, (seq, ack))) <= 1);
        }
        let data =
            Segment { payload: vec![0xbd; 100], ..victim.segment(peer.port, flag::ACK, (peer.snd, ack)) };
        assert!(victim.inject(&data) <= 1);
    }
    assert!(victim.delivered().is_empty());
    victim.works(&mut peer, connection);
}

/// A sender without RFC 8985 waits for three duplicate acknowledgements before it retransmits (RFC 5681 section 3.2),
/// and may have nothing more to send that would cause them.
#[test]
fn segments_behind_a_gap_in_one_burst_are_acknowledged_three_times() {
    let mut victim = Victim::new(Limits::default(), Options::default());
    let peer = victim.connect(1000);
    let at = |victim: &Victim, n: u32| peer.at(victim, n * 100, &[7; 100]);
    // The first two are in order, and acknowledged once; the third is lost.
    let burst = [0, 1, 3, 4, 5, 6, 7].map(|n| at(&victim, n));
    assert_eq!(victim.inject_burst(&burst), 4);
    let acks: Vec<u32> = victim.host.sent.drain(..).map(|(_, segment)| segment.ack).collect();
    assert_eq!(acks, [peer.snd + 200; 4]);
    // Later ones are acknowledged once for a burst, and the lost one once for all.
    assert_eq!(victim.inject_burst(&[8, 9, 10].map(|n| at(&victim, n))), 1);
    assert_eq!(victim.inject_burst(&[2, 11].map(|n| at(&victim, n))), 1);
    // Segments that only change places within a burst are no reason to retransmit.
    assert_eq!(victim.inject_burst(&[13, 14, 15, 12].map(|n| at(&victim, n))), 1);
    // The next gap is told as the first one was.
    assert_eq!(victim.inject_burst(&[17, 18, 19, 20].map(|n| at(&victim, n))), 3);
}

/// Offset, length and fill byte of a segment.
fn pieces() -> impl Strategy<Value = Vec<(u8, u8, u8)>> {
    prop::collection::vec((0_u8..120, 1_u8..40, any::<u8>()), 1..60)
}

proptest! {
    /// Segments that overlap with other bytes: the copy that arrived first is delivered.
    #[test]
    fn hostile_overlaps_deliver_the_first_copy(pieces in pieces()) {
        let mut victim = Victim::new(Limits::default(), Options::default());
        let peer = victim.connect(1000);
        let (mut model, mut next) = (vec![None; 200], 0);
        for (offset, len, fill) in pieces {
            let (start, len) = (usize::from(offset), usize::from(len));
            let segment = peer.at(&victim, offset.into(), &vec![fill; len]);
            prop_assert!(victim.inject(&segment) <= 1, "more than one answer");
            for byte in &mut model[start.max(next)..(start + len).max(next)] {
                byte.get_or_insert(fill);
            }
            next = model.iter().position(Option::is_none).unwrap();
            let expected: Vec<u8> = model[..next].iter().copied().map(Option::unwrap).collect();
            prop_assert_eq!(victim.delivered(), expected);
        }
    }
}
