//! Settings of the client.

use super::arrivals::Spacing;
use stack::tcp::Options;
use stack::{Address, Endpoint};
use std::time::Duration;

/// Default maximum number of handshakes at a time, so that a server's queue of half-open connections is not exceeded.
const MAX_CONNECTING: u32 = 256;

/// When requests are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    /// Each connection has `depth` requests on their way. A complete reply is followed by the next request after
    /// `think`.
    Closed {
        /// Time between a reply and the next request of its connection.
        think: Duration,
    },
    /// Requests are due at times of their own, on a connection that has fewer than `depth` on their way. Latency is
    /// measured from the due time.
    Open {
        /// Mean rate of all connections per second; positive.
        rate: f64,
        /// Spacing.
        spacing: Spacing,
    },
}

/// Settings of a run.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// Server.
    pub server: Endpoint,
    /// Source addresses, used in turn, with ports from 1024 on. If empty, the stack chooses both.
    pub sources: Vec<Address>,
    /// Number of connections; at least one.
    pub connections: u32,
    /// Maximum number of requests on their way on one connection; at least one.
    pub depth: u16,
    /// When requests are sent.
    pub mode: Mode,
    /// Requests after which a connection is closed and replaced; `None` for no limit.
    pub requests_per_connection: Option<u32>,
    /// Maximum number of handshakes at a time; at least one.
    pub handshakes: u32,
    /// Maximum rate of new connections per second; `None` for no limit but `handshakes`.
    pub connect_rate: Option<f64>,
    /// Time before the first round, after all connections were opened.
    pub warm_up: Duration,
    /// Duration of a round.
    pub duration: Duration,
    /// Number of rounds; at least one.
    pub rounds: u32,
    /// Time without a connection or reply after which the run ends.
    pub timeout: Duration,
    /// Settings of the connections.
    pub tcp: Options,
}

impl LoadOptions {
    /// A closed loop of this many connections with one request each, without warm-up.
    pub fn closed(server: Endpoint, connections: u32, duration: Duration) -> Self {
        Self {
            server,
            sources: Vec::new(),
            connections,
            depth: 1,
            mode: Mode::Closed { think: Duration::ZERO },
            requests_per_connection: None,
            handshakes: MAX_CONNECTING,
            connect_rate: None,
            warm_up: Duration::ZERO,
            duration,
            rounds: 1,
            timeout: Duration::from_secs(10),
            tcp: Options { no_delay: true, ..Options::default() },
        }
    }
}
