//! Listeners, and connections that peers open.

use super::connection::{Connection, Flags, State, Timers};
use super::key::Key;
use super::secret::Cookie;
use super::segment::{Segment, SynOptions};
use super::shared::Io;
use super::{ListenerId, MIN_SEGMENT, Options, Seq, Tcp, reset};
use crate::ip::PathId;
use crate::stack::ListenError;
use crate::{Endpoint, Frame, Payload, Time};
use alloc::sync::Arc;
use hashbrown::HashMap;
use wire::{TcpBuilder, TcpFlags};

/// A listener.
#[derive(Clone, Debug)]
pub(crate) struct Listener {
    pub(crate) local: Endpoint,
    pub(crate) options: Arc<Options>,
}

/// Listeners by local address and port.
pub(crate) struct Listeners {
    all: HashMap<u32, Listener, foldhash::fast::FixedState>,
    by_end: HashMap<Endpoint, u32, foldhash::fast::FixedState>,
    next: u32,
}

impl Listeners {
    pub(crate) fn new(seed: u64) -> Self {
        let hasher = foldhash::fast::FixedState::with_seed(seed);
        Self { all: HashMap::with_hasher(hasher.clone()), by_end: HashMap::with_hasher(hasher), next: 0 }
    }

    pub(crate) fn add(&mut self, local: Endpoint, options: Arc<Options>) -> Result<ListenerId, ListenError> {
        if self.by_end.contains_key(&local) {
            return Err(ListenError::InUse);
        }
        self.next += 1;
        self.all.insert(self.next, Listener { local, options });
        self.by_end.insert(local, self.next);
        Ok(ListenerId(self.next))
    }

    pub(crate) fn remove(&mut self, id: ListenerId) {
        if let Some(listener) = self.all.remove(&id.0) {
            self.by_end.remove(&listener.local);
        }
    }

    /// Whether a listener has the address and port, or the port on all addresses of the version.
    pub(crate) fn has(&self, local: Endpoint) -> bool {
        self.find(local).is_some()
    }

    /// Address and port of a listener.
    pub(crate) fn get(&self, id: ListenerId) -> Option<Endpoint> {
        self.all.get(&id.0).map(|listener| listener.local)
    }

    /// The listener for an address: its own, or that of all addresses of its version.
    pub(crate) fn find(&self, local: Endpoint) -> Option<(ListenerId, &Listener)> {
        let any =
            if local.address.is_v4() { crate::Address::v4([0; 4]) } else { crate::Address::UNSPECIFIED };
        let id = self.by_end.get(&local).or_else(|| self.by_end.get(&Endpoint::new(any, local.port)))?;
        Some((ListenerId(*id), self.all.get(id)?))
    }
}

impl<P: Payload> Tcp<P> {
    /// A segment without a connection: a SYN for a listener, the answer to a SYN cookie, or one that is reset (RFC 9293
    /// sections 3.10.7.1 and 3.10.7.2).
    pub(super) fn receive_unconnected<F: Frame<Payload = P>>(
        &mut self,
        key: Key,
        segment: Segment,
        frame: &mut F,
        io: &mut Io<'_, P>,
    ) {
        if segment.flags.has(TcpFlags::RST) {
            io.counters.tcp_no_connection += 1;
            return;
        }
        let listener = self.listeners.find(key.local()).map(|(id, listener)| (id, listener.options.clone()));
        let Some((listener, options)) = listener else {
            let is_syn = segment.flags.has(TcpFlags::SYN);
            let counters = &mut *io.counters;
            *(if is_syn { &mut counters.tcp_syn_refused } else { &mut counters.tcp_no_connection }) += 1;
            return self.refuse(&key, &segment, io);
        };
        if segment.flags.has(TcpFlags::ACK) {
            return match self.redeem_cookie(&key, &segment, (listener, options), io) {
                Some(index) => self.receive_connected(index, segment, frame, io),
                None => self.refuse_ack(&key, &segment, io),
            };
        }
        if segment.flags.has(TcpFlags::SYN) {
            self.accept(key, segment, (listener, options), frame, io);
        } else {
            io.counters.tcp_no_connection += 1;
        }
    }

    /// An acknowledgement without a valid cookie. While cookies are in use, segments with payload are dropped: they may
    /// follow one that returns a cookie and was lost.
    fn refuse_ack(&mut self, key: &Key, segment: &Segment, io: &mut Io<'_, P>) {
        let may_follow = io.now <= self.shared.cookies_until && segment.len() > 0;
        if may_follow {
            io.counters.tcp_cookies_failed += 1;
        } else {
            io.counters.tcp_no_connection += 1;
            self.refuse(key, segment, io);
        }
    }

    pub(super) fn refuse(&mut self, key: &Key, segment: &Segment, io: &mut Io<'_, P>) {
        let Ok((path, _)) = io.ip.route(Some(key.local), key.remote, io.now) else { return };
        reset::send(path, &reset::reply(key, segment), &mut self.shared, io);
    }

