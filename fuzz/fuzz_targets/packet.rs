//! Arbitrary actions on arbitrary frames.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| scripts::frame_actions::play(script));
