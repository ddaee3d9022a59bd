//! Queries of one VLAN: routers and other queriers that were heard, the election, and when the next general query is
//! due (RFC 3376, section 6.6; RFC 3810, section 7.6).

use crate::config::Config;
use crate::query::ROBUSTNESS;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// Query response interval (RFC 3376, section 8.3).
const RESPONSE: Duration = Duration::from_secs(10);
/// General queries at the start (section 8.7), at a quarter of the interval (section 8.6).
const STARTUP: u8 = 2;
/// Minimum time between general queries under all conditions.
const PAUSE: Duration = Duration::from_secs(1);

/// Maximum delay of reports to general queries, below the interval of queries.
pub(crate) fn response(config: &Config) -> Duration {
    RESPONSE.min(config.query_interval / 2)
}

/// Time for which another querier and a router port are kept (section 8.5).
pub(crate) fn presence(config: &Config) -> Duration {
    config.query_interval * ROBUSTNESS + response(config) / 2
}

/// A querier or router that was heard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    pub(crate) source: IpAddr,
    pub(crate) port: u16,
    pub(crate) until: Duration,
}

/// Routers and queriers of a VLAN.
#[derive(Debug)]
pub(crate) struct Vlan {
    /// By port.
    pub(crate) routers: BTreeMap<u16, Heard>,
    /// Queriers that are preferred to this one: of IGMP and of MLD.
    pub(crate) others: [Option<Heard>; 2],
    /// When the next general query is due.
    pub(crate) next: Duration,
    /// General queries that are still to be sent at short intervals.
    startup: u8,
    latest: Option<Duration>,
}

impl Vlan {
    pub(crate) fn new(now: Duration) -> Self {
        Self { routers: BTreeMap::new(), others: [None; 2], next: now, startup: STARTUP, latest: None }
    }

    /// A router or querier is behind a port. Returns whether the port was none before.
    pub(crate) fn add_router(&mut self, heard: Heard) -> bool {
        self.routers.insert(heard.port, heard).is_none()
    }

    /// A query was heard; `own` is the address of this querier, if there is one.
    pub(crate) fn elect(&mut self, heard: Heard, own: Option<IpAddr>) {
        let other = &mut self.others[usize::from(heard.source.is_ipv6())];
        let is_preferred = |to: IpAddr| to.is_unspecified() || heard.source <= to;
        if other.is_none_or(|other| is_preferred(other.source)) && own.is_none_or(is_preferred) {
            *other = Some(heard);
        }
    }

    /// Whether this querier is the one of IGMP, or with `is_v6` of MLD.
    pub(crate) fn is_own(&self, is_v6: bool) -> bool {
        self.others[usize::from(is_v6)].is_none()
    }

    /// Sends a general query soon, because a port has come up.
    pub(crate) fn restart(&mut self, now: Duration) {
        let earliest = self.latest.map_or(now, |latest| latest + PAUSE);
        (self.startup, self.next) = (STARTUP, self.next.min(now.max(earliest)));
    }

    /// Whether general queries are due; they are then considered as sent.
    pub(crate) fn is_due(&mut self, config: &Config, now: Duration) -> bool {
        if now < self.next {
            return false;
        }
        self.startup = self.startup.saturating_sub(1);
        let interval = if self.startup > 0 { config.query_interval / 4 } else { config.query_interval };
        (self.next, self.latest) = (now + interval, Some(now));
        true
    }

    /// Forgets what was not heard again. Returns whether router ports were removed.
    pub(crate) fn expire(&mut self, now: Duration) -> bool {
        for other in &mut self.others {
            *other = other.filter(|heard| heard.until > now);
        }
        let before = self.routers.len();
        self.routers.retain(|_, heard| heard.until > now);
        self.routers.len() < before
    }

    /// Forgets a port. Returns whether it was a router port.
    pub(crate) fn remove_port(&mut self, port: u16) -> bool {
        for other in &mut self.others {
            *other = other.filter(|heard| heard.port != port);
        }
        self.routers.remove(&port).is_some()
    }

    /// When something is not heard any more.
    pub(crate) fn next_expiry(&self) -> Option<Duration> {
        self.routers.values().chain(self.others.iter().flatten()).map(|heard| heard.until).min()
    }
}
