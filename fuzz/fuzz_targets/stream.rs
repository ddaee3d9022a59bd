//! Arbitrary data from the peer of a stream port, in arbitrary pieces.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| port::stream::fuzz::fuzz_peer(script));
