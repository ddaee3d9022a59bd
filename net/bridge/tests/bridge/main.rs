//! Tests of the bridge pipeline: bursts in, verdicts out.

mod attack;
mod forwarding;
mod harness;
mod model;
mod security;
mod theft;
mod threads;
mod vlan;
