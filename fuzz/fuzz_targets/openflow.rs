//! Arbitrary bytes as OpenFlow messages.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| openflow::fuzz::fuzz_decode(script));
