//! Arbitrary replies to the load client.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| serve::load::fuzz_replies(script));
