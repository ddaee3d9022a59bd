//! Pipelines: what decides where each packet of a burst goes.
//!
//! Everything here reads and edits the private heads of a burst and names ports; nothing here knows rings, guest
//! memory or sockets, starts a thread or reads a clock.
#![forbid(unsafe_code)]

pub mod bridge;

pub use bridge::Switch;
