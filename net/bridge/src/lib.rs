//! The learning bridge (IEEE 802.1Q, clause 8), as a pipeline.
//!
//! A worker (`worker`) takes a burst, finds the bridge of its port (`ports`), classifies each packet's VLAN (`vlan`),
//! confirms each source and looks up each destination in the station table of the bridge (`fdb`, on the cuckoo hash
//! table of `table`, whose cache lines are `bucket`, selected by the keyed `hash`), and floods within the port's rate
//! limits (`limit`), or sends a multicast packet to the ports of its group (`multicast`). Several ports can be one port
//! of a bridge (`bond`), and mirrors copy packets (`mirror`), for this and for other pipelines (`wrapped`). Pairs of
//! stations can be forwarded elsewhere (`pair_listener`). [`Switch`] is the control API.
//!
//! Workers do not block: they read the table without locks and use `try_lock` only for new or moved stations; a station
//! that cannot be learned now is learned from a later packet.

#![forbid(unsafe_code)]

mod allowed;
mod bond;
mod bucket;
mod config;
mod error;
mod fdb;
mod guard;
mod hash;
mod key;
mod limit;
mod listing;
mod mirror;
mod pair_listener;
mod ports;
mod protocols;
mod refusals;
mod share;
mod switch;
mod table;
mod vlan;
mod vlan_set;
mod worker;
mod wrapped;

pub use allowed::{AllowedSource, ParseSourceError};
pub use bond::{
    BondConfig, BondMode, BondStatistics, BucketStatistics, LacpStatus, MAX_MEMBERS, MemberConfig,
    MemberLacp, MemberStatistics,
};
pub use config::{BridgeConfig, MacMoves, PortConfig, PortState, Rate, Vlan};
pub use error::{
    AddBridgeError, AddPortError, BondError, RemoveBridgeError, RemovePortError, RemoveStationError,
    SetBridgeError, StaticError, UnknownBridge,
};
pub use listing::{BridgeStatistics, PortStatistics, RefusedMove, Selection, Station};
pub use mirror::{MirrorConfig, MirrorError, MirrorOutput, MirrorStatistics};
pub use switch::{LinkEvent, Switch, VlanPort};
pub use vlan_set::{ParseVlanSetError, VlanSet};
pub use wrapped::Wrapped;
