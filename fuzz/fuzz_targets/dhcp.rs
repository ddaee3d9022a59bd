//! Arbitrary messages to the DHCP client of the stack.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| stack::fuzz::fuzz_dhcp(script));
