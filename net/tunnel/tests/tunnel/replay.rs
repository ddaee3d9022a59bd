//! Replays the corpus of the fuzz target.

#[path = "../../../../fuzz/src/corpus.rs"]
mod corpus;

use crate::vectors::vectors;
use proptest::prelude::*;
use tunnel::fuzz::fuzz_open;

#[test]
fn packets_of_the_corpus_keep_the_invariants() {
    for input in corpus::corpus("tunnel") {
        fuzz_open(&input);
    }
}

proptest! {
    #[test]
    fn damaged_packets_keep_the_invariants(number in 0..94_usize, cut in 0..200_usize, at in 0..100_usize, byte: u8, more: u8) {
        let packet = vectors().nth(number).unwrap().outer[14..].to_vec();
        let mut input = [&[more], packet.as_slice()].concat();
        let place = 1 + at % packet.len();
        input[place] = byte;
        input.truncate(input.len().min(1 + cut));
        fuzz_open(&input);
    }
}
