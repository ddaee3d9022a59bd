//! The Transmission Control Protocol (RFC 9293).
//!
//! `Tcp` owns the connections of one stack. Segments arrive in `input` and leave by `output`; between them,
//! connections with something to send are in a list. Loss recovery and congestion control are in `recovery`.

mod calls;
mod connection;
mod error;
mod fast_open;
mod id;
mod info;
mod input;
mod key;
mod limit;
mod listen;
mod options;
mod out_of_order;
mod output;
pub(crate) mod recovery;
mod reset;
mod secret;
mod segment;
mod send_queue;
mod seq;
mod shared;
mod time_wait;
mod timers;

pub use connection::State;
pub use id::{ConnectionId, ListenerId};
pub use info::ConnectionInfo;
pub use options::{CongestionAlgorithm, Options};
pub(crate) use shared::Io;

use crate::ip::Packet;
use crate::slab::Slab;
use crate::{Affinity, Closed, Config, Event, Frame, Link, Payload, Time};
use alloc::sync::Arc;
use calls::Ports;
use connection::{Connection, Flags};
use input::{Arrival, Outcome};
use key::{Key, Table};
use limit::Closing;
use listen::Listeners;
use output::{Progress, Turn};
use secret::Secret;
use segment::Segment;
pub(crate) use seq::Seq;
use shared::Shared;
use time_wait::TimeWaits;
use wire::checksum::fold;

/// Smallest segment size that a peer can impose, in bytes: smaller ones would cost a header for every few bytes.
pub(crate) const MIN_SEGMENT: u16 = 88;
/// Microseconds for which a SYN cookie is valid, at least.
const COOKIE_LIFE: u64 = 64_000_000;
/// Length of the timestamps option with its padding, in bytes.
const TIMESTAMPS_LEN: u16 = 12;

/// TCP of one stack.
pub(crate) struct Tcp<P: Payload> {
    connections: Slab<Connection<P>>,
    table: Table,
    shared: Shared<P>,
    listeners: Listeners,
    time_waits: TimeWaits,
    affinity: Affinity,
    ports: Ports,
    /// Settings of the connections opened last.
    options: Arc<Options>,
    generation: u32,
    closing: Closing,
}

impl<P: Payload> Tcp<P> {
    pub(crate) fn new(config: &Config, now: Time) -> Self {
        let secret = Secret::new(config.secret);
        Self {
            connections: Slab::new(),
            table: Table::new(secret.table(0)),
            listeners: Listeners::new(secret.table(1)),
            time_waits: TimeWaits::new(secret.table(2), config.limits.time_wait),
            shared: Shared::new(config, secret, now),
            affinity: config.affinity.clone(),
            ports: Ports::default(),
            options: Arc::new(config.tcp),
            generation: 0,
            closing: Closing::default(),
        }
    }

    /// Whether the segment belongs to a connection.
    pub(crate) fn has_connection<F: Frame>(&self, frame: &F, packet: &Packet) -> bool {
        let connections = &self.connections;
        let find = |key: Key| self.table.find(&key, |index| connections.get(index).map(|c| &c.key));
        Key::of(frame, packet).is_some_and(|key| find(key).is_some())
    }

    /// Processes a segment of a connection that exists. Returns `false`, without doing anything, if there is none.
    #[inline]
    pub(crate) fn receive_known<F: Frame<Payload = P>>(
        &mut self,
        frame: &mut F,
        packet: &Packet,
        io: &mut Io<'_, P>,
    ) -> bool {
        let Some(key) = Key::of(frame, packet) else { return false };
        let Self { connections, table, shared, .. } = self;
        let Some(index) = table.find(&key, |index| connections.get(index).map(|c| &c.key)) else {
            return false;
        };
        let Some(connection) = connections.get_mut(index) else { return false };
        io.counters.frames_in += 1;
        io.counters.tcp_in += 1;
        let mut segment = Segment::empty();
        if !read(frame, packet, connection.pseudo, &mut segment, io) {
            return true;
        }
        let arrival = Arrival { index, connection, shared, io, frame, segment: &mut segment };
        let outcome = arrival.process();
        if outcome == Outcome::Keep {
            shared.wheel.schedule(index, connection.deadline());
        } else {
            self.remove(index, outcome, io);
        }
        true
    }

