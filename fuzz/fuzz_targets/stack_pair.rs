//! Two stacks over a network that a script controls.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| scripts::stack_pair::play(script));
