//! Limits and timeouts, all in one place.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Parts of the table, each with its own lock. A power of two.
pub(crate) const SHARDS: usize = 1 << 10;
/// Connections that are allocated at once, and that one visit of a shard reads at most.
pub(crate) const CHUNK: usize = 64;
/// Places for fragmented packets.
pub(crate) const FRAGMENTS: usize = 1 << 12;
/// Time for which the first fragment of a packet is remembered, in nanoseconds.
pub(crate) const FRAGMENT_LIFE: u64 = 15 * SECOND;
/// Places for connections that helpers expect.
pub(crate) const EXPECTATIONS: usize = 1 << 10;
/// Time for which a connection is expected, in nanoseconds.
pub(crate) const EXPECTATION_LIFE: u64 = 60 * SECOND;
/// Ports that are tried in order, and ports that are tried from a random one on, to translate a connection.
pub(crate) const PORT_ATTEMPTS: (u32, u32) = (128, 64);
/// Nanoseconds of a second.
pub(crate) const SECOND: u64 = 1_000_000_000;

/// Limits and timeouts of a tracker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Connections of all zones. Default: 3 million.
    pub limit: usize,
    /// Connections of each zone that has no limit of its own. Default: no limit.
    pub zone_limit: Option<u32>,
    /// Limits of single zones. Default: none.
    pub zones: BTreeMap<u16, u32>,
    /// Connections that packets of one port have begun. Default: no limit.
    pub port_limit: Option<u32>,
    /// Whether a TCP segment outside of the window is invalid. Default: true.
    pub checks_window: bool,
    /// Timeouts.
    pub timeouts: Timeouts,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            limit: 3_000_000,
            zone_limit: None,
            zones: BTreeMap::new(),
            port_limit: None,
            checks_window: true,
            timeouts: Timeouts::default(),
        }
    }
}

/// Timers of connections, as in ovs-vswitchd.conf.db(5), table `CT_Timeout_Policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// TCP, after the first packet. Default: 30 s.
    TcpSynSent,
    /// TCP, until both sides have acknowledged. Default: 30 s.
    TcpSynReceived,
    /// TCP, open. Default: 24 h.
    TcpEstablished,
    /// TCP, closed by one side. Default: 15 min.
    TcpFinWait,
    /// TCP, closed by both sides. Default: 45 s.
    TcpTimeWait,
    /// TCP, closed by both sides and acknowledged, or reset. Default: 30 s.
    TcpClose,
    /// UDP and other protocols, after the first packet. Default: 60 s.
    UdpFirst,
    /// UDP and other protocols, after packets of one side. Default: 60 s.
    UdpSingle,
    /// UDP and other protocols, after packets of both sides. Default: 30 s.
    UdpMultiple,
    /// ICMP, after requests. Default: 60 s.
    IcmpFirst,
    /// ICMP, after a reply. Default: 30 s.
    IcmpReply,
}

impl Timer {
    /// All timers with their names in Open vSwitch (`ovs-vsctl add-zone-tp`).
    pub const NAMES: [(Self, &str); 11] = [
        (Self::TcpSynSent, "tcp_syn_sent"),
        (Self::TcpSynReceived, "tcp_syn_recv"),
        (Self::TcpEstablished, "tcp_established"),
        (Self::TcpFinWait, "tcp_fin_wait"),
        (Self::TcpTimeWait, "tcp_time_wait"),
        (Self::TcpClose, "tcp_close"),
        (Self::UdpFirst, "udp_first"),
        (Self::UdpSingle, "udp_single"),
        (Self::UdpMultiple, "udp_multiple"),
        (Self::IcmpFirst, "icmp_first"),
        (Self::IcmpReply, "icmp_reply"),
    ];
}

/// Timeouts in seconds, by timer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeouts([u32; 11]);

impl Default for Timeouts {
    fn default() -> Self {
        Self([30, 30, 24 * 60 * 60, 15 * 60, 45, 30, 60, 60, 30, 60, 30])
    }
}

impl Timeouts {
    /// Sets the timeout of a timer, in seconds.
    #[must_use]
    pub fn with(mut self, timer: Timer, seconds: u32) -> Self {
        self.0[timer as usize] = seconds;
        self
    }

    /// Timeout of a timer, in seconds.
    pub fn seconds(&self, timer: Timer) -> u32 {
        self.0[timer as usize]
    }
}

/// Part of a configuration that workers read, and that control may change at any time.
pub(crate) struct Rules {
    checks_window: AtomicBool,
    timeouts: [AtomicU32; 11],
}

impl Rules {
    pub(crate) fn new(config: &Config) -> Self {
        let rules = Self { checks_window: AtomicBool::new(true), timeouts: Default::default() };
        rules.set(config);
        rules
    }

    // Relaxed: each value is right by itself.
    pub(crate) fn set(&self, config: &Config) {
        self.checks_window.store(config.checks_window, Ordering::Relaxed);
        for (timeout, seconds) in self.timeouts.iter().zip(config.timeouts.0) {
            timeout.store(seconds, Ordering::Relaxed);
        }
    }

    pub(crate) fn checks_window(&self) -> bool {
        self.checks_window.load(Ordering::Relaxed)
    }

    /// Timeout of a timer, in nanoseconds.
    pub(crate) fn nanos(&self, timer: Timer) -> u64 {
        u64::from(self.timeouts[timer as usize].load(Ordering::Relaxed)) * SECOND
    }
}
