//! Arbitrary ARP, neighbor discovery and DHCP messages.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| scripts::neighbors::play(script));
