//! Replays the corpora of the frame and message fuzz targets.
#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]
#![allow(unreachable_pub, reason = "the bodies are shared with the fuzz targets, where they are public")]

#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;

#[path = "../../../fuzz/src/frames.rs"]
mod frames;

#[path = "../../../fuzz/src/neighbors.rs"]
mod neighbors;

#[test]
fn views_and_edits_survive_every_frame() {
    replay("wire", frames::play);
}

#[test]
fn views_survive_every_message_of_arp_neighbor_discovery_and_dhcp() {
    replay("neighbors", neighbors::play);
}

fn replay(target: &str, play: fn(&[u8])) {
    for bytes in corpus::corpus(target) {
        play(&bytes);
    }
}
