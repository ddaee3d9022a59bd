//! Arbitrary fragments to the reassembly of the stack.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| stack::fuzz::fuzz_reassembly(script));
