//! Entries that a client writes to the memory that it shares with the service of sockets.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| service::fuzz_client(script));
