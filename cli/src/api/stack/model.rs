//! JSON of the control API of a stack, shared by server and client.

use console::Span;
use host::{CaptureStatus, Totals};
use serde::{Deserialize, Serialize};
use stack::Endpoint;
use stack::tcp::ConnectionInfo;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use utoipa::{IntoParams, ToSchema};

/// Query of `GET /v1/stack/connections`; absent ends match all.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ConnectionFilter {
    /// Local port.
    pub(crate) port: Option<u16>,
    /// Remote end, such as `10.9.0.1:40000`.
    #[param(value_type = Option<String>)]
    pub(crate) remote: Option<SocketAddr>,
    /// Maximum number of connections.
    pub(crate) limit: usize,
}

impl ConnectionFilter {
    /// Whether a connection matches.
    pub(super) fn has(&self, info: &ConnectionInfo) -> bool {
        self.port.is_none_or(|port| port == info.local.port)
            && self.remote.is_none_or(|remote| Endpoint::from(remote) == info.remote)
    }
}

/// `GET /v1/stack/connections`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct ConnectionsReport {
    /// Connections by worker. Those that open or close while they are read may be missing.
    pub(crate) connections: Vec<ConnectionReport>,
    /// Whether there are more than the limit.
    pub(crate) is_truncated: bool,
}

/// One TCP connection. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct ConnectionReport {
    /// Number of its worker.
    pub(crate) worker: usize,
    /// Local address and port.
    #[schema(value_type = String)]
    pub(crate) local: SocketAddr,
    /// Remote address and port.
    #[schema(value_type = String)]
    pub(crate) remote: SocketAddr,
    /// State, by its name in RFC 9293.
    pub(crate) state: String,
    /// Round-trip time; null without a sample.
    pub(crate) rtt: Option<Rtt>,
    /// Congestion control, by its name in Linux.
    pub(crate) congestion_control: String,
    /// Congestion window.
    pub(crate) congestion_window: u32,
    /// Slow-start threshold.
    pub(crate) slow_start_threshold: u32,
    /// Window that the peer advertised.
    pub(crate) peer_window: u32,
    /// Sent and not acknowledged.
    pub(crate) in_flight: u32,
    /// Queued by the application and not acknowledged, with those in flight.
    pub(crate) send_queue: u32,
    /// Received and held by the application.
    pub(crate) receive_queue: u32,
    /// Received out of order.
    pub(crate) out_of_order: u32,
    /// Payload of a full segment.
    pub(crate) segment: u16,
    /// Segments retransmitted, at most 65,535.
    pub(crate) retransmissions: u16,
    /// Memory of the connection without its queues.
    pub(crate) memory: usize,
}

/// Round-trip time of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Rtt {
    /// Smoothed round-trip time in microseconds.
    pub(crate) smoothed_us: u32,
    /// Its variation in microseconds.
    pub(crate) variation_us: u32,
}

impl ConnectionReport {
    pub(super) fn of(worker: usize, info: &ConnectionInfo) -> Self {
        let socket = |end: Endpoint| SocketAddr::new(end.address.ip(), end.port);
        Self {
            worker,
            local: socket(info.local),
            remote: socket(info.remote),
            state: info.state.name().to_owned(),
            rtt: info.rtt.map(|(smoothed_us, variation_us)| Rtt { smoothed_us, variation_us }),
            congestion_control: info.congestion.name().to_owned(),
            congestion_window: info.window.0,
            slow_start_threshold: info.window.1,
            peer_window: info.peer_window,
            in_flight: info.in_flight,
            send_queue: info.queued,
            receive_queue: info.held,
            out_of_order: info.out_of_order,
            segment: info.segment,
            retransmissions: info.retransmits,
            memory: info.memory,
        }
    }
}

/// `GET /v1/stack/counters`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct CountersReport {
    /// Connections in TIME-WAIT.
    pub(crate) time_waits: usize,
    /// All counters of stack, loop and shared port, as sums over the workers.
    pub(crate) counters: BTreeMap<String, u64>,
}

impl CountersReport {
    pub(super) fn of(totals: &Totals) -> Self {
        let counters = totals.report.named().map(|(name, value)| (name.to_owned(), value)).collect();
        Self { time_waits: totals.time_waits, counters }
    }
}

/// `POST /v1/stack/capture`
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CaptureRequest {
    /// Absolute path of the file, which the program writes with the permissions of its user.
    #[schema(value_type = String)]
    pub(crate) file: PathBuf,
    /// Packets that are captured.
    pub(crate) filter: CaptureSelection,
    /// Maximum number of packets.
    pub(crate) packets: u64,
    /// Maximum time, such as `1m`.
    #[schema(value_type = String)]
    pub(crate) duration: Span,
    /// Maximum number of bytes kept of each packet. Default: all.
    pub(crate) snap: Option<u32>,
    /// Whether an existing file is replaced.
    pub(crate) overwrite: bool,
}

/// Packets of a capture: one of the fields.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CaptureSelection {
    /// Local and remote end of a TCP connection, such as `["10.9.0.2:7", "10.9.0.1:40000"]`.
    #[schema(value_type = Option<Vec<String>>)]
    pub(crate) connection: Option<[SocketAddr; 2]>,
    /// Local port.
    pub(crate) port: Option<u16>,
}

/// State of a capture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct CaptureReport {
    /// Path of the file.
    #[schema(value_type = String)]
    pub(crate) file: PathBuf,
    /// Packets in the file.
    pub(crate) packets: u64,
    /// Packets not written because the file was slower than the packets, or has ended.
    pub(crate) missed: u64,
    /// Error that ended the file early.
    pub(crate) failure: Option<String>,
    /// Whether the file is complete.
    pub(crate) has_ended: bool,
}

impl CaptureReport {
    pub(super) fn of(file: &Path, status: CaptureStatus) -> Self {
        let CaptureStatus { counts, has_ended } = status;
        let (packets, missed, failure) = (counts.written, counts.missed, counts.failure);
        Self { file: file.to_owned(), packets, missed, failure, has_ended }
    }
}
