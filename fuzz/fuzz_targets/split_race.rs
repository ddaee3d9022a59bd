//! A split ring that is rewritten while the device reads it.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| scripts::race::play::<ring::device::Split>(false, script));
