//! Arbitrary segments to a stack with connections in any state.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| scripts::stack_segments::play(script));
