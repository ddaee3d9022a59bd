//! Arbitrary vhost-user messages.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| port::vhost_user::fuzz::fuzz_session(script));
