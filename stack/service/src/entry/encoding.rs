//! Encoding of commands and completions. Decoding must not trust a field.

use super::{Command, Completion, DatagramOptions, GroupChange, StreamOptions};
use crate::chunks::ArenaRange;
use crate::reason::Reason;
use crate::ring::Words;
use stack::{Address, Endpoint};

/// Fields of an entry, which each kind uses as far as it has them.
#[derive(Clone, Copy, Default)]
struct Fields {
    kind: u8,
    detail: u8,
    id: u32,
    other: u32,
    range: ArenaRange,
    options: u64,
    local: Endpoint,
    remote: Endpoint,
}

impl Fields {
    fn of(kind: u8, id: u32) -> Self {
        Self { kind, id, ..Self::default() }
    }

    fn encode(&self) -> Words {
        let ports = u64::from(self.local.port) << 16 | u64::from(self.remote.port) << 32;
        let [local, remote] = [self.local, self.remote].map(|end| u128::from_be_bytes(*end.address.octets()));
        [
            u64::from(self.kind) | u64::from(self.detail) << 8 | ports,
            pair(self.id, self.other),
            pair(self.range.offset, self.range.len),
            self.options,
            local as u64,
            (local >> 64) as u64,
            remote as u64,
            (remote >> 64) as u64,
        ]
    }

    fn decode(words: &Words) -> Self {
        let address =
            |at: usize| Address::v6((u128::from(words[at]) | u128::from(words[at + 1]) << 64).to_be_bytes());
        Self {
            kind: words[0] as u8,
            detail: (words[0] >> 8) as u8,
            id: words[1] as u32,
            other: (words[1] >> 32) as u32,
            range: ArenaRange { offset: words[2] as u32, len: (words[2] >> 32) as u32 },
            options: words[3],
            local: Endpoint::new(address(4), (words[0] >> 16) as u16),
            remote: Endpoint::new(address(6), (words[0] >> 32) as u16),
        }
    }
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// `detail` of a datagram's last piece, and of a command with a destination.
const LAST: u8 = 1;
const HAS_REMOTE: u8 = 2;

impl Command {
    pub(crate) fn encode(self) -> Words {
        let of = Fields::of;
        let fields = match self {
            Self::Listen { id, local, shares } => Fields { local, detail: shares.into(), ..of(1, id) },
            Self::Accept { id, count } => Fields { other: count, ..of(2, id) },
            Self::Connect { id, local, remote, options } => {
                Fields { local, remote, options: options.encode(), ..of(3, id) }
            }
            Self::Send { id, range } => Fields { range, ..of(4, id) },
            Self::Consumed { id, bytes } => Fields { other: bytes, ..of(5, id) },
            Self::Shutdown { id } => of(6, id),
            Self::Abort { id } => of(7, id),
            Self::Close { id } => of(8, id),
            Self::SetOptions { id, options } => Fields { options: options.encode(), ..of(9, id) },
            Self::UdpBind { id, local } => Fields { local, ..of(10, id) },
            Self::UdpConnect { id, remote } => Fields { remote, ..of(11, id) },
            Self::UdpSend { id, remote, range, is_last } => {
                let detail = if is_last { LAST } else { 0 } | if remote.is_some() { HAS_REMOTE } else { 0 };
                Fields { remote: remote.unwrap_or_default(), range, detail, ..of(12, id) }
            }
            Self::UdpGroup { id, change: GroupChange { request, group, local, joins } } => {
                let [local, remote] = [local, group].map(|address| Endpoint::new(address, 0));
                Fields { local, remote, other: request, detail: joins.into(), ..of(13, id) }
            }
            Self::UdpSetOptions { id, options } => {
                let local = Endpoint::new(options.group_source.unwrap_or_default(), 0);
                Fields { local, options: options.encode(), ..of(14, id) }
            }
        };
        fields.encode()
    }

    /// Returns `None` if the kind does not exist.
    pub(crate) fn decode(words: &Words) -> Option<Self> {
        let Fields { kind, detail, id, other, range, options, local, remote } = Fields::decode(words);
        let datagram_options = DatagramOptions::decode(options, local.address);
        let options = StreamOptions::decode(options);
        Some(match kind {
            1 => Self::Listen { id, local, shares: detail & 1 != 0 },
            2 => Self::Accept { id, count: other },
            3 => Self::Connect { id, local, remote, options },
            4 => Self::Send { id, range },
            5 => Self::Consumed { id, bytes: other },
            6 => Self::Shutdown { id },
            7 => Self::Abort { id },
            8 => Self::Close { id },
            9 => Self::SetOptions { id, options },
            10 => Self::UdpBind { id, local },
            11 => Self::UdpConnect { id, remote },
            12 => {
                let remote = (detail & HAS_REMOTE != 0).then_some(remote);
                Self::UdpSend { id, remote, range, is_last: detail & LAST != 0 }
            }
            13 => {
                let (group, local, joins) = (remote.address, local.address, detail & 1 != 0);
                Self::UdpGroup { id, change: GroupChange { request: other, group, local, joins } }
            }
            14 => Self::UdpSetOptions { id, options: datagram_options },
            _ => return None,
        })
    }
}

impl Completion {
    /// Number of the socket.
    pub(crate) fn id(self) -> u32 {
        Fields::decode(&self.encode()).id
    }

