//! Arbitrary ring contents of a memif peer, at either end.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| port::memif::fuzz::fuzz_rings(script));
