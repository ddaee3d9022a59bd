//! Changes of flow tables, and frames that pass through them.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| flow::fuzz_script(script));
