//! The way of a packet to its connection.
//!
//! The table has [`SHARDS`] shards, each with a lock that is held for one packet, or one chunk of a sweep, listing or
//! flush. A shard is found by a hash that is the same for both directions. A translated connection is in the shard of
//! its original direction; the shard of its reply direction has an alias, which leads there. At most one shard is
//! locked at a time: an alias is reserved before its connection is added, and released after the connection is removed.
//! An alias without connection leads to nothing.

use crate::bits;
use crate::bounded::Bounded;
use crate::config::{
    Config, EXPECTATION_LIFE, EXPECTATIONS, FRAGMENT_LIFE, FRAGMENTS, PORT_ATTEMPTS, Rules, SHARDS,
};
use crate::connection::{Connection, Effort, Outcome, Place, Protocol, State, Translation, Update};
use crate::ftp::Text;
use crate::helper::{Announced, Expected, Helper, Parent, key_of};
use crate::limits::{Full, Limits, Refused};
use crate::nat::{Direction, Nat, Numbers, candidates};
use crate::packet::{Content, Packet};
use crate::table::{Locked, Shard, prefetch_connection};
use crate::tuple::{Hasher, Tuple};
use crate::watch::Listener;
use mem::huge::Arena;
use mem::line::Padded;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// No address and port is free for a connection. The packet must be dropped: its own address must not leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no address and port is free to translate a connection; use a larger range")]
pub struct Exhausted {
    /// Addresses and ports that were tried.
    pub tried: u32,
}

/// Arguments of the action `ct`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Zone.
    pub zone: u16,
    /// Whether a new connection is added.
    pub commit: bool,
    /// Whether a connection of the opposite direction is removed first.
    pub force: bool,
    /// Translation of addresses; `None` for none.
    pub nat: Option<Nat>,
    /// Value and mask for the mark of the connection.
    pub mark: (u32, u32),
    /// Value and mask for the label of the connection.
    pub label: (u128, u128),
    /// Helper of a new connection.
    pub helper: Helper,
    /// Port of the packet: a new connection counts for its limit.
    pub port: u16,
}

/// All connections. Shared by all workers.
pub struct Tracker {
    pub(crate) rules: Rules,
    pub(crate) hasher: Hasher,
    pub(crate) shards: Box<[Padded<Locked>]>,
    /// Memory of the connections of all shards.
    pub(crate) arena: Arena,
    pub(crate) limits: Limits,
    /// Visits of the sweep.
    pub(crate) swept: AtomicUsize,
    /// Random numbers that were used.
    drawn: AtomicU64,
    fragments: Bounded<Tuple>,
    pub(crate) expected: Bounded<Expected>,
    /// Whether a connection was ever expected.
    pub(crate) has_expected: AtomicBool,
    pub(crate) listener: Listener,
}

/// A search that is expected.
#[derive(Clone, Copy, Debug)]
pub struct Search(u64);

/// A packet as connection tracking reads it.
#[derive(Clone, Copy, Debug)]
pub struct Parsed<'a> {
    packet: Packet<'a>,
    /// Hash of its direction.
    hash: u64,
}

/// One packet on its way.
struct Passage<'a> {
    packet: &'a Packet<'a>,
    /// Hash of its direction.
    hash: u64,
    request: &'a Request,
    /// Bits of an earlier translation in this zone.
    translated: u32,
    now: u64,
}

impl Tracker {
    /// A tracker without connections.
    pub fn new(config: &Config) -> Self {
        Self {
            hasher: Hasher::random(),
            shards: (0..SHARDS).map(|_| Padded::default()).collect(),
            arena: Arena::default(),
            limits: Limits::new(config),
            swept: AtomicUsize::new(0),
            drawn: AtomicU64::new(0),
            fragments: Bounded::new(FRAGMENTS),
            expected: Bounded::new(EXPECTATIONS),
            has_expected: AtomicBool::new(false),
            listener: Listener::default(),
            rules: Rules::new(config),
        }
    }

    /// Changes limits and timeouts. Connections above a new limit stay, and each has its earlier timeout until its next
    /// packet.
    pub fn configure(&self, config: &Config) {
        self.limits.set(config);
        self.rules.set(config);
    }

