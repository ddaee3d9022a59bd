//! Replays the corpora of the fuzz targets of this crate.

#![allow(unreachable_pub, reason = "the body is shared with the fuzz target, where it is public")]

#[path = "../../../../fuzz/src/corpus.rs"]
mod corpus;

#[path = "../../../../fuzz/src/frame_actions.rs"]
mod frame_actions;

#[test]
fn actions_on_arbitrary_frames_keep_key_and_frame_in_step() {
    for bytes in corpus::corpus("packet") {
        frame_actions::play(&bytes);
    }
}

#[test]
fn every_text_is_read_or_refused() {
    for text in &corpus::corpus("flow_text") {
        flow::text::fuzz_text(text);
    }
}

#[test]
fn caches_agree_with_tables() {
    for script in &corpus::corpus("flow_script") {
        flow::fuzz_script(script);
    }
}

/// Removes and replaces bytes; only every thirteenth one, to limit the run time.
#[test]
fn every_changed_text_is_read_or_refused() {
    for text in &corpus::corpus("flow_text") {
        for at in (0..text.len()).step_by(13) {
            for byte in *b",(=\"" {
                flow::text::fuzz_text(&[&text[..at], &[byte], &text[at + 1..]].concat());
            }
            flow::text::fuzz_text(&[&text[..at], &text[at + 1..]].concat());
        }
    }
}
