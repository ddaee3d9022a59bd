//! Replays the corpora of the crate's fuzz targets, as they are and with some other bytes.

#[path = "../../../../fuzz/src/corpus.rs"]
mod corpus;

use proptest::prelude::*;

type Body = fn(&[u8]);

/// Targets with their bodies.
const BODIES: [(&str, Body); 3] = [
    ("http", serve::http::fuzz::fuzz_request),
    ("kv", serve::fuzz_kv),
    ("load_replies", serve::load::fuzz_replies),
];

#[test]
fn invariants_hold_for_all_scripts_of_the_corpora() {
    for (name, body) in BODIES {
        for script in corpus::corpus(name) {
            body(&script);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn invariants_hold_for_changed_scripts(
        target in 0..BODIES.len(),
        which: prop::sample::Index,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
    ) {
        let (name, body) = BODIES[target];
        let scripts = corpus::corpus(name);
        let mut script = which.get(&scripts).clone();
        for (at, byte) in changes {
            let at = at.index(script.len());
            script[at] = byte;
        }
        body(&script);
    }
}
