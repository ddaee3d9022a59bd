//! Replays the corpus of the crate's fuzz target, as it is and with some other bytes.

#[path = "../../../../fuzz/src/corpus.rs"]
mod corpus;

use proptest::prelude::*;

/// Name of the target.
const TARGET: &str = "service_client";

#[test]
fn invariants_hold_for_all_scripts_of_the_corpus() {
    for script in corpus::corpus(TARGET) {
        service::fuzz_client(&script);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn invariants_hold_for_changed_scripts(
        which: prop::sample::Index,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
    ) {
        let scripts = corpus::corpus(TARGET);
        let mut script = which.get(&scripts).clone();
        for (at, byte) in changes {
            let at = at.index(script.len());
            script[at] = byte;
        }
        service::fuzz_client(&script);
    }
}
