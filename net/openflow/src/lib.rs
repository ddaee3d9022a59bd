//! OpenFlow messages: bytes to values and back. Without input and output: bytes come from and go to the caller.
//!
//! [`Framing`] divides a stream into messages, [`decode`] reads one, and [`encode`] writes one. Flows, groups and
//! meters are those of the crate `flow`; all other contents of messages have types here. OpenFlow 1.3 (version 4) is
//! complete, except for the properties of optical ports; of 1.0, 1.4 and 1.5 there is what `ovs-ofctl`, os-ken and
//! Faucet use, with Nicira's extensions and those of the ONF.
//!
//! This crate opens no connection, starts no thread and reads no clock. It never panics on foreign bytes, and its
//! memory and work for one message are bounded ([`limits`]).

#![forbid(unsafe_code)]

mod action;
mod bundle;
mod bytes;
mod codec;
mod error;
mod error_codes;
mod flow_mod;
mod flow_removed;
mod framing;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
mod group;
mod hello;
mod instruction;
pub mod limits;
mod message;
mod meter;
pub mod monitor;
mod multipart;
mod oxm;
mod oxm_match;
mod packet;
mod port;
mod port_no;
mod property;
mod queue;
mod switch;
mod table;
mod tlv;
mod v10;
mod vendor;
mod version;

pub use bundle::{ATOMIC, BundleAdd, BundleControl, BundleStep, ORDERED};
pub use codec::{decode, encode};
pub use error::{DecodeError, EncodeError, ErrorCode, ErrorMessage, WireError};
pub use flow_mod::FlowModRequest;
pub use flow_removed::{FlowRemoved, RemovedReason};
pub use framing::{Framing, FramingError};
pub use group::{ALL_GROUPS, BucketStats, GroupDesc, GroupFeatures, GroupStats};
pub use hello::Hello;
pub use message::{Header, Message};
pub use meter::{ALL_METERS, BandStats, MeterConfig, MeterFeatures, MeterStats};
pub use monitor::{FlowEvent, FlowReport, FlowUpdate, MonitorCommand, MonitorRequest};
pub use multipart::features::{TableFeatures, TableProperty, TypeId};
pub use multipart::flow::{Aggregate, FlowStats, FlowStatsRequest};
pub use multipart::reply::{Description, MultipartReply};
pub use multipart::request::{ExperimenterData, MultipartRequest};
pub use oxm::OxmId;
pub use packet::{NO_COOKIE, PacketIn, PacketInFormat, PacketOut, reason};
pub use port::{Port, PortMod, PortReason, PortStats, PortStatus};
pub use queue::{ALL_QUEUES, QueueConfig, QueueDesc, QueueRequest, QueueStats};
pub use switch::{ASYNC_KINDS, AsyncConfig, Features, Role, RoleMessage, RoleStatus, SwitchConfig};
pub use table::{TableConfig, TableReason, TableStats, TableStatus, Vacancy};
pub use tlv::TlvTable;
pub use version::{Dialect, Version};
