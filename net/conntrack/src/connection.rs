//! One connection, and what it means for a packet.

use crate::bits;
use crate::config::{Rules, Timer};
use crate::ftp::Text;
use crate::helper::{Helper, Parent};
use crate::nat::Direction;
use crate::packet::{Content, Packet};
use crate::sequence::Moves;
use crate::tuple::Tuple;
use crate::{icmp, tcp, udp};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Connection state of a packet: the fields `ct_*` of ovs-fields(7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// See [`crate::bits`]; 0 for a packet that has not passed through connection tracking.
    pub bits: u32,
    /// Zone.
    pub zone: u16,
    /// Mark of the connection.
    pub mark: u32,
    /// Label of the connection.
    pub label: u128,
    /// Original direction of the connection, or of the connection that it is related to.
    pub original: Option<Tuple>,
}

impl State {
    /// Bits of an earlier translation in this zone.
    pub(crate) fn translated_in(&self, zone: u16) -> u32 {
        if self.zone == zone { self.bits & (bits::SNAT | bits::DNAT) } else { 0 }
    }
}

/// Changes of a packet's addresses and ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rewrite {
    /// The packet gets these addresses and ports. A fragment other than the first has no ports to change.
    Packet(Tuple),
    /// An ICMP error.
    Error {
        /// Source of the error, if it changes.
        source: Option<IpAddr>,
        /// Destination of the error, if it changes.
        destination: Option<IpAddr>,
        /// Addresses and ports that the quoted packet gets.
        quoted: Tuple,
    },
    /// A TCP segment of a control connection whose messages give translated addresses.
    Segment {
        /// Addresses and ports that the segment gets.
        tuple: Tuple,
        /// Sequence number that it gets.
        sequence: u32,
        /// Acknowledgement number that it gets. Selective acknowledgements must be removed.
        acknowledgement: Option<u32>,
        /// Change of its payload.
        text: Option<Text>,
    },
}

/// Result for one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Its connection state.
    pub state: State,
    /// How its addresses change.
    pub rewrite: Option<Rewrite>,
    /// Work that it has caused.
    pub effort: Effort,
    /// Where its connection was found, if it is neither translated nor related and the packet is no ICMP error: the
    /// original direction then follows from the packet's own addresses and ports.
    pub place: Option<Place>,
}

/// Where a connection is, and the direction of a packet. A hint: another connection may be there later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Number of the shard.
    pub shard: u16,
    /// Slot in the shard.
    pub slot: u32,
    /// Its address in memory, to load it into the cache.
    pub address: usize,
    /// Whether the packet is one of the reply direction.
    pub is_reply: bool,
}

/// Work that a packet has caused, beyond the search for its connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    /// Connections that were added.
    pub added: u32,
    /// Addresses and ports that were tried for their translation.
    pub tried: u32,
}

impl Outcome {
    /// A packet without connection.
    pub(crate) fn bare(bits: u32, zone: u16, original: Option<Tuple>) -> Self {
        let state = State { bits: bits | bits::TRACKED, zone, original, ..State::default() };
        Self { state, rewrite: None, effort: Effort::default(), place: None }
    }

    /// The first packet of a connection, which may be related to another one.
    pub(crate) fn first(tuple: Tuple, parent: Option<Parent>) -> Self {
        let mut outcome = Self::bare(bits::NEW, tuple.zone(), Some(tuple));
        if let Some(Parent { original, mark, label }) = parent {
            let bits = outcome.state.bits | bits::RELATED;
            outcome.state = State { bits, mark, label, original: Some(original), ..outcome.state };
        }
        outcome
    }
}

/// Effect of a packet on its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Update {
    /// It belongs to the established connection.
    Valid,
    /// It belongs to the connection, which is still new.
    New,
    /// It contradicts the connection.
    Invalid,
    /// The connection has ended, and the packet may begin another one.
    Over,
}

