//! Arbitrary frames.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| scripts::frames::play(script));
