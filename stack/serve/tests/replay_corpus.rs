//! Replays the corpus of the fuzz target of HTTP requests, and random scripts.
#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]

#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;

use proptest::prelude::*;
use serve::http::fuzz::fuzz_request;

#[test]
fn requests_of_the_corpus_keep_the_invariants() {
    corpus::corpus("http").iter().for_each(|script| fuzz_request(script));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Scripts of the corpus with some other bytes.
    #[test]
    fn changed_requests_keep_the_invariants(
        which: prop::sample::Index,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
    ) {
        let scripts = corpus::corpus("http");
        let mut script = which.get(&scripts).clone();
        for (at, byte) in changes {
            let at = at.index(script.len());
            script[at] = byte;
        }
        fuzz_request(&script);
    }
}
