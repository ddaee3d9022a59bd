//! Settings of a connection.

use core::time::Duration;

/// Congestion control of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CongestionAlgorithm {
    /// NewReno (RFC 5681, RFC 6582).
    NewReno,
    /// CUBIC (RFC 9438).
    #[default]
    Cubic,
    /// BBR with pacing (draft-ietf-ccwg-bbr).
    Bbr,
}

impl CongestionAlgorithm {
    /// Name in Linux.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NewReno => "reno",
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
        }
    }
}

/// Settings of a connection. Listeners pass theirs to the connections that they accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a socket option of its own")]
pub struct Options {
    /// Congestion control.
    pub congestion: CongestionAlgorithm,
    /// Whether small segments are sent although data is unacknowledged (no Nagle algorithm).
    pub no_delay: bool,
    /// Whether only full segments are sent, until the option is switched off.
    pub cork: bool,
    /// Idle time before the first keep-alive probe; `None` sends none.
    pub keep_alive: Option<Duration>,
    /// Interval between keep-alive probes, and how many unanswered ones end the connection.
    pub keep_alive_interval: (Duration, u8),
    /// Time for which sent data may stay unacknowledged before the connection ends (RFC 5482).
    pub user_timeout: Duration,
    /// Maximum delay of an acknowledgement (RFC 9293 section 3.8.6.3: below 500 ms). More than one full segment is
    /// acknowledged at once.
    pub delayed_ack: Duration,
    /// Lower bound of the retransmission timeout.
    pub min_rto: Duration,
    /// Maximum segment size to announce, in bytes; the MTU of the path limits it further.
    pub max_segment: u16,
    /// Explicit congestion notification (RFC 3168).
    pub ecn: bool,
    /// Timestamps (RFC 7323).
    pub timestamps: bool,
    /// Selective acknowledgement (RFC 2018).
    pub sack: bool,
    /// Whether windows are scaled (RFC 7323).
    pub window_scale: bool,
    /// TCP Fast Open (RFC 7413): cookies are requested and accepted.
    pub fast_open: bool,
    /// Duration of TIME-WAIT.
    pub time_wait: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            congestion: CongestionAlgorithm::default(),
            no_delay: false,
            cork: false,
            keep_alive: None,
            keep_alive_interval: (Duration::from_secs(75), 9),
            user_timeout: Duration::from_mins(5),
            delayed_ack: Duration::from_millis(40),
            min_rto: Duration::from_millis(200),
            max_segment: u16::MAX,
            ecn: false,
            timestamps: true,
            sack: true,
            window_scale: true,
            fast_open: false,
            time_wait: Duration::from_mins(1),
        }
    }
}
