//! Tests of the bridge pipeline: bursts in, verdicts out.

mod attack;
mod bond;
mod forwarding;
mod harness;
mod mirror;
mod model;
mod multicast;
mod security;
mod stp;
mod theft;
mod threads;
mod vlan;
