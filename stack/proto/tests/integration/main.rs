//! Tests of the stack through its public interface: two stacks over a simulated network, and scripts in the language of
//! packetdrill.

#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]

mod app;
#[path = "../../../../fuzz/src/corpus.rs"]
mod corpus;
mod independent;
mod link;
mod net;
mod offload;
mod replay;
mod rng;
mod router;
mod script;
mod segment;
mod sim;
mod smol;
#[allow(unreachable_pub, reason = "the bodies are shared with the fuzz targets, where they are public")]
#[path = "../../../../fuzz/src/stack_pair.rs"]
mod stack_pair;
#[allow(unreachable_pub, reason = "the bodies are shared with the fuzz targets, where they are public")]
#[path = "../../../../fuzz/src/stack_segments.rs"]
mod stack_segments;
