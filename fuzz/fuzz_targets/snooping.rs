//! Arbitrary bytes as membership messages.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| snooping::fuzz::fuzz_messages(script));
