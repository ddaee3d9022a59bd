//! Arbitrary frame tails for the generator's meter, and arbitrary captured frames for the generator.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| generator::fuzz::fuzz_traffic(script));
