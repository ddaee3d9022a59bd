//! Any back end: what it answers to a virtio-user port, and what it writes into its rings.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| port::virtio_user::fuzz::fuzz_back_end(script));
