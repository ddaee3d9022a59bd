//! Formats responses of the switch as tables. Does not access the control socket.

pub(crate) mod bonds;
pub(crate) mod bridges;
pub(crate) mod export;
pub(crate) mod flows;
pub(crate) mod links;
pub(crate) mod offload;
pub(crate) mod placing;
pub(crate) mod ports;
pub(crate) mod tables;
pub(crate) mod trace;
