//! Arbitrary files as captures.
#![no_main]

libfuzzer_sys::fuzz_target!(|file: &[u8]| port::pcap::fuzz::fuzz_recording(file));
