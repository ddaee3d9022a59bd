//! Messages of ARP, neighbor discovery and DHCP.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| scripts::neighbors::play(script));
