//! Packets of a few hosts through connection tracking.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| conntrack::fuzz::fuzz_packets(script));