/// State of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Protocol {
    Tcp(tcp::State),
    Icmp(icmp::State),
    Other(udp::State),
}

impl Protocol {
    /// State after the first packet of a connection, and its timer. Returns `None` if the packet cannot be the first.
    pub(crate) fn start(content: &Content) -> Option<(Self, Timer)> {
        match content {
            Content::Tcp(segment) => Some((Self::Tcp(tcp::State::start(segment)?), Timer::TcpSynSent)),
            Content::Icmp { is_request: true } => Some((Self::Icmp(icmp::State::Request), Timer::IcmpFirst)),
            Content::Other => Some((Self::Other(udp::State::First), Timer::UdpFirst)),
            Content::Icmp { is_request: false } | Content::Error | Content::Later => None,
        }
    }
}

/// A connection, in two cache lines.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Connection {
    pub(crate) original: Tuple,
    pub(crate) protocol: Protocol,
    pub(crate) mark: u32,
    pub(crate) label: u128,
    /// Time at which it ends unless a packet arrives, in nanoseconds.
    pub(crate) expires: u64,
    /// Hash of `original`.
    pub(crate) hash: u64,
    /// Connection that it is related to.
    pub(crate) parent: Option<Box<Parent>>,
    /// Its translation, if it is translated.
    pub(crate) nat: Option<Box<Translation>>,
    pub(crate) helper: Helper,
    /// Port whose packet has begun it.
    pub(crate) port: u16,
    /// Number of its watch; 0 for none.
    pub(crate) watch: u16,
    /// Whether packets may have passed that it did not see, so that windows are not known.
    pub(crate) has_gaps: bool,
    /// Whether another process has its present state. Only the table clears it.
    pub(crate) is_saved: bool,
}

/// Translation of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Translation {
    /// Which of its addresses are translated.
    pub(crate) direction: Direction,
    /// Its reply direction. That of other connections is the opposite of the original one.
    pub(crate) reply: Tuple,
    /// Sequence numbers of both directions, the original one first, if a message was changed.
    pub(crate) moves: Option<Box<[Moves; 2]>>,
}

/// Memory of a connection. With its place in the index, 11 to 22 bytes, 3 million connections have
/// about 420 MB; a translated one has 112 bytes more, for its reply direction and the entry that finds it there.
const _: () = assert!(size_of::<Option<Connection>>() == 128);

impl Connection {
    /// Whether both sides have sent packets, so that it is not evicted.
    pub(crate) fn is_assured(&self) -> bool {
        match &self.protocol {
            Protocol::Tcp(state) => state.is_open(),
            Protocol::Icmp(state) => *state == icmp::State::Reply,
            Protocol::Other(state) => *state == udp::State::Multiple,
        }
    }

    /// Its reply direction.
    pub(crate) fn reply(&self) -> Tuple {
        self.nat.as_ref().map_or_else(|| self.original.reversed(), |nat| nat.reply)
    }

    /// Whether a tuple is its reply direction.
    #[inline]
    pub(crate) fn is_reply(&self, tuple: &Tuple) -> bool {
        self.nat.as_ref().map_or_else(|| tuple.is_reverse_of(&self.original), |nat| nat.reply == *tuple)
    }

    /// Whether it is neither translated nor related to another one.
    pub(crate) fn is_plain(&self) -> bool {
        self.nat.is_none() && self.parent.is_none()
    }

    /// Updates the protocol's state and timer for a packet. Errors and later fragments change nothing.
    pub(crate) fn update(&mut self, packet: &Packet, is_reply: bool, now: u64, rules: &Rules) -> Update {
        let is_assured = self.is_assured();
        let (update, timer) = match (&mut self.protocol, &packet.content) {
            (Protocol::Tcp(state), Content::Tcp(segment)) => {
                state.update(segment, is_reply, rules.checks_window() && !self.has_gaps)
            }
            (Protocol::Icmp(state), Content::Icmp { .. }) => state.update(is_reply),
            (Protocol::Other(state), Content::Other) => state.update(is_reply),
            _ if is_assured => (Update::Valid, None),
            _ => (Update::New, None),
        };
        if let Some(timer) = timer {
            self.expires = now + rules.nanos(timer);
        }
        update
    }

