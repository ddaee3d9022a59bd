//! State that all connections of a stack share, and the context of a call.

use super::Seq;
use super::connection::{Connection, Flags};
use super::fast_open::CookieCache;
use super::key::Key;
use super::output::MtuProbe;
use super::recovery::SentPool;
use super::secret::{Cookie, Secret};
use super::send_queue::ChunkPool;
use crate::ip::Ip;
use crate::random::Random;
use crate::wheel::Wheel;
use crate::{Config, Counters, Event, Limits, Payload, Time};
use alloc::collections::VecDeque;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// Number of the seed of flow labels among those of tables.
const FLOW_LABELS: u32 = 3;

/// A number of actions per second: a random one from half of the limit on. With a constant one, a third party that
/// uses up the rest of a second learns how many actions it has caused for others.
#[derive(Clone, Debug)]
pub(crate) struct Rate {
    limit: u32,
    left: u32,
    second: u64,
    random: Random,
}

impl Rate {
    pub(crate) fn new(limit: u32, random: Random) -> Self {
        Self { limit, left: 0, second: u64::MAX, random }
    }

    /// Whether one more action is allowed in this second.
    pub(crate) fn allows(&mut self, now: Time) -> bool {
        let second = now.0 / 1_000_000_000;
        if second != self.second {
            let least = self.limit.div_ceil(2);
            let more = self.random.below(u64::from(self.limit - least) + 1) as u32;
            (self.second, self.left) = (second, least + more);
        }
        let is_allowed = self.left > 0;
        self.left -= u32::from(is_allowed);
        is_allowed
    }
}

/// Limits on answers that a third party can cause.
pub(crate) struct Rates {
    /// Challenge acknowledgements (RFC 5961).
    pub(crate) challenges: Rate,
    pub(crate) resets: Rate,
}

/// State that all connections share.
pub(crate) struct Shared<P: Payload> {
    pub(crate) sent: SentPool,
    pub(crate) chunks: ChunkPool<P>,
    pub(crate) wheel: Wheel,
    /// Connections with output, first come first served.
    pub(crate) ready: VecDeque<u32>,
    pub(crate) limits: Limits,
    pub(crate) secret: Secret,
    /// Makes the flow labels of this stack differ from those of others.
    pub(crate) flow_seed: u32,
    pub(crate) cookies: CookieCache,
    /// Until when acknowledgements may carry SYN cookies.
    pub(crate) cookies_until: Time,
    /// Cost of the ranges out of order of all connections.
    pub(crate) out_of_order: u32,
    /// Ends of the urgent data of connections with [`Flags::URGENT`], by their generation.
    pub(crate) urgent: HashMap<u32, Seq, FixedState>,
    /// Probes of the path MTU of connections with [`Flags::MTU_PROBE`], by their generation.
    pub(crate) mtu_probes: HashMap<u32, MtuProbe, FixedState>,
    /// Connections, with their generations, whose SYN is sent when a neighbour is resolved.
    pub(crate) unresolved: VecDeque<(u32, u32)>,
    /// Connections in SYN-RECEIVED.
    pub(crate) half_open: u32,
    pub(crate) rates: Rates,
}

impl<P: Payload> Shared<P> {
    pub(crate) fn new(config: &Config, secret: Secret, now: Time) -> Self {
        let limits = &config.limits;
        let rate = |limit, label| Rate::new(limit, Random::new(&config.secret, label, 0));
        Self {
            sent: SentPool::new(),
            chunks: ChunkPool::new(),
            wheel: Wheel::new(now),
            ready: VecDeque::new(),
            limits: limits.clone(),
            flow_seed: secret.table(FLOW_LABELS) as u32,
            secret,
            cookies: CookieCache::new(limits.fast_open_cookies),
            cookies_until: Time(0),
            out_of_order: 0,
            urgent: HashMap::default(),
            mtu_probes: HashMap::default(),
            unresolved: VecDeque::new(),
            half_open: 0,
            rates: Rates {
                challenges: rate(limits.challenge_acks, "challenges"),
                resets: rate(limits.errors, "resets"),
            },
        }
    }

    /// Validates the SYN cookie that an acknowledgement returns.
    pub(crate) fn cookie(&self, key: &Key, (irs, iss): (Seq, Seq), now: Time) -> Option<Cookie> {
        if now > self.cookies_until { None } else { self.secret.check(key, irs, iss, now) }
    }

    /// Returns what a connection holds of the pools.
    pub(crate) fn release(&mut self, index: u32, connection: &mut Connection<P>) {
        self.wheel.cancel(index);
        self.out_of_order = self.out_of_order.saturating_sub(connection.out_of_order.cost());
        if connection.flags.has(Flags::URGENT) {
            self.urgent.remove(&connection.generation);
        }
        self.end_mtu_probe(connection);
        connection.tx.queue.release(&mut self.chunks);
        connection.recovery.release(&mut self.sent);
    }

    /// Notes that a connection's SYN waits for the neighbour's address. At most one entry for each connection.
    #[cold]
    pub(crate) fn await_neighbour(&mut self, index: u32, connection: &mut Connection<P>) {
        let has_room = self.unresolved.len() < self.limits.connections as usize;
        if has_room && !connection.flags.has(Flags::UNRESOLVED) {
            connection.flags.set(Flags::UNRESOLVED);
            self.unresolved.push_back((index, connection.generation));
        }
    }

    /// Puts a connection into the list of those with output.
    #[inline]
    pub(crate) fn make_ready(&mut self, index: u32, connection: &mut Connection<P>) {
        if !connection.flags.has(Flags::QUEUED) {
            connection.flags.set(Flags::QUEUED);
            self.ready.push_back(index);
        }
    }

    /// An acknowledgement leaves with the next transmission.
    #[inline]
    pub(crate) fn acknowledge(&mut self, index: u32, connection: &mut Connection<P>) {
        connection.flags.set(Flags::ACK_NOW);
        self.make_ready(index, connection);
    }

    /// Acknowledges a segment that may come from an attacker, within the limit of the stack (RFC 5961 section 7).
    pub(crate) fn challenge(&mut self, index: u32, connection: &mut Connection<P>, io: &mut Io<'_, P>) {
        if self.rates.challenges.allows(io.now) {
            io.counters.tcp_challenge_acks += 1;
            self.acknowledge(index, connection);
        }
    }
}

/// Context of one call besides the connections.
pub(crate) struct Io<'a, P: Payload> {
    pub(crate) ip: &'a mut Ip<P>,
    pub(crate) counters: &'a mut Counters,
    pub(crate) events: &'a mut VecDeque<Event<P>>,
    pub(crate) now: Time,
}
