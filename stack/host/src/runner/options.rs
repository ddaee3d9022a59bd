//! Settings of a host, and the result of a run.

use crate::PoolLimits;
use crate::distributor::DistributorCounts;
use engine::Polling;
use stack::Counters;
use std::time::Duration;

/// Settings of a host.
#[derive(Clone, Debug)]
pub struct Options {
    /// Settings of the stack.
    pub stack: stack::Config,
    /// Whether an idle host sleeps.
    pub polling: Polling,
    /// Time without work before it sleeps.
    pub idle: Duration,
    /// Memory for received data.
    pub pool: PoolLimits,
    /// Called with one line of text when a port starts or stops carrying packets or its addresses change, between two
    /// rounds.
    pub on_port: fn(&str),
}

impl Options {
    /// Default settings, with a random secret.
    ///
    /// # Errors
    /// If the kernel has no random bytes.
    pub fn new() -> std::io::Result<Self> {
        let mut secret = [0; 16];
        rustix::rand::getrandom(&mut secret[..], rustix::rand::GetRandomFlags::empty())?;
        let (stack, pool) = (stack::Config::new(secret), PoolLimits::default());
        Ok(Self { stack, polling: Polling::Adaptive, idle: Duration::from_micros(50), pool, on_port: |_| () })
    }
}

/// Result of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Counters of the stack.
    pub counters: Counters,
    /// Rounds with and without work, and sleeps.
    pub rounds: (u64, u64, u64),
    /// Frames that the ports accepted and lost.
    pub dropped: u64,
    /// Faults of ports.
    pub faults: u64,
    /// Packets of ports that are shared with other workers.
    pub distributor: DistributorCounts,
    /// State of a port as text, if all ports have ended ([`crate::Host::ended`]).
    pub ended: Option<String>,
}

impl Report {
    /// Adds the result of another host.
    pub fn add(&mut self, other: &Self) {
        self.counters.add(&other.counters);
        let (one, more) = (&mut self.rounds, other.rounds);
        (one.0, one.1, one.2) = (one.0 + more.0, one.1 + more.1, one.2 + more.2);
        self.dropped += other.dropped;
        self.faults += other.faults;
        self.distributor.add(&other.distributor);
        self.ended = self.ended.take().or_else(|| other.ended.clone());
    }
}
