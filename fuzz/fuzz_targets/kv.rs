//! Arbitrary streams to the state machine of the store.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| serve::fuzz_kv(script));
