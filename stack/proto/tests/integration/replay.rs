//! Replays the corpora of the fuzz targets of TCP, and random scripts.

use super::{corpus, stack_pair, stack_segments};
use proptest::prelude::*;

#[test]
fn a_stack_survives_every_script_of_segments() {
    for script in corpus::corpus("stack_segments") {
        stack_segments::play(&script);
    }
}

#[test]
fn two_stacks_recover_from_every_script() {
    for script in corpus::corpus("stack_pair") {
        stack_pair::play(&script);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_stack_survives_any_script_of_segments(script in prop::collection::vec(any::<u8>(), 0..600)) {
        stack_segments::play(&script);
    }

    #[test]
    fn two_stacks_recover_from_any_script(script in prop::collection::vec(any::<u8>(), 0..300)) {
        stack_pair::play(&script);
    }

    /// Scripts of the corpus with some other bytes.
    #[test]
    fn a_stack_survives_changed_scripts(
        which: prop::sample::Index,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let scripts = corpus::corpus("stack_segments");
        let mut script = which.get(&scripts).clone();
        for (at, byte) in changes {
            let at = at.index(script.len());
            script[at] = byte;
        }
        stack_segments::play(&script);
    }
}
