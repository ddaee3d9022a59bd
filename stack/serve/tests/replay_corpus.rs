//! Replays the corpus of the fuzz target for replies of servers.
#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]

#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;

use proptest::prelude::*;
use serve::load::fuzz_replies;

#[test]
fn replies_of_the_corpus_are_read_the_same_in_pieces() {
    corpus::corpus("load_replies").iter().for_each(|script| fuzz_replies(script));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Scripts of the corpus with some other bytes.
    #[test]
    fn changed_replies_are_read_the_same_in_pieces(
        which: prop::sample::Index,
        piece: u8,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..5),
    ) {
        let scripts = corpus::corpus("load_replies");
        let mut script = which.get(&scripts).clone();
        script[1] = piece;
        for (at, byte) in changes {
            let at = at.index(script.len());
            script[at] = byte;
        }
        fuzz_replies(&script);
    }
}