    /// Bits of a packet after its update.
    pub(crate) fn bits(&self, packet: &Packet, is_reply: bool, update: Update) -> u32 {
        let reply = if is_reply { bits::REPLY } else { 0 };
        let related = if self.parent.is_some() { bits::RELATED } else { 0 };
        match update {
            _ if packet.content == Content::Error => bits::RELATED | reply,
            Update::Valid => bits::ESTABLISHED | reply | related,
            Update::New => bits::NEW | related,
            Update::Invalid | Update::Over => bits::INVALID,
        }
    }

    /// Connection state of a packet with these bits.
    pub(crate) fn state(&self, bits: u32) -> State {
        let original = self.parent.as_ref().map_or(self.original, |parent| parent.original);
        let bits = bits | bits::TRACKED;
        State {
            bits,
            zone: self.original.zone(),
            mark: self.mark,
            label: self.label,
            original: Some(original),
        }
    }

    /// Bits of a translated packet, and its changes.
    pub(crate) fn translate(&self, packet: &Packet, is_reply: bool) -> Option<(u32, Rewrite)> {
        let Translation { direction, reply, .. } = &**self.nat.as_ref()?;
        let is_source = (*direction == Direction::Source) != is_reply;
        let target = if is_reply { self.original.reversed() } else { reply.reversed() };
        let rewrite = if packet.content == Content::Error {
            Rewrite::Error {
                source: is_source.then(|| target.source()),
                destination: (!is_source).then(|| target.destination()),
                quoted: target.reversed(),
            }
        } else {
            Rewrite::Packet(target)
        };
        Some((if is_source { bits::SNAT } else { bits::DNAT }, rewrite))
    }

    /// Sequence numbers that were moved.
    fn moves(&self) -> Option<&[Moves; 2]> {
        self.nat.as_ref()?.moves.as_deref()
    }

    /// A packet from the receiver of changed messages as their sender must see it: tracking compares these numbers.
    #[cold]
    pub(crate) fn with_numbers_of_sender<'a>(&self, packet: &Packet<'a>, is_reply: bool) -> Packet<'a> {
        match (self.moves(), packet.content) {
            (Some(moves), Content::Tcp(segment)) => {
                let other = &moves[usize::from(!is_reply)];
                let ack = segment.acknowledgement().map(|ack| other.back(ack));
                let segment = ack.map_or(segment, |ack| segment.acknowledging(ack));
                Packet { content: Content::Tcp(segment), ..*packet }
            }
            _ => *packet,
        }
    }

    /// Changes of a translated packet of a control connection beyond its addresses and ports. `packet` has the numbers
    /// of their sender.
    #[cold]
    pub(crate) fn correct(
        &mut self,
        rewrite: Rewrite,
        packet: &Packet,
        is_reply: bool,
        text: Option<Text>,
    ) -> Rewrite {
        let (Rewrite::Packet(tuple), Content::Tcp(segment)) = (rewrite, packet.content) else {
            return rewrite;
        };
        let Some(translation) = &mut self.nat else { return rewrite };
        let sequence = segment.sequence();
        if let Some(text) = &text {
            let start = sequence.wrapping_add(text.at.into());
            let moves = translation.moves.get_or_insert_default();
            moves[usize::from(is_reply)]
                .replace((start, start.wrapping_add(text.len.into())), text.new_len() as u32);
        }
        let Some(moves) = &translation.moves else { return rewrite };
        let sequence = moves[usize::from(is_reply)].forward(sequence);
        Rewrite::Segment { tuple, sequence, acknowledgement: segment.acknowledgement(), text }
    }
}
