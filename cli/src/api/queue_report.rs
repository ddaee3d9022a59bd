//! Report of the queues of ports, for routes and metrics.

use crate::settings::topology::PortSettings;
use crate::settings::wrappers::queues::ClassSettings;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A class of the queues of a port with its counters, which are 0 for a class with children.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct QueueReport {
    pub(crate) port: String,
    /// Number of the class.
    pub(crate) queue: u8,
    /// Number of the class that lends to it; absent if that is the port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) parent: Option<u8>,
    /// Guaranteed rate in bits per second.
    pub(crate) rate: u64,
    /// Maximum rate in bits per second.
    pub(crate) ceil: u64,
    pub(crate) priority: u8,
    /// Packets that left the class.
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    /// Packets dropped because the class or the memory of the port was full.
    pub(crate) full: u64,
    /// Packets dropped by `CoDel`.
    pub(crate) codel: u64,
    /// Packets marked by `CoDel`.
    pub(crate) marked: u64,
    /// Packets that wait.
    pub(crate) backlog: u64,
    pub(crate) backlog_bytes: u64,
}

/// The classes of a port, in the order of its settings.
pub(super) fn reports(port: &PortSettings) -> Vec<QueueReport> {
    let Some(queues) = &port.wrappers.queues else { return Vec::new() };
    let counts = queues.counts().unwrap_or_default();
    let report = |(at, class): (usize, &ClassSettings)| {
        let counts = counts.get(at).copied().flatten().unwrap_or_default();
        QueueReport {
            port: port.name.clone(),
            queue: class.queue,
            parent: class.parent,
            rate: class.rate.0,
            ceil: class.ceil(queues.rate).0,
            priority: class.priority,
            packets: counts.packets,
            bytes: counts.bytes,
            full: counts.full,
            codel: counts.codel,
            marked: counts.marked,
            backlog: counts.backlog,
            backlog_bytes: counts.backlog_bytes,
        }
    };
    queues.classes.iter().enumerate().map(report).collect()
}
