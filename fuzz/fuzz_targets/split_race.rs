//! A split ring that is modified while the device reads it.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| scripts::race::play::<ring::device::Split>(false, script));
