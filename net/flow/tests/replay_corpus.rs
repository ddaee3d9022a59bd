//! Replays the corpus of the fuzz target for actions on packets.
#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]
#![allow(unreachable_pub, reason = "the body is shared with the fuzz target, where it is public")]

#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;

#[path = "../../../fuzz/src/packet.rs"]
mod packet;

#[test]
fn actions_on_arbitrary_frames_keep_key_and_frame_in_step() {
    for bytes in corpus::corpus("packet") {
        packet::play(&bytes);
    }
}
