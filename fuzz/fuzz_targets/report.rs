//! Any file as one of results, to be drawn.
#![no_main]

libfuzzer_sys::fuzz_target!(|file: &[u8]| report::fuzz::fuzz_report(file));
