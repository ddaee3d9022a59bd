//! The link aggregation control protocol (LACP; IEEE 802.1AX-2014, clause 6), without sockets, threads and clocks.
//!
//! `pdu` is the bytes of frames: LACPDUs and markers, as checked views. `port` has the receive, periodic transmission
//! and mux machines of one port, `group` the ports of one aggregation: it selects the ports that are aggregated, so
//! that they all lead to one partner, and says what has to be sent. Times are passed in, in nanoseconds of any
//! monotonic clock.
//!
//! A received frame costs a constant amount of work, and a port sends at most three LACPDUs a second, for any frames of
//! its partner.

#![forbid(unsafe_code)]

#[cfg(feature = "fuzz")]
pub mod fuzz;
mod group;
mod pdu;
mod port;

pub use group::{Group, GroupConfig};
pub use pdu::{
    Endpoint, FRAME, Marker, Pdu, PduError, SLOW_ETHERTYPE, SLOW_PROTOCOLS, SlowFrame, State, lacp_frame,
    marker_response,
};
pub use port::{Mux, Port, PortCounts, Receive};
