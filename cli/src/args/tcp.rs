//! Arguments of TCP connections.

use clap::{Args, ValueEnum};
use stack::tcp::{CongestionAlgorithm, Options};

/// A congestion control algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Congestion {
    /// CUBIC (RFC 9438)
    #[default]
    Cubic,
    /// NewReno (RFC 5681, RFC 6582)
    NewReno,
    /// BBR, with pacing (draft-ietf-ccwg-bbr)
    Bbr,
}

/// Settings of all connections.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct TcpArgs {
    /// Congestion control
    #[arg(long, value_enum, default_value_t)]
    pub(crate) congestion: Congestion,
    /// Use explicit congestion notification (RFC 3168) with peers that agree
    #[arg(long)]
    pub(crate) ecn: bool,
    /// Send and accept data in SYNs (TCP Fast Open, RFC 7413) with peers that have a cookie
    #[arg(long)]
    pub(crate) fast_open: bool,
}

impl TcpArgs {
    /// Settings of a connection.
    pub(crate) fn options(self) -> Options {
        let congestion = match self.congestion {
            Congestion::Cubic => CongestionAlgorithm::Cubic,
            Congestion::NewReno => CongestionAlgorithm::NewReno,
            Congestion::Bbr => CongestionAlgorithm::Bbr,
        };
        Options { congestion, ecn: self.ecn, fast_open: self.fast_open, ..Options::default() }
    }
}
