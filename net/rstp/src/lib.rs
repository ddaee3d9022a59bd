//! The Rapid Spanning Tree Protocol (IEEE 802.1D-2004, clause 17), which includes the Spanning Tree Protocol.
//!
//! A [`Bridge`] takes links, BPDUs and time, and returns [`Event`]s: frames to send, states of ports, and ports whose
//! learned addresses are flushed. `bpdu` is the codec, `machine` has the state machines over the variables of `port`.
//!
//! Nothing here reads a clock, sends or waits. The number of ports bounds the cost of one BPDU.

#![forbid(unsafe_code)]

mod bpdu;
mod bridge;
mod config;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod machine;
mod port;
mod status;
mod vector;

pub use bpdu::{Bpdu, BpduError, FRAME_LEN, Flags, Frame, GROUP, Parameters};
pub use bridge::{AddPortError, Bridge, Event};
pub use config::{BridgeConfig, ConfigError, Edge, PortConfig, Protocol, path_cost};
pub use status::{BridgeStatus, PortCounts, PortStatus, Role, State};
pub use vector::{BridgeId, Times, Vector};
