//! Opens connections at a bounded rate, with source addresses and ports in turn.

use super::options::LoadOptions;
use host::Calls;
use stack::tcp::{ConnectionId, Options};
use stack::{Address, Affinity, ConnectError, Endpoint, Time};

/// First source port: the ones below are those of services (RFC 6335 section 6).
const FIRST_PORT: u16 = 1024;
/// Maximum number of source ports in use that are passed over at a time.
const MAX_PASSED: u32 = 64;
/// Maximum number of source ports of other workers that are passed over at a time: of 32 workers, one of 32 ports is
/// this one's on average.
const MAX_SEARCHED: u32 = 1024;
/// Time for which nothing is opened after an attempt failed, in microseconds.
const RETRY: u64 = 10_000;
/// Maximum time by which opening may be behind its rate and is caught up, in nanoseconds.
const CATCH_UP: u64 = 1_000_000;

/// Result of an attempt to open.
pub(super) enum Opened {
    /// The handshake began.
    Connecting(ConnectionId),
    /// No port or entry is free now.
    Later,
    /// The destination has no route.
    NoRoute,
}

/// The connections that are to be opened.
#[derive(Debug)]
pub(super) struct Opener {
    server: Endpoint,
    sources: Vec<Address>,
    tcp: Options,
    /// Number of connections to open.
    pub(super) wanted: u32,
    /// Number of handshakes, and its limit.
    pub(super) connecting: u32,
    max_connecting: u32,
    /// Interval in nanoseconds; 0 for no limit.
    interval: u64,
    /// No connection is opened before.
    next: Time,
    /// Number of the next pair of source address and port.
    source: u64,
    /// Which source ports lead replies to this worker.
    affinity: Affinity,
    /// Source ports in use that the thread of the stack passed over since the last connection.
    pub(super) passed: u32,
}

impl Opener {
    pub(super) fn new(options: &LoadOptions, affinity: Affinity) -> Self {
        Self {
            server: options.server,
            sources: options.sources.clone(),
            tcp: options.tcp,
            wanted: options.connections,
            connecting: 0,
            max_connecting: options.handshakes,
            interval: options.connect_rate.map_or(0, |rate| (1e9 / rate) as u64),
            next: Time::default(),
            source: 0,
            affinity,
            passed: 0,
        }
    }

    /// Time of the next attempt.
    #[inline]
    pub(super) fn deadline(&self) -> Time {
        if self.wanted == 0 || self.connecting >= self.max_connecting { Time::NEVER } else { self.next }
    }

    /// An attempt failed, or a handshake did.
    pub(super) fn postpone(&mut self, now: Time) {
        self.next = self.next.max(now.after_micros(RETRY));
    }

    /// The next pair of source address and port whose replies reach this worker.
    fn next_source(&mut self) -> Endpoint {
        let mut source = self.any_source();
        for _ in 0..MAX_SEARCHED {
            // The stack chooses port 0.
            if source.port == 0 || self.affinity.owns(source, self.server) {
                break;
            }
            source = self.any_source();
        }
        source
    }

    /// The next pair of source address and port.
    fn any_source(&mut self) -> Endpoint {
        let count = self.sources.len() as u64;
        let Some(address) = self.sources.get((self.source % count.max(1)) as usize) else {
            return Endpoint::default();
        };
        let ports = u64::from(u16::MAX - FIRST_PORT) + 1;
        let port = FIRST_PORT + (self.source / count % ports) as u16;
        self.source += 1;
        Endpoint::new(*address, port)
    }

    /// Opens one connection. Must be called at [`Opener::deadline`] only.
    pub(super) fn open(&mut self, stack: &mut impl Calls, now: Time) -> Opened {
        for _ in 0..MAX_PASSED {
            let source = self.next_source();
            match stack.connect(source, self.server, self.tcp, now) {
                Ok(id) => {
                    self.next = Time(self.next.0.max(now.0.saturating_sub(CATCH_UP)) + self.interval);
                    self.wanted -= 1;
                    self.connecting += 1;
                    return Opened::Connecting(id);
                }
                Err(ConnectError::InUse) => {}
                Err(ConnectError::TooMany) => break,
                Err(ConnectError::NoRoute) => return Opened::NoRoute,
            }
        }
        self.postpone(now);
        Opened::Later
    }

    /// The thread of the stack did not begin a handshake. Returns `false` if it has no route.
    pub(super) fn not_opened(&mut self, error: ConnectError, now: Time) -> bool {
        self.connecting -= 1;
        self.passed += u32::from(error == ConnectError::InUse);
        if error == ConnectError::TooMany || self.passed % MAX_PASSED == MAX_PASSED - 1 {
            self.postpone(now);
        }
        error != ConnectError::NoRoute
    }
}
