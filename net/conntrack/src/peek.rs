//! The outcome of connection tracking for a packet that is only examined: nothing is added, updated or translated anew.

use crate::bits;
use crate::connection::{Outcome, Protocol, State, Update};
use crate::packet::{Content, Packet};
use crate::tracker::{Request, Tracker};
use crate::tuple::Tuple;

/// A packet to examine.
#[derive(Clone, Copy, Debug)]
pub enum Examined<'a> {
    /// Its first bytes, from the IP header on.
    Head(&'a [u8]),
    /// Its direction. It fits the state of its connection.
    Tuple(Tuple),
}

impl Tracker {
    /// The outcome for a packet as [`Tracker::track`] returns it, without a change. A packet is taken as valid if its
    /// connection is known: sequence numbers are not compared. The translation of a new connection is not known before
    /// it is added, so that such a packet keeps its addresses.
    pub fn peek(&self, packet: Examined<'_>, before: &State, request: &Request, now: u64) -> Outcome {
        let packet = match packet {
            Examined::Head(head) => {
                Packet::parse(head, request.zone).and_then(|packet| self.with_ports(packet, now))
            }
            Examined::Tuple(tuple) => {
                Some(Packet { tuple, content: Content::Other, fragment: None, payload: &[] })
            }
        };
        let Some(packet) = packet else { return Outcome::bare(bits::INVALID, request.zone, None) };
        let translated = before.translated_in(request.zone);
        self.peek_known(&packet, translated, request, now)
            .unwrap_or_else(|| self.peek_unknown(&packet, request.zone, now))
    }

    fn peek_known(&self, packet: &Packet, translated: u32, request: &Request, now: u64) -> Option<Outcome> {
        let hash = self.hasher.hash(&packet.tuple);
        let (shard, slot, is_reply) = self.find(hash, &packet.tuple, translated != 0)?;
        let is_forced = request.force && is_reply && packet.content != Content::Error;
        let connection = shard.get(slot).filter(|connection| connection.expires > now && !is_forced)?;
        let update = if is_reply || connection.is_assured() { Update::Valid } else { Update::New };
        let mut state = connection.state(connection.bits(packet, is_reply, update));
        state.bits |= translated;
        let translation = request.nat.filter(|_| translated == 0);
        let translation = translation.and_then(|_| connection.translate(packet, is_reply));
        state.bits |= translation.map_or(0, |(bits, _)| bits);
        let mut outcome = Outcome::bare(0, request.zone, None);
        (outcome.state, outcome.rewrite) = (state, translation.map(|(_, rewrite)| rewrite));
        Some(outcome)
    }

    fn peek_unknown(&self, packet: &Packet, zone: u16, now: u64) -> Outcome {
        let may_begin = packet.content == Content::Later || Protocol::start(&packet.content).is_some();
        if !may_begin {
            return Outcome::bare(bits::INVALID, zone, None);
        }
        let expected = self.expected(&packet.tuple, now);
        Outcome::first(packet.tuple, expected.map(|expected| expected.parent))
    }
}
