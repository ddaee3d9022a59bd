//! Arbitrary memif messages, to a server and to a client.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| port::memif::fuzz::fuzz_messages(script));