    /// Processes a segment.
    pub(crate) fn receive<F: Frame<Payload = P>>(
        &mut self,
        frame: &mut F,
        packet: &Packet,
        io: &mut Io<'_, P>,
    ) {
        io.counters.tcp_in += 1;
        if packet.is_group {
            io.counters.tcp_header_errors += 1;
            return;
        }
        let pseudo = key::pseudo(packet.source, packet.destination);
        let mut segment = Segment::empty();
        if !read(frame, packet, pseudo, &mut segment, io) {
            return;
        }
        let Some(key) = Key::of(frame, packet) else { return };
        let connections = &self.connections;
        match self.table.find(&key, |index| connections.get(index).map(|c| &c.key)) {
            Some(index) => self.receive_connected(index, segment, frame, io),
            None => self.receive_other(key, segment, frame, io),
        }
    }

    #[inline]
    fn receive_connected<F: Frame<Payload = P>>(
        &mut self,
        index: u32,
        mut segment: Segment,
        frame: &mut F,
        io: &mut Io<'_, P>,
    ) {
        let Self { connections, shared, .. } = self;
        let Some(connection) = connections.get_mut(index) else { return };
        let arrival = Arrival { index, connection, shared, io, frame, segment: &mut segment };
        let outcome = arrival.process();
        self.settle(index, outcome, io);
    }

    /// A segment of TIME-WAIT, or of no connection.
    #[cold]
    fn receive_other<F: Frame<Payload = P>>(
        &mut self,
        key: Key,
        segment: Segment,
        frame: &mut F,
        io: &mut Io<'_, P>,
    ) {
        if let Some(at) = self.time_waits.find(&key) {
            if !self.replace_time_wait(at, &segment, io) {
                return;
            }
            io.counters.tcp_time_wait_reused += 1;
        }
        self.receive_unconnected(key, segment, frame, io);
    }

    /// Schedules the connection's timers, or removes it.
    #[inline]
    fn settle(&mut self, index: u32, outcome: Outcome, io: &mut Io<'_, P>) {
        if outcome == Outcome::Keep {
            if let Some(c) = self.connections.get(index) {
                self.shared.wheel.schedule(index, c.deadline());
            }
            return;
        }
        self.remove(index, outcome, io);
    }

    #[cold]
    fn remove(&mut self, index: u32, outcome: Outcome, io: &mut Io<'_, P>) {
        let Some(mut c) = self.connections.remove(index) else { return };
        self.table.remove(&c.key, index);
        self.shared.release(index, &mut c);
        if c.flags.has(Flags::ACTIVE) && Affinity::owner(c.key.local_port, 1).is_some() {
            self.ports.release(c.key.local_port);
        }
        let is_half_open = c.state == State::SynReceived;
        self.shared.half_open -= u32::from(is_half_open && self.shared.half_open > 0);
        let reason = match outcome {
            Outcome::Close(reason) => reason,
            Outcome::TimeWait | Outcome::Keep => Closed::Normally,
        };
        if outcome == Outcome::TimeWait {
            self.enter_time_wait(&c, io);
        }
        if !c.state.is_synchronised() {
            io.counters.tcp_attempt_fails += 1;
        }
        if !is_half_open || c.flags.has(Flags::ACTIVE) || c.flags.has(Flags::FAST_OPEN) {
            let connection = ConnectionId { index, generation: c.generation };
            io.events.push_back(Event::Closed { connection, reason });
        }
    }

    /// Runs timers that are due.
    pub(crate) fn advance(&mut self, io: &mut Io<'_, P>) {
        self.time_waits.advance(io.now);
        while let Some(index) = self.shared.wheel.expire(io.now) {
            let Self { connections, shared, .. } = self;
            let Some(c) = connections.get_mut(index) else { continue };
            let outcome =
                if c.deadline() <= io.now { timers::run(index, c, shared, io) } else { Outcome::Keep };
            if matches!(outcome, Outcome::Close(_)) {
                self.abort_silently(index, io);
            }
            self.settle(index, outcome, io);
        }
    }

    /// Sends what is due, while the link has room. Each connection has a turn.
    pub(crate) fn transmit<L: Link<Payload = P>>(&mut self, link: &mut L, io: &mut Io<'_, P>) {
        if io.ip.take_resolved() {
            self.send_unresolved();
        }
        for _ in 0..self.shared.ready.len() {
            let Some(index) = self.shared.ready.pop_front() else { return };
            let Self { connections, shared, .. } = self;
            let Some(connection) = connections.get_mut(index).filter(|c| c.flags.has(Flags::QUEUED)) else {
                continue;
            };
            connection.flags.clear(Flags::QUEUED);
            let progress = Turn { index, connection, shared, io, link, segment: 0 }.run();
            if progress != Progress::Done {
                connection.flags.set(Flags::QUEUED);
                let is_blocked = progress == Progress::Blocked;
                if is_blocked { shared.ready.push_front(index) } else { shared.ready.push_back(index) }
            }
            shared.wheel.schedule(index, connection.deadline());
            if progress == Progress::Blocked {
                return;
            }
        }
    }

