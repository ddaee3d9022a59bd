//! Arbitrary frames to the ports of an aggregation.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| lacp::fuzz::fuzz_frames(script));
