//! Replays the corpus of this crate's fuzz target.

#[path = "../../../../fuzz/src/corpus.rs"]
mod corpus;

#[test]
fn arbitrary_frames_keep_the_aggregation_sound() {
    for script in &corpus::corpus("lacp") {
        lacp::fuzz::fuzz_frames(script);
        for at in 0..script.len() {
            for byte in [0, 1, 0x3d, 0xff] {
                lacp::fuzz::fuzz_frames(&[&script[..at], &[byte], &script[at + 1..]].concat());
            }
        }
    }
}
