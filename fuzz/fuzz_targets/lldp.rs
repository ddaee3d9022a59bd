//! Arbitrary bytes as an LLDPDU.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| lldp::fuzz::fuzz_frame(script));
