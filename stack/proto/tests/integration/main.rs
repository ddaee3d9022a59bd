//! Tests of the stack through its public interface: two stacks over a simulated network, and scripts in the language of
//! packetdrill.

#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]

mod app;
mod independent;
mod net;
mod offload;
mod port;
mod rng;
mod script;
mod segment;
mod sim;
mod smol;
