//! Received packets of every kind of tunnel.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tunnel::fuzz::fuzz_open(input));
