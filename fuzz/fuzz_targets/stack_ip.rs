//! Arbitrary frames to the IP layer of the stack, between packets that it sends.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| stack::ip::fuzz::fuzz_receive(script));
