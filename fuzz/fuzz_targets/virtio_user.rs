//! Arbitrary back end of a virtio-user port: its answers and its ring contents.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| port::virtio_user::fuzz::fuzz_back_end(script));
