//! Networks of bridges under simulated time.
#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]

#[path = "../../../../fuzz/src/corpus.rs"]
mod corpus;
mod properties;
mod scenarios;
mod simulation;

#[test]
fn bridges_survive_every_script() {
    for script in corpus::corpus("rstp") {
        rstp::fuzz::fuzz_bridge(&script);
    }
}
