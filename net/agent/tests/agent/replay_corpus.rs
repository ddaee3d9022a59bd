//! Replays the corpus of the fuzz target.

#[path = "../../../../fuzz/src/corpus.rs"]
mod corpus;

#[test]
fn sessions_survive_every_script() {
    for script in corpus::corpus("agent") {
        agent::fuzz::fuzz_agent(&script);
    }
}
