//! Arbitrary bytes of several sessions of an OpenFlow agent.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| agent::fuzz::fuzz_agent(script));
