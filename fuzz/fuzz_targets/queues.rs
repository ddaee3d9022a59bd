//! The queues of a vhost-user port, end to end.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| scripts::queues::play(script));