    /// Passes a packet through connection tracking. `head` begins with its IP header, and bytes may be missing at its
    /// end; the lengths in the header must be those of the packet. `before` is its state so far, and `now` the time in
    /// nanoseconds.
    ///
    /// # Errors
    /// If the packet begins a connection whose translation is not possible.
    pub fn track(
        &self,
        head: &[u8],
        before: &State,
        request: &Request,
        now: u64,
    ) -> Result<Outcome, Exhausted> {
        match self.parse(head, request.zone, now) {
            Some(parsed) => self.track_parsed(&parsed, before, request, now),
            None => Ok(Outcome::bare(bits::INVALID, request.zone, None)),
        }
    }

    /// Reads a packet for [`Tracker::track_parsed`] in this zone, once for several passages. Returns `None` for a
    /// packet that has no place in a connection. `head` as in [`Tracker::track`].
    pub fn parse<'a>(&self, head: &'a [u8], zone: u16, now: u64) -> Option<Parsed<'a>> {
        let packet = Packet::parse(head, zone).and_then(|packet| self.defragment(packet, now))?;
        Some(Parsed { packet, hash: self.hasher.hash(&packet.tuple) })
    }

    /// [`Tracker::track`] for a packet that was read for the zone of the request.
    ///
    /// # Errors
    /// As [`Tracker::track`].
    pub fn track_parsed(
        &self,
        Parsed { packet, hash }: &Parsed<'_>,
        before: &State,
        request: &Request,
        now: u64,
    ) -> Result<Outcome, Exhausted> {
        debug_assert_eq!(packet.tuple.zone(), request.zone);
        let translated = before.translated_in(request.zone);
        let passage = Passage { packet, hash: *hash, request, translated, now };
        // The second time, another worker has added the connection in between.
        for _ in 0..2 {
            if let Some(outcome) = self.known(&passage) {
                return Ok(outcome);
            }
            if let Some(outcome) = self.unknown(&passage)? {
                return Ok(outcome);
            }
        }
        Ok(Outcome::bare(bits::INVALID, request.zone, Some(packet.tuple)))
    }

    /// [`Tracker::track`] for a packet without earlier state that probably belongs to the connection at `place`.
    /// Returns `None` if it does not.
    #[inline]
    pub fn track_at(&self, place: Place, head: &[u8], request: &Request, now: u64) -> Option<Outcome> {
        let packet = Packet::parse(head, request.zone).filter(|packet| packet.fragment.is_none())?;
        let shard = self.lock(place.shard.into());
        let connection = shard.get(place.slot)?;
        let is_reply = connection.original != packet.tuple;
        if is_reply && !connection.is_reply(&packet.tuple) {
            return None;
        }
        let hash = connection.hash;
        let passage = Passage { packet: &packet, hash, request, translated: 0, now };
        self.update(shard, (place.slot, is_reply), &passage)
    }

    /// Loads the connection at `place` into the cache, with the shard. Nothing is read: the connection may be gone.
    #[inline]
    pub fn prefetch(&self, place: Place) {
        self.shards[usize::from(place.shard) % SHARDS].prefetch();
        prefetch_connection(place.address);
    }

    /// Loads the shard of a packet into the cache. Returns what [`Tracker::prefetch_search`] needs, or `None` for a
    /// packet that has no place in a connection. `head` as in [`Tracker::track`].
    #[inline]
    pub fn prefetch_shard(&self, head: &[u8], zone: u16) -> Option<Search> {
        let hash = self.hasher.hash(&Packet::parse(head, zone)?.tuple);
        self.shards[shard_of(hash)].prefetch();
        Some(Search(hash))
    }

    /// Loads what a search for a connection, and its addition if there is none, read and write.
    #[inline]
    pub fn prefetch_search(&self, Search(hash): Search) {
        self.shards[shard_of(hash)].prefetch_hinted(hash);
    }

    fn lock(&self, shard: usize) -> MutexGuard<'_, Shard> {
        self.shards[shard % SHARDS].lock()
    }

    pub(crate) fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        self.lock(shard_of(hash))
    }

    /// Remembers the ports of a first fragment, and adds them to later ones. Returns `None` for a later fragment whose
    /// first fragment is not known.
    fn defragment<'a>(&self, packet: Packet<'a>, now: u64) -> Option<Packet<'a>> {
        let Some(fragment) = packet.fragment else { return Some(packet) };
        if fragment.is_later {
            return self.with_ports(packet, now);
        }
        let hash = self.hasher.hash(&fragment.key);
        self.fragments.insert(hash, fragment.key, now + FRAGMENT_LIFE, packet.tuple);
        Some(packet)
    }

    /// Adds the ports of the first fragment to a later one. Returns `None` if the first one is not known.
    pub(crate) fn with_ports<'a>(&self, packet: Packet<'a>, now: u64) -> Option<Packet<'a>> {
        let Some(fragment) = packet.fragment.filter(|fragment| fragment.is_later) else {
            return Some(packet);
        };
        let tuple = self.fragments.get(self.hasher.hash(&fragment.key), &fragment.key, now)?;
        Some(Packet { tuple, ..packet })
    }

    /// Updates the connection of a packet; `None` without connection.
    fn known(&self, passage: &Passage<'_>) -> Option<Outcome> {
        let (shard, slot, is_reply) =
            self.find(passage.hash, &passage.packet.tuple, passage.translated != 0)?;
        self.update(shard, (slot, is_reply), passage)
    }

    /// The connection of a packet: the locked shard, its slot, and whether the packet is one of the reply direction.
    pub(crate) fn find(
        &self,
        hash: u64,
        tuple: &Tuple,
        is_translated: bool,
    ) -> Option<(MutexGuard<'_, Shard>, u32, bool)> {
        // A translated packet looks like one of the opposite direction, reversed, which has the same hash.
        let found = is_translated.then(|| self.lookup(hash, &tuple.reversed())).flatten();
        let found = found.map(|(shard, slot, is_reply)| (shard, slot, !is_reply));
        found.or_else(|| self.lookup(hash, tuple))
    }

    /// The locked shard, the slot and the direction of a tuple.
    pub(crate) fn lookup(&self, mut hash: u64, tuple: &Tuple) -> Option<(MutexGuard<'_, Shard>, u32, bool)> {
        for _ in 0..2 {
            let shard = self.shard(hash);
            if let Some((slot, is_reply)) = shard.find(hash, tuple) {
                return Some((shard, slot, is_reply));
            }
            hash = shard.origin(hash, tuple)?;
        }
        None
    }

    fn update(
        &self,
        mut shard: MutexGuard<'_, Shard>,
        (slot, is_reply): (u32, bool),
        Passage { packet, request, translated, now, .. }: &Passage<'_>,
    ) -> Option<Outcome> {
        let connection = shard.get_mut(slot)?;
        let translates = request.nat.is_some() && *translated == 0;
        let is_control = connection.helper != Helper::None && *translated == 0;
        let packet = if is_control { &connection.with_numbers_of_sender(packet, is_reply) } else { *packet };
        let is_forced = request.force && is_reply && packet.content != Content::Error;
        let update = if is_forced || connection.expires <= *now {
            Update::Over
        } else {
            connection.update(packet, is_reply, *now, &self.rules)
        };
        if update == Update::Over {
            let gone = shard.remove(slot);
            drop(shard);
            if let Some(connection) = &gone {
                self.forget(connection);
            }
            return None;
        }
        let may_announce = is_control && update != Update::Invalid;
        let text = if may_announce { self.announce(connection, packet, is_reply, *now) } else { None };
        set(connection, request);
        if connection.watch != 0 && (sets(request) || !connection.is_settled()) {
            self.listener.tell(connection);
        }
        let state = connection.state(connection.bits(packet, is_reply, update));
        let place = place(connection, packet, slot, is_reply);
        let mut outcome = Outcome { state, rewrite: None, effort: Effort::default(), place };
        outcome.state.bits |= translated;
        if translates {
            translate(&mut outcome, connection, packet, is_reply, text);
        }
        Some(outcome)
    }

    /// Notes the connection that a packet of a control connection announces. Returns the change of its message, if the
    /// receiver must see another address or port.
    #[cold]
    fn announce(&self, connection: &Connection, packet: &Packet, is_reply: bool, now: u64) -> Option<Text> {
        let Announced { key, redirect, message } =
            connection.helper.announced(connection, packet, is_reply)?;
        let (original, mark, label) = (connection.original, connection.mark, connection.label);
        let parent = Parent { original, mark, label };
        let has_choice = message.is_some() && redirect.is_some_and(|redirect| redirect.port.is_some());
        // The checksum of a changed packet needs all of it.
        if has_choice && !packet.is_whole() {
            return None;
        }
        let key = if has_choice { self.free(&key, &original, now) } else { key };
        let expected = Expected { parent, redirect };
        self.expected.insert(self.hasher.hash(&key), key, now + EXPECTATION_LIFE, expected);
        // Relaxed: the lock of the place orders the fact itself, and the packet that announces precedes the connection.
        self.has_expected.store(true, Ordering::Relaxed);
        message.filter(|_| has_choice)?.replaced(key.destination(), key.ports().1)
    }

    /// Name of an expected connection that no other parent has: with the announced port, or one after it.
    fn free(&self, key: &Tuple, parent: &Tuple, now: u64) -> Tuple {
        let is_free = |key: &Tuple| {
            let known = self.expected.get(self.hasher.hash(key), key, now);
            known.is_none_or(|known| known.parent.original == *parent)
        };
        let ports = (key.ports().1..=u16::MAX).take(PORT_ATTEMPTS.0 as usize);
        let keys = ports.map(|port| key.with_ports(0, port));
        keys.into_iter().find(is_free).unwrap_or(*key)
    }

    /// Result for a packet without connection, which it may begin. Returns `None` if another worker has added the
    /// connection.
    fn unknown(&self, passage: &Passage<'_>) -> Result<Option<Outcome>, Exhausted> {
        let Passage { packet, hash, request, now, .. } = passage;
        let tuple = packet.tuple;
        let expected = self.expected(&tuple, *now);
        // An expected connection is translated as its parent is.
        let redirect = expected.and_then(|expected| expected.redirect);
        let nat = request.nat.map(|nat| redirect.map_or(nat, |redirect| redirect.nat()));
        // Its addresses must not leave as they are.
        let must_translate = request.commit && nat.is_some_and(|nat| nat.direction.is_some());
        if packet.content == Content::Later {
            let outcome = Outcome::bare(bits::NEW, request.zone, Some(tuple));
            return if must_translate { Err(Exhausted { tried: 0 }) } else { Ok(Some(outcome)) };
        }
        let Some((protocol, timer)) = Protocol::start(&packet.content) else {
            return Ok(Some(Outcome::bare(bits::INVALID, request.zone, None)));
        };
        let parent = expected.map(|expected| expected.parent);
        let outcome = Outcome::first(tuple, parent);
        if !request.commit || !self.admit((*hash, &tuple), request.port, *now) {
            return if must_translate { Err(Exhausted { tried: 0 }) } else { Ok(Some(outcome)) };
        }
        let expires = now + self.rules.nanos(timer);
        let connection = Connection {
            original: tuple,
            protocol,
            mark: outcome.state.mark,
            label: outcome.state.label,
            expires,
            hash: *hash,
            parent: parent.map(Box::new),
            nat: None,
            helper: if request.helper.fits(&tuple) { request.helper } else { Helper::None },
            port: request.port,
            watch: 0,
            has_gaps: false,
            is_saved: false,
        };
        self.commit(connection, nat, passage)
    }

    /// What is known about a new connection that another one has announced.
    pub(crate) fn expected(&self, tuple: &Tuple, now: u64) -> Option<Expected> {
        // Relaxed: see `announce`.
        let key = self.has_expected.load(Ordering::Relaxed).then(|| key_of(tuple))?;
        self.expected.get(self.hasher.hash(&key), &key, now)
    }

    /// Counts a new connection. Returns `false` if it exceeds a limit.
    fn admit(&self, (hash, tuple): (u64, &Tuple), port: u16, now: u64) -> bool {
        let admit = || self.limits.admit(tuple.zone(), port);
        let admitted = match admit() {
            Err(Full::Total) if self.evict(hash, now) => admit(),
            admitted => admitted,
        };
        admitted.map_err(|why| self.limits.refuse(why)).is_ok()
    }

    /// Adds a connection that is counted.
    fn commit(
        &self,
        mut connection: Connection,
        nat: Option<Nat>,
        passage: &Passage<'_>,
    ) -> Result<Option<Outcome>, Exhausted> {
        let Passage { packet, request, .. } = passage;
        let mut tried = 0;
        if let Some((nat, direction)) = nat.and_then(|nat| Some((nat, nat.direction?))) {
            let Some(reply) = self.reserve(&connection, &nat, direction, &mut tried) else {
                self.limits.release(request.zone, request.port);
                return Err(Exhausted { tried });
            };
            connection.nat = Some(Box::new(Translation { direction, reply, moves: None }));
        }
        set(&mut connection, request);
        let bits = connection.bits(packet, false, Update::New);
        let effort = Effort { added: 1, tried };
        let mut outcome = Outcome { state: connection.state(bits), rewrite: None, effort, place: None };
        outcome.state.bits |= passage.translated;
        let hash = connection.hash;
        let mut shard = self.shard(hash);
        let may_be_taken = shard.has_hash(hash);
        let is_raced = may_be_taken && shard.is_taken(hash, &connection.original);
        // The reply of a connection that is not translated may be that of a translated one.
        let is_refused =
            may_be_taken && connection.nat.is_none() && shard.is_taken(hash, &connection.reply());
        if is_raced || is_refused {
            drop(shard);
            self.forget(&connection);
            return if is_raced { Ok(None) } else { Err(Exhausted { tried }) };
        }
        let is_control = connection.helper != Helper::None;
        let text = if is_control { self.announce(&connection, packet, false, passage.now) } else { None };
        translate(&mut outcome, &mut connection, packet, false, text);
        let key = connection.parent.is_some().then(|| key_of(&connection.original));
        shard.insert(connection, &self.arena);
        self.shards[shard_of(hash)].note(&shard);
        drop(shard);
        if let Some(key) = &key {
            self.expected.remove(self.hasher.hash(key), key);
        }
        Ok(Some(outcome))
    }

    /// Reserves the reply direction of a connection that is translated. Counts the directions that are `tried`.
    fn reserve(
        &self,
        connection: &Connection,
        nat: &Nat,
        direction: Direction,
        tried: &mut u32,
    ) -> Option<Tuple> {
        let original = &connection.original;
        // Relaxed: any number that was not used is right.
        let random = self.hasher.number(self.drawn.fetch_add(1, Ordering::Relaxed));
        let address = if nat.is_persistent { self.hasher.address(original) } else { connection.hash };
        let numbers = Numbers { address, port: self.hasher.number(connection.hash), random };
        candidates(original, nat, direction, numbers).find(|reply| {
            *tried += 1;
            let hash = self.hasher.hash(reply);
            self.shard(hash).reserve(hash, reply, connection.hash)
        })
    }

    /// Number of connections, with those whose time has passed since the last sweep.
    pub fn len(&self) -> usize {
        self.limits.total()
    }

    /// Whether there are no connections.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of connections of a zone, as above.
    pub fn zone_len(&self, zone: u16) -> u32 {
        self.limits.zone(zone)
    }

    /// Number of connections that packets of a port have begun, as above.
    pub fn port_len(&self, port: u16) -> u32 {
        self.limits.port(port)
    }

    /// Connections without reply that were removed before their time, because others needed their place.
    pub fn evicted(&self) -> u64 {
        self.limits.evicted()
    }

    /// Connections that limits have refused.
    pub fn refused(&self) -> Refused {
        self.limits.refused()
    }
}

