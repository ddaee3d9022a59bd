//! Any memif peer: what it writes into the rings, of either end.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| port::memif::fuzz::fuzz_rings(script));
