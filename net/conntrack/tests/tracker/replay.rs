//! Replays the corpus of the fuzz target.

#[path = "../../../../fuzz/src/corpus.rs"]
mod corpus;

use conntrack::fuzz::fuzz_packets;
use proptest::prelude::*;

#[test]
fn packets_of_the_corpus_keep_the_invariants() {
    for script in corpus::corpus("conntrack") {
        fuzz_packets(&script);
    }
}

proptest! {
    #[test]
    fn random_packets_keep_the_invariants(script in prop::collection::vec(any::<u8>(), 0..512)) {
        fuzz_packets(&script);
    }
}