    /// A neighbour was resolved: SYNs that waited for it leave now, for the first time. Their timeouts are forgotten. A
    /// SYN of which a copy has left is not among them, because its acknowledgement may arrive before the next copy leaves.
    #[cold]
    fn send_unresolved(&mut self) {
        let Self { connections, shared, .. } = self;
        for (index, generation) in core::mem::take(&mut shared.unresolved) {
            let c = connections.get_mut(index).filter(|c| c.generation == generation);
            let waits = |c: &&mut Connection<P>| c.flags.has(Flags::UNRESOLVED) && !c.state.is_synchronised();
            let Some(c) = c.filter(|c| waits(c) && c.tx.awaits_syn_ack()) else { continue };
            c.flags.clear(Flags::UNRESOLVED);
            c.recovery.restart(&mut shared.sent);
            (c.tx.nxt, c.tx.first_retransmit) = (c.tx.iss, None);
            shared.make_ready(index, c);
        }
    }

    /// Time of the next timer; the origin if segments are ready to be sent.
    #[inline]
    pub(crate) fn deadline(&self) -> Time {
        if !self.shared.ready.is_empty() {
            return Time(0);
        }
        self.shared.wheel.deadline().min(self.time_waits.deadline())
    }
}

/// Reads and validates a segment: header, checksum, options. Returns `false` if it is invalid, which is counted.
#[inline]
fn read<F: Frame>(
    frame: &F,
    packet: &Packet,
    pseudo: u16,
    segment: &mut Segment,
    io: &mut Io<'_, F::Payload>,
) -> bool {
    let head = frame.head();
    let Some(view) = head.get(packet.transport..packet.end.min(head.len())).and_then(wire::Tcp::new) else {
        io.counters.tcp_header_errors += 1;
        return false;
    };
    let payload = packet.transport + view.header_len()..packet.end;
    let mut sum = None;
    if !frame.is_checksum_valid() {
        let words = frame.sum(payload.clone());
        sum = Some(fold(words));
        if !is_checksum_right(pseudo, &head[packet.transport..payload.start], words, payload.len()) {
            io.counters.tcp_checksum_errors += 1;
            return false;
        }
    }
    segment.read(&view, payload, sum, packet.ecn == 0b11);
    true
}

#[inline]
fn is_checksum_right(pseudo: u16, header: &[u8], words: u64, len: usize) -> bool {
    let mut sum = key::with_len(pseudo, (header.len() + len) as u32);
    sum.add(header);
    sum.add_words(words, len);
    sum.finish() == [0, 0]
}

/// Largest segment of a packet of `mtu` bytes, without options.
pub(crate) const fn segment_of(mtu: u16, is_v4: bool) -> u16 {
    mtu.saturating_sub(if is_v4 { 40 } else { 60 })
}

/// Segment size to announce.
fn announced_segment<P: Payload>(c: &Connection<P>, mtu: u16) -> u16 {
    segment_of(mtu, c.key.remote.is_v4()).min(c.options.max_segment).max(MIN_SEGMENT)
}

/// Starts with what both sides agreed on in the handshake.
fn start<P: Payload>(c: &mut Connection<P>, mtu: u16) {
    (c.tx.mss, c.tx.mtu) = (segment_size(c, mtu), mtu);
    c.recovery.on_handshake(&c.options, c.tx.mss, c.flags.has(Flags::SACK));
}

/// Payload of a full segment: path MTU and the peer's MSS, without the options of every segment (RFC 9293 section
/// 3.7.1).
#[inline]
fn segment_size<P: Payload>(c: &Connection<P>, mtu: u16) -> u16 {
    let options = if c.flags.has(Flags::TIMESTAMPS) { TIMESTAMPS_LEN } else { 0 };
    let size = segment_of(mtu, c.key.remote.is_v4()).min(c.tx.peer_mss).min(c.options.max_segment);
    size.max(MIN_SEGMENT) - options
}
