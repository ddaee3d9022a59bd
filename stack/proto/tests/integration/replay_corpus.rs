//! Replays the corpora of the stack's fuzz targets, and random scripts.

use crate::corpus::corpus;
use proptest::prelude::*;
use stack::fuzz::{fuzz_dhcp, fuzz_reassembly, fuzz_slaac};
use stack::ip::fuzz::fuzz_receive;

type Target = fn(&[u8]);

/// The fuzz targets, with the names of their corpora.
const TARGETS: [(&str, Target); 4] =
    [("stack_ip", fuzz_receive), ("reassembly", fuzz_reassembly), ("dhcp", fuzz_dhcp), ("slaac", fuzz_slaac)];

#[test]
fn every_script_is_survived() {
    for (target, play) in TARGETS {
        for script in corpus(target) {
            play(&script);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_script_is_survived(script in prop::collection::vec(any::<u8>(), 0..400)) {
        for (_, play) in TARGETS {
            play(&script);
        }
    }

    /// Scripts of the corpus with some other bytes, also twice in a row.
    #[test]
    fn changed_scripts_are_survived(
        which: prop::sample::Index,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
        twice: bool,
    ) {
        for (target, play) in TARGETS {
            let scripts = corpus(target);
            let mut script = which.get(&scripts).clone();
            for (at, byte) in &changes {
                let at = at.index(script.len());
                script[at] = *byte;
            }
            if twice {
                script.extend_from_within(..);
            }
            play(&script);
        }
    }
}
