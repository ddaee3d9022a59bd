//! An agent with real tables, as its controllers see it.
#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]

#[path = "../../../openflow/tests/codec/arbitrary/mod.rs"]
#[allow(dead_code, unused_imports, clippy::wildcard_imports, reason = "shared with the tests of the codec")]
mod arbitrary;
mod asynchronous;
mod auxiliary;
mod bundles;
mod client;
mod flows;
mod groups;
mod handshake;
mod hostile;
mod monitors;
mod ovs_ofctl;
mod property;
mod replay_corpus;
mod roles;
mod round_trip {
    /// Transaction identifier of messages in the bundles of `arbitrary`.
    pub(crate) const XID: u32 = 0x1234_5678;
}
mod stats;
mod switch;
