//! Arbitrary text as matches, actions, flows, groups and meters.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &[u8]| flow::text::fuzz_text(text));
