//! Arbitrary Router Advertisements and claims of other hosts to the address configuration of the stack.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| stack::fuzz::fuzz_slaac(script));
