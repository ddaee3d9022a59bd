//! Tests of flow tables through the public interface: frames, the text of ovs-ofctl, and bridges in a running engine.
#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]

mod engine;
mod ovs_ofctl;
mod packet;
mod replay_corpus;
mod wrapped;