    /// A SYN for a listener. Its payload is taken only with a Fast Open cookie; otherwise the peer sends it again.
    fn accept<F: Frame<Payload = P>>(
        &mut self,
        key: Key,
        mut segment: Segment,
        (listener, options): (ListenerId, Arc<Options>),
        frame: &mut F,
        io: &mut Io<'_, P>,
    ) {
        let syn = &segment.syn_options(frame.head());
        let Ok((path, _)) = io.ip.route(Some(key.local), key.remote, io.now) else {
            io.counters.tcp_syn_refused += 1;
            return;
        };
        if self.shared.half_open >= self.shared.limits.half_open {
            return self.send_cookie(key, &segment, syn, path, io);
        }
        if !self.has_room(io) {
            io.counters.tcp_syn_refused += 1;
            return;
        }
        let has_ecn = segment.flags.has(TcpFlags::ECE.with(TcpFlags::CWR)) && options.ecn;
        let index = self.open(key, path, options, State::SynReceived, io);
        let Self { connections, shared, .. } = self;
        let Some(c) = connections.get_mut(index) else { return };
        c.listener = listener;
        super::input::negotiate(c, syn, segment.seq, segment.timestamps, io.now);
        c.flags.put(Flags::ECN, has_ecn);
        c.tx.window = segment.window.into();
        c.tx.max_window = c.tx.window;
        shared.half_open += 1;
        io.counters.tcp_passive_opens += 1;
        shared.make_ready(index, c);
        if let Some(cookie) = syn.fast_open.filter(|_| c.options.fast_open) {
            super::input::Arrival { index, connection: c, shared, io, frame, segment: &mut segment }
                .open_fast(&cookie);
        }
    }

    /// Answers a SYN without state (RFC 4987 section 3.6).
    fn send_cookie(
        &mut self,
        key: Key,
        segment: &Segment,
        syn: &SynOptions,
        path: PathId,
        io: &mut Io<'_, P>,
    ) {
        let mss = syn.max_segment.unwrap_or(MIN_SEGMENT);
        let iss = self.shared.secret.cookie(&key, segment.seq, mss, io.now);
        let flags = TcpFlags::SYN.with(TcpFlags::ACK);
        let ports = (key.local_port, key.remote_port);
        let window = self.shared.limits.receive_buffer.min(u16::MAX.into()) as u16;
        let mut builder = TcpBuilder::new(ports, iss.0, (segment.seq + 1).0, flags, window);
        let mtu = io.ip.path(path).map_or(576, |(_, mtu)| mtu);
        builder.max_segment(super::segment_of(mtu, key.remote.is_v4()));
        io.counters.tcp_cookies_sent += 1;
        self.shared.cookies_until = io.now.after_micros(2 * super::COOKIE_LIFE);
        io.ip.send(reset::Bare { key, builder }.packet(path), io.now, io.counters);
    }

    /// Creates the connection of a valid cookie. Returns its number.
    fn redeem_cookie(
        &mut self,
        key: &Key,
        segment: &Segment,
        (listener, options): (ListenerId, Arc<Options>),
        io: &mut Io<'_, P>,
    ) -> Option<u32> {
        if segment.flags.has(TcpFlags::SYN) {
            return None;
        }
        let (iss, irs) = (segment.ack - 1, segment.seq - 1);
        let cookie = self.shared.cookie(key, (irs, iss), io.now)?;
        if !self.has_room(io) {
            io.counters.tcp_syn_refused += 1;
            return None;
        }
        let (path, _) = io.ip.route(Some(key.local), key.remote, io.now).ok()?;
        let index = self.open(*key, path, options, State::SynReceived, io);
        let Self { connections, shared, .. } = self;
        let c = connections.get_mut(index)?;
        c.listener = listener;
        restart(c, (irs, iss), cookie, io.now);
        shared.half_open += 1;
        io.counters.tcp_cookies_in += 1;
        io.counters.tcp_passive_opens += 1;
        Some(index)
    }

    /// Creates a connection that has sent nothing.
    pub(super) fn open(
        &mut self,
        key: Key,
        path: PathId,
        options: Arc<Options>,
        state: State,
        io: &Io<'_, P>,
    ) -> u32 {
        self.generation = self.generation.wrapping_add(1);
        let iss = self.shared.secret.sequence(&key, io.now);
        let mtu = io.ip.path(path).map_or(576, |(_, mtu)| mtu);
        let limit = self.shared.limits.receive_buffer;
        let mut c = Connection::new(key, path, options, state, (iss, limit), mtu, io.now);
        c.generation = self.generation;
        c.ts_offset = self.shared.secret.timestamp_offset(&key);
        let index = self.connections.insert(c);
        let connections = &self.connections;
        self.table.insert(&key, index, |index| connections.get(index).map(|c| &c.key));
        index
    }
}

/// The connection continues a SYN-ACK that was sent without state.
pub(super) fn restart<P: Payload>(c: &mut Connection<P>, (irs, iss): (Seq, Seq), cookie: Cookie, now: Time) {
    let syn = SynOptions { max_segment: Some(cookie.max_segment), ..SynOptions::default() };
    super::input::negotiate(c, &syn, irs, None, now);
    c.flags.clear(Flags::ECN);
    (c.tx.iss, c.tx.una, c.tx.nxt) = (iss, iss + 1, iss + 1);
    c.tx.queue = super::send_queue::SendQueue::new(iss + 1);
    c.timers = Timers::new(c.timers.heard);
    (c.tx.mss, c.tx.mtu) = (c.tx.mss.min(c.tx.peer_mss), 0);
    c.recovery.on_handshake(&c.options, c.tx.mss, false);
}
