//! Replays the corpora of the stack's fuzz targets, and random scripts.

use crate::corpus;
use proptest::prelude::*;
use stack::ip::fuzz::fuzz_receive;

#[test]
fn the_ip_layer_survives_every_script() {
    for script in corpus::corpus("stack_ip") {
        fuzz_receive(&script);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_ip_layer_survives_any_script(script in prop::collection::vec(any::<u8>(), 0..400)) {
        fuzz_receive(&script);
    }

    /// Scripts of the corpus with some other bytes.
    #[test]
    fn the_ip_layer_survives_changed_scripts(
        which: prop::sample::Index,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
        twice: bool,
    ) {
        let scripts = corpus::corpus("stack_ip");
        let mut script = which.get(&scripts).clone();
        for (at, byte) in changes {
            let at = at.index(script.len());
            script[at] = byte;
        }
        if twice {
            script.extend_from_within(..);
        }
        fuzz_receive(&script);
    }
}
