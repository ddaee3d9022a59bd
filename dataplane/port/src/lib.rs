//! Ports: where packets enter and leave the switch.
//!
//! A port has receive and transmit queues. A [`Burst`] is a batch of packets. A [`Pipeline`] decides the output
//! ports. Each port type has the same modules: `control` (control side), `rx`, `tx`, and `sys` if it makes system
//! calls. This crate starts no threads, does not sleep and reads no clock; time is passed in.

pub mod af_packet;
pub mod af_xdp;
mod arena;
mod backoff;
mod burst;
pub mod deferred;
mod described;
mod details;
mod edit;
pub mod eventfd;
mod fault;
pub mod handover;
mod header;
pub mod interface;
pub mod memif;
mod memory;
pub mod netns;
pub mod null;
mod offload;
mod passes;
pub mod patch;
pub mod pcap;
mod pipeline;
mod published;
mod queue;
mod remedy;
mod retain;
mod rss_table;
mod socket;
pub mod soft_offload;
mod spool;
mod state;
mod steering;
pub mod stream;
pub mod tap;
mod timer;
mod transmit;
mod verdicts;
pub mod vhost;
pub mod vhost_user;
pub mod virtio_user;
pub mod work;
pub mod wrap;

pub use burst::{
    BURST, Burst, ConnectionState, Frame, GeneratedBurst, HEAD, MAX_HEAD, Notes, Now, PLACES, Route, TakeRun,
};
#[doc(hidden)]
pub use burst::{HEADROOM as HEAD_HEADROOM, SLOT as HEAD_SLOT};
pub use details::{PortDetail, PortDetails};
pub use edit::{Edit, EditId, EditTooLong, Edits, MAX_INSERTED, MAX_PATCHED, MAX_PATCHES, OuterHeaders};
pub use fault::{DropReason, GrantEnd, PortFault};
pub use offload::{BadOffload, Capabilities, MIN_SEGMENT, OFFLOAD_HEADER, Offload, Segmentation};
pub use passes::{MAX_PASSES, Passes, Punts};
pub use pipeline::{Context, Pipeline, Pipelines, PortObserver, PuntNote, PuntReason, Punted};
pub use published::Published;
pub use queue::{
    Attach, BurstStats, Flush, MAX_QUEUE_PAIRS, PortControl, PortId, PortState, PortStatus, QueueId,
    QueueStatus, RxQueue, TxQueue,
};
pub use remedy::Remedy;
pub use retain::{Retained, Retainer};
pub use ring::BufId;
pub use rss_table::RssTable;
pub use state::{DriverQueue, MemifQueue, QueueState};
pub use steering::{Rss, Steering};
pub use timer::Timer;
pub use transmit::Slots;
pub use verdicts::{Batch, Flooded, Indices, Verdicts};

/// Prepares the calling thread for the use of queues, so that its first burst has no set-up cost.
pub fn prepare_thread() {
    eventfd::prepare();
}
