//! Replays the corpus of the fuzz target of the store, and scripts that differ from it by some bytes.
#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]

#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;

use proptest::prelude::*;

#[test]
fn the_store_survives_every_script() {
    for script in corpus::corpus("kv") {
        serve::fuzz_kv(&script);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_store_survives_changed_scripts(
        which: prop::sample::Index,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut script = which.get(&corpus::corpus("kv")).clone();
        for (at, byte) in &changes {
            let at = at.index(script.len());
            script[at] = *byte;
        }
        serve::fuzz_kv(&script);
    }
}
