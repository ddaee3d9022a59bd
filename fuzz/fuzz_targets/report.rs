//! Arbitrary files as result files.
#![no_main]

libfuzzer_sys::fuzz_target!(|file: &[u8]| report::fuzz::fuzz_report(file));
