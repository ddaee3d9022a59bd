//! Replays the corpus of the fuzz target.

#[path = "../../../../fuzz/src/corpus.rs"]
mod corpus;

#[test]
fn messages_survive_every_stream() {
    for script in corpus::corpus("openflow") {
        openflow::fuzz::fuzz_decode(&script);
    }
}
