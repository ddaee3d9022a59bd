//! OpenFlow agent of one bridge: sessions of controllers, from bytes to changes of flow tables, and back.
//!
//! An [`Agent`] holds the state of all sessions: versions, roles, bundles, monitors and the choice of asynchronous
//! messages. The caller owns the connections. It passes received bytes to [`Agent::receive`], sends what
//! [`Agent::output`] returns, and calls [`Agent::tick`] at the deadline that the last call returned. Changes that the
//! agent has not made itself (expired and learned flows, packets for controllers, ports) are passed to
//! [`Agent::changed`], [`Agent::punted`] and [`Agent::port_changed`]. Each of these calls can create output for every
//! session.
//!
//! This crate opens no connection, starts no thread and reads no clock. Memory and work for each session are bounded
//! ([`limits`]): a session with messages that wait ([`Agent::waits`]) must not be read, and one with much output loses
//! asynchronous messages.

#![forbid(unsafe_code)]

mod agent;
mod asynchronous;
mod batch;
mod bundles;
mod codes;
mod config;
mod datapath;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fake;
mod features;
mod flows;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
mod groups;
mod handshake;
mod input;
pub mod limits;
mod liveness;
mod monitors;
mod output;
mod packets;
mod ports;
mod request;
mod roles;
mod session;
mod settings;
mod stats;
mod tables;
mod tlv;
mod vacancy;

pub use agent::{Agent, Identity};
pub use codes::{action_code, change_code};
pub use datapath::Datapath;
pub use session::{Auxiliary, Counters, Kind, SessionError, SessionId, SessionReport};
