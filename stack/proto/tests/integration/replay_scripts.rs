//! Replays the corpora of the fuzz targets for the protocols beside the IP layer, and random scripts.

use crate::corpus;
use proptest::prelude::*;
use stack::fuzz::{fuzz_dhcp, fuzz_reassembly, fuzz_slaac};

#[test]
fn reassembly_survives_every_script() {
    for script in corpus::corpus("reassembly") {
        fuzz_reassembly(&script);
    }
}

#[test]
fn the_dhcp_client_survives_every_script() {
    for script in corpus::corpus("dhcp") {
        fuzz_dhcp(&script);
    }
}

#[test]
fn address_configuration_survives_every_script() {
    for script in corpus::corpus("slaac") {
        fuzz_slaac(&script);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn reassembly_survives_any_script(script in prop::collection::vec(any::<u8>(), 0..300)) {
        fuzz_reassembly(&script);
    }

    #[test]
    fn the_dhcp_client_survives_any_script(script in prop::collection::vec(any::<u8>(), 0..300)) {
        fuzz_dhcp(&script);
    }

    #[test]
    fn address_configuration_survives_any_script(script in prop::collection::vec(any::<u8>(), 0..300)) {
        fuzz_slaac(&script);
    }

    /// Scripts of the corpus with some other bytes.
    #[test]
    fn all_survive_changed_scripts(
        which: prop::sample::Index,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
    ) {
        let targets = [("reassembly", fuzz_reassembly as fn(&[u8])), ("dhcp", fuzz_dhcp), ("slaac", fuzz_slaac)];
        for (target, play) in targets {
            let scripts = corpus::corpus(target);
            let mut script = which.get(&scripts).clone();
            for (at, byte) in &changes {
                let at = at.index(script.len());
                script[at] = *byte;
            }
            play(&script);
        }
    }
}
