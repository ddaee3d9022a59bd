//! Any file as a capture to be played.
#![no_main]

libfuzzer_sys::fuzz_target!(|file: &[u8]| port::pcap::fuzz::fuzz_recording(file));