impl std::fmt::Debug for Tracker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tracker").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// Number of the shard of a hash, in bits that its index does not use.
pub(crate) fn shard_of(hash: u64) -> usize {
    (hash >> 32) as usize % SHARDS
}

/// Sets mark and label. Those of an expected connection stay those of its parent.
fn set(connection: &mut Connection, request: &Request) {
    if connection.parent.is_none() {
        connection.mark = connection.mark & !request.mark.1 | request.mark.0 & request.mark.1;
        connection.label = connection.label & !request.label.1 | request.label.0 & request.label.1;
    }
}

/// Whether a request sets anything of a connection.
fn sets(request: &Request) -> bool {
    request.mark.1 != 0 || request.label.1 != 0
}

/// Where the connection of a packet was found, if its own addresses name it. Errors about several connections may have
/// one head: the connection is that of the quoted packet.
fn place(connection: &Connection, packet: &Packet, slot: u32, is_reply: bool) -> Option<Place> {
    let address = std::ptr::from_ref(connection).addr();
    let place = Place { shard: shard_of(connection.hash) as u16, slot, address, is_reply };
    (connection.is_plain() && packet.content != Content::Error).then_some(place)
}

/// Adds the translation of a packet, and the change `text` of its payload.
fn translate(
    outcome: &mut Outcome,
    connection: &mut Connection,
    packet: &Packet,
    is_reply: bool,
    text: Option<Text>,
) {
    let Some((bits, rewrite)) = connection.translate(packet, is_reply) else { return };
    outcome.state.bits |= bits;
    let is_control = connection.helper != Helper::None;
    let rewrite = if is_control { connection.correct(rewrite, packet, is_reply, text) } else { rewrite };
    outcome.rewrite = Some(rewrite);
}
