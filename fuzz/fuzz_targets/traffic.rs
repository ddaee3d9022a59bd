//! Any tails of frames to the generator's meter, and any frame as one of a capture to be sent.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| generator::fuzz::fuzz_traffic(script));
