//! Any peer of a stream port: whatever it sends, in whatever pieces.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| port::stream::fuzz::fuzz_peer(script));
