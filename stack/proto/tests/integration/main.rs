//! Tests of the stack through its public interface: two stacks over a simulated network, and scripts in the language of
//! packetdrill.

#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]
#![allow(clippy::struct_excessive_bools, reason = "what a connection has done are independent facts")]
#![allow(clippy::option_option, reason = "a field of a script is absent, arbitrary or given")]
#![allow(clippy::match_same_arms, reason = "tables of names have a line for each")]
#![allow(clippy::cast_possible_wrap, reason = "lengths are short")]

mod app;
mod calls;
mod closed_window;
#[path = "../../../../fuzz/src/corpus.rs"]
mod corpus;
mod corruption;
mod counters;
mod hostile;
mod independent;
mod link;
mod net;
mod offload;
mod packet;
mod replay;
mod replay_corpus;
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
