//! Statistics of three rule sets, from the parameter files of `ClassBench`, rounded to thousandths.

mod acl;
mod firewall;
mod ip_chain;

pub(super) use acl::ACL;
pub(super) use firewall::FIREWALL;
pub(super) use ip_chain::IP_CHAIN;

/// A range of ports.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ports {
    /// All.
    Any,
    /// From 1024 on.
    High,
    /// One of [`Seed::ranges`].
    Range,
    /// One of [`Seed::exact`].
    Exact,
}

/// Rules with the same kinds of source and destination ports.
pub(super) struct Kind {
    pub(super) ports: [Ports; 2],
    /// Weight and number of each protocol; 0 for any.
    pub(super) protocols: &'static [(u32, u8)],
    /// Weight and lengths of the source and destination prefix.
    pub(super) lengths: &'static [(u32, u8, u8)],
}

/// Weights and ranges.
pub(super) type Ranges = &'static [(u32, u16, u16)];

/// Statistics of a rule set.
pub(super) struct Seed {
    pub(super) kinds: &'static [Kind],
    /// Single ports, of source and destination.
    pub(super) exact: [Ranges; 2],
    /// See `exact`.
    pub(super) ranges: [Ranges; 2],
    /// Share of the nodes with two children at each bit of an address, in percent.
    pub(super) branching: [[u8; 32]; 2],
}
