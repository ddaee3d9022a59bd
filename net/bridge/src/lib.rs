//! The learning bridge (IEEE 802.1Q, clause 8), as a pipeline.
//!
//! From left to right: a worker (`worker`) takes a burst, finds out which bridge its port belongs to
//! (`ports`), what VLAN each packet is in (`vlan`), confirms each source and looks up each destination in the
//! bridge's station table (`fdb`, which gives meaning to the cuckoo table of `table`, made of the lines of
//! `bucket`, reached by the keyed `hash`), and floods within the port's limits (`limit`). [`Switch`] is the
//! control side of it all.
//!
//! Workers never wait: they read the table without locks, take its lock only when a station is new or has
//! moved, and then only if it is free; whatever cannot be learned now is learned from a later packet.

#![forbid(unsafe_code)]

mod allowed;
mod bucket;
mod config;
mod error;
mod fdb;
mod guard;
mod hash;
mod key;
mod limit;
mod listing;
mod ports;
mod refusals;
mod share;
mod switch;
mod table;
mod vlan;
mod vlan_set;
mod worker;

pub use allowed::{AllowedSource, ParseSourceError};
pub use config::{BridgeConfig, MacMoves, PortConfig, Rate, Vlan};
pub use error::{
    AddBridgeError, AddPortError, ForgetError, RemoveBridgeError, RemovePortError, StaticError, UnknownBridge,
};
pub use listing::{BridgeStatistics, PortStatistics, RefusedMove, Selection, Station};
pub use switch::Switch;
pub use vlan_set::{ParseVlanSetError, VlanSet};
