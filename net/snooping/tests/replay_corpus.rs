//! Replays the corpus of the fuzz target.
#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]

#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;

#[test]
fn messages_survive_every_script() {
    for script in corpus::corpus("snooping") {
        snooping::fuzz::fuzz_messages(&script);
    }
}
