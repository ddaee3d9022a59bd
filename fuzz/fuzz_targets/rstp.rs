//! Arbitrary bytes as BPDUs, links and seconds of a bridge.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| rstp::fuzz::fuzz_bridge(script));
