//! A packed ring with a hostile driver.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| scripts::device::play::<ring::device::Packed>(true, script));
