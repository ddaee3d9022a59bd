//! Sequence numbers of a connection in which messages have become longer or shorter.
//!
//! Both sides keep their own numbers: those of the sender of a message are moved for its receiver, and acknowledgements
//! are moved back. Of one direction, the last two lengths are known, so that segments from before the last message,
//! such as its retransmission, are moved as they were the first time. Messages are answered one by one (RFC 959
//! section 4.2), so that a second one is sent only after the first one was acknowledged.

use serde::{Deserialize, Serialize};

/// The moves of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Moves {
    /// Sequence numbers of the text that was replaced last, as its sender knows them.
    start: u32,
    end: u32,
    /// Bytes that the receiver has got more than the sender has sent: up to the last text, and after it.
    before: u32,
    after: u32,
}

/// `a - b`, where both are near each other on the circle of sequence numbers.
fn distance(a: u32, b: u32) -> i32 {
    a.wrapping_sub(b).cast_signed()
}

impl Moves {
    /// The text from `start` to `end` is replaced by one of `len` bytes.
    pub(crate) fn replace(&mut self, (start, end): (u32, u32), len: u32) {
        let is_known = self.before != self.after && distance(end, self.end) <= 0;
        let difference = len.wrapping_sub(end.wrapping_sub(start));
        if difference == 0 || is_known {
            return;
        }
        (self.start, self.end) = (start, end);
        (self.before, self.after) = (self.after, self.after.wrapping_add(difference));
    }

    /// A sequence number of the sender, as its receiver must see it.
    pub(crate) fn forward(&self, sequence: u32) -> u32 {
        let is_after = distance(sequence, self.end) >= 0;
        sequence.wrapping_add(if is_after { self.after } else { self.before })
    }

    /// An acknowledgement of the receiver, as the sender must see it. One within the text acknowledges nothing of it.
    pub(crate) fn back(&self, acknowledgement: u32) -> u32 {
        let after = acknowledgement.wrapping_sub(self.after);
        if distance(after, self.end) >= 0 {
            return after;
        }
        let before = acknowledgement.wrapping_sub(self.before);
        if distance(before, self.start) > 0 { self.start } else { before }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_retransmission_is_moved_as_the_first_time() {
        let mut moves = Moves::default();
        let text = (105, 120);
        for _ in 0..2 {
            moves.replace(text, 20);
            assert_eq!((moves.forward(100), moves.forward(120), moves.forward(140)), (100, 125, 145));
        }
        moves.replace((145, 160), 10);
        assert_eq!((moves.forward(140), moves.forward(160)), (145, 160));
        moves.replace(text, 20);
        assert_eq!((moves.forward(140), moves.forward(160)), (145, 160), "an old retransmission");
    }

    #[test]
    fn an_acknowledgement_within_the_text_acknowledges_nothing_of_it() {
        let mut moves = Moves::default();
        moves.replace((105, 120), 20);
        assert_eq!([100, 105, 106, 124, 125, 130].map(|ack| moves.back(ack)), [100, 105, 105, 105, 120, 125]);
        let mut moves = Moves::default();
        moves.replace((105, 120), 5);
        assert_eq!([105, 107, 110, 115].map(|ack| moves.back(ack)), [105, 105, 120, 125]);
    }

    proptest! {
        /// As a sender that sends messages one by one: positions on both sides agree, also where numbers wrap.
        #[test]
        fn numbers_of_both_sides_agree(
            start: u32,
            messages in proptest::collection::vec((0_u32..50, 1_u32..50, 1_u32..50), 1..20),
        ) {
            let (mut sent, mut received, mut moves) = (start, start, Moves::default());
            for (plain, old, new) in messages {
                let text = (sent.wrapping_add(plain), sent.wrapping_add(plain + old));
                moves.replace(text, new);
                prop_assert_eq!(moves.forward(sent), received);
                prop_assert_eq!(moves.back(received), sent);
                (sent, received) = (text.1, received.wrapping_add(plain + new));
                prop_assert_eq!(moves.forward(sent), received);
                prop_assert_eq!(moves.back(received), sent);
            }
        }
    }
}
