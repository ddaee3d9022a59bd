//! Arbitrary frames to the workers that share a port.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| host::fuzz_distributor(script));