    pub(crate) fn encode(self) -> Words {
        let of = Fields::of;
        let fields = match self {
            Self::Bound { id, local } => Fields { local, ..of(1, id) },
            Self::Failed { id, reason } => Fields { detail: reason as u8, ..of(2, id) },
            Self::Accepted { listener, id, local, remote } => {
                Fields { other: listener, local, remote, ..of(3, id) }
            }
            Self::Connected { id, local, remote } => Fields { local, remote, ..of(4, id) },
            Self::Data { id, range } => Fields { range, ..of(5, id) },
            Self::Sent { id, bytes } => Fields { other: bytes, ..of(6, id) },
            Self::Finished { id } => of(7, id),
            Self::Closed { id, reason } => Fields { detail: reason as u8, ..of(8, id) },
            Self::Datagram { id, from, range, is_last } => {
                Fields { remote: from, range, detail: is_last.into(), ..of(9, id) }
            }
            Self::DatagramFailed { id, reason } => Fields { detail: reason as u8, ..of(10, id) },
            Self::Connecting { id, local, remote } => Fields { local, remote, ..of(11, id) },
            Self::Answer { id, request, reason } => {
                let detail = reason.map_or(0, |reason| reason as u8);
                Fields { other: request, detail, ..of(12, id) }
            }
            Self::Elsewhere { id, worker } => Fields { other: worker, ..of(13, id) },
            Self::Active { workers } => of(14, workers),
        };
        fields.encode()
    }

    /// Returns `None` if the kind or a reason does not exist.
    pub(crate) fn decode(words: &Words) -> Option<Self> {
        let Fields { kind, detail, id, other, range, local, remote, .. } = Fields::decode(words);
        Some(match kind {
            1 => Self::Bound { id, local },
            2 => Self::Failed { id, reason: Reason::of(detail)? },
            3 => Self::Accepted { listener: other, id, local, remote },
            4 => Self::Connected { id, local, remote },
            5 => Self::Data { id, range },
            6 => Self::Sent { id, bytes: other },
            7 => Self::Finished { id },
            8 => Self::Closed { id, reason: Reason::of(detail)? },
            9 => Self::Datagram { id, from: remote, range, is_last: detail & LAST != 0 },
            10 => Self::DatagramFailed { id, reason: Reason::of(detail)? },
            11 => Self::Connecting { id, local, remote },
            12 => {
                let reason = if detail == 0 { None } else { Some(Reason::of(detail)?) };
                Self::Answer { id, request: other, reason }
            }
            13 => Self::Elsewhere { id, worker: other },
            14 => Self::Active { workers: id },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    proptest! {
        #[test]
        fn decoded_entries_encode_to_equal_entries(words: [u64; 8], kind in 0..16_u64, detail in 0..20_u64) {
            let words = [words[0] & !0xffff | kind | detail << 8, words[1], words[2], words[3], words[4], words[5], words[6], words[7]];
            if let Some(command) = Command::decode(&words) {
                prop_assert_eq!(Command::decode(&command.encode()), Some(command));
            }
            if let Some(completion) = Completion::decode(&words) {
                prop_assert_eq!(Completion::decode(&completion.encode()), Some(completion));
                prop_assert_eq!(completion.id(), words[1] as u32);
            }
        }
    }

    #[test]
    fn every_command_survives_the_ring() {
        let (id, range) = (7, ArenaRange { offset: 1, len: 2 });
        let [local, remote] = ["10.0.0.1:80", "[fd00::1]:443"]
            .map(|text| Endpoint::from(text.parse::<std::net::SocketAddr>().unwrap()));
        let options = StreamOptions {
            no_delay: true,
            cork: true,
            keep_alive: Some(Duration::from_mins(1)),
            user_timeout: Some(Duration::from_millis(1500)),
        };
        let change = GroupChange { request: 5, group: remote.address, local: local.address, joins: true };
        let datagrams =
            DatagramOptions { hop_limit: 3, group_hop_limit: 4, group_source: Some(local.address) };
        let all = [
            Command::Listen { id, local, shares: true },
            Command::Accept { id, count: 3 },
            Command::Connect { id, local, remote, options },
            Command::Send { id, range },
            Command::Consumed { id, bytes: 9 },
            Command::Shutdown { id },
            Command::Abort { id },
            Command::Close { id },
            Command::SetOptions { id, options },
            Command::UdpBind { id, local },
            Command::UdpConnect { id, remote },
            Command::UdpSend { id, remote: Some(remote), range, is_last: false },
            Command::UdpSend { id, remote: None, range, is_last: true },
            Command::UdpGroup { id, change },
            Command::UdpSetOptions { id, options: datagrams },
            Command::UdpSetOptions { id, options: DatagramOptions::default() },
        ];
        for command in all {
            assert_eq!(Command::decode(&command.encode()), Some(command));
        }
    }
}
