//! The bridge as the engine sees it: bursts in, lists of ports and drops out.

mod attack;
mod forwarding;
mod harness;
mod model;
mod security;
mod theft;
mod threads;
mod vlan;
