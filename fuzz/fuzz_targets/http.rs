//! Arbitrary bytes as HTTP requests.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| serve::http::fuzz::fuzz_request(script));
