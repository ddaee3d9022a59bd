//! Settings of sockets that a client can change, and their encoding in one word.

use stack::Address;
use std::time::Duration;

/// Settings of a connection that a client can change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamOptions {
    /// Whether small segments are sent although data is unacknowledged.
    pub no_delay: bool,
    /// Whether only full segments are sent.
    pub cork: bool,
    /// Idle time before the first keep-alive probe, in whole seconds.
    pub keep_alive: Option<Duration>,
    /// Time for which sent data may stay unacknowledged, in milliseconds; `None` is the default of the stack.
    pub user_timeout: Option<Duration>,
}

impl StreamOptions {
    pub(super) fn encode(self) -> u64 {
        let seconds = self.keep_alive.map_or(0, |time| time.as_secs().clamp(1, u16::MAX.into()));
        let millis = self.user_timeout.map_or(0, |time| (time.as_millis() as u64).clamp(1, u32::MAX.into()));
        u64::from(self.no_delay) | u64::from(self.cork) << 1 | seconds << 16 | millis << 32
    }

    pub(super) fn decode(word: u64) -> Self {
        let (seconds, millis) = (word >> 16 & 0xffff, word >> 32);
        Self {
            no_delay: word & 1 != 0,
            cork: word & 2 != 0,
            keep_alive: (seconds > 0).then(|| Duration::from_secs(seconds)),
            user_timeout: (millis > 0).then(|| Duration::from_millis(millis)),
        }
    }

    /// The stack's settings with these changes.
    pub(crate) fn apply(self, base: stack::tcp::Options) -> stack::tcp::Options {
        stack::tcp::Options {
            no_delay: self.no_delay,
            cork: self.cork,
            keep_alive: self.keep_alive,
            user_timeout: self.user_timeout.unwrap_or(base.user_timeout),
            ..base
        }
    }
}

/// Settings of a UDP socket that a client can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramOptions {
    /// Hop limit of datagrams to unicast addresses.
    pub hop_limit: u8,
    /// Hop limit of datagrams to multicast groups.
    pub group_hop_limit: u8,
    /// Own address from which datagrams to groups are sent, over its interface; `None` is the choice of the stack.
    pub group_source: Option<Address>,
}

impl Default for DatagramOptions {
    fn default() -> Self {
        let stack::UdpOptions { hop_limit, group_hop_limit, group_source, .. } = stack::UdpOptions::default();
        Self { hop_limit, group_hop_limit, group_source }
    }
}

impl DatagramOptions {
    pub(super) fn encode(self) -> u64 {
        u64::from(self.hop_limit)
            | u64::from(self.group_hop_limit) << 8
            | u64::from(self.group_source.is_some()) << 16
    }

    pub(super) fn decode(word: u64, source: Address) -> Self {
        let group_source = (word >> 16 & 1 != 0).then_some(source);
        Self { hop_limit: word as u8, group_hop_limit: (word >> 8) as u8, group_source }
    }

    /// The stack's settings with these changes.
    pub(crate) fn apply(self, base: stack::UdpOptions) -> stack::UdpOptions {
        let Self { hop_limit, group_hop_limit, group_source } = self;
        stack::UdpOptions { hop_limit, group_hop_limit, group_source, ..base }
    }
}
