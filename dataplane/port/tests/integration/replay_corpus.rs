//! Replays the corpora of the protocol and queue fuzz targets.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::pedantic,
    unreachable_pub,
    missing_docs,
    reason = "a failure here is the test's; the scripts are shared with the fuzz targets"
)]

#[path = "../../../../fuzz/src/corpus.rs"]
mod corpus;
#[path = "../../../../fuzz/src/device.rs"]
mod device;
#[path = "../../../../fuzz/src/driver.rs"]
mod driver;
#[path = "../../../../fuzz/src/queues.rs"]
mod queues;
#[path = "../../../../fuzz/src/race.rs"]
mod race;

use self::corpus::corpus;
use port::memif::fuzz::{fuzz_messages, fuzz_rings};
use port::pcap::fuzz::fuzz_recording;
use port::stream::fuzz::fuzz_peer;
use port::vhost_user::fuzz::fuzz_session;
use port::virtio_user::fuzz::fuzz_back_end;
use proptest::prelude::*;

#[test]
fn sessions_survive_every_script() {
    corpus("vhost_user").iter().for_each(|script| fuzz_session(script));
}

#[test]
fn captures_are_validated_without_panic() {
    corpus("pcap").iter().for_each(|file| fuzz_recording(file));
}

#[test]
fn queues_survive_every_script() {
    corpus("queues").iter().for_each(|script| queues::play(script));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn queues_survive_any_script(script in prop::collection::vec(any::<u8>(), 0..600)) {
        queues::play(&script);
    }

    #[test]
    fn stream_ports_survive_any_peer(script in prop::collection::vec(any::<u8>(), 0..3000)) {
        fuzz_peer(&script);
    }
}

#[test]
fn stream_ports_survive_every_peer() {
    corpus("stream").iter().for_each(|script| fuzz_peer(script));
}

#[test]
fn virtio_user_ports_survive_every_back_end() {
    for script in corpus("virtio_user") {
        fuzz_back_end(&script);
    }
}

#[test]
fn memif_ports_survive_every_peer() {
    corpus("memif_messages").iter().for_each(|script| fuzz_messages(script));
    corpus("memif_rings").iter().for_each(|script| fuzz_rings(script));
}
