//! Data in SYNs: TCP Fast Open (RFC 7413).
//!
//! A server gives each client address a cookie, and takes data of a SYN that returns it. A client keeps the cookies of
//! servers, and sends data in the first SYN to a server whose cookie it has.

use super::connection::{Connection, Flags, State};
use super::input::{Arrival, accepted};
use super::output::Turn;
use super::segment::FastOpenCookie;
use super::{ConnectionId, shared::Shared};
use crate::{Address, Frame, Link, Payload};
use alloc::collections::VecDeque;
use hashbrown::HashMap;
use wire::TcpBuilder;

/// Kind of the option.
const KIND: u8 = 34;

/// Cookies of servers with their segment sizes (RFC 7413 section 4.1.3). The oldest is dropped for a new one.
pub(crate) struct CookieCache {
    cookies: HashMap<Address, (FastOpenCookie, u16), foldhash::fast::FixedState>,
    order: VecDeque<Address>,
    max: usize,
}

impl CookieCache {
    pub(crate) fn new(max: u32) -> Self {
        let cookies = HashMap::with_hasher(foldhash::fast::FixedState::default());
        Self { cookies, order: VecDeque::new(), max: max as usize }
    }

    pub(crate) fn insert(&mut self, server: Address, cookie: FastOpenCookie, max_segment: u16) {
        if self.cookies.insert(server, (cookie, max_segment)).is_none() {
            self.order.push_back(server);
        }
        if self.order.len() > self.max
            && let Some(oldest) = self.order.pop_front()
        {
            self.cookies.remove(&oldest);
        }
    }

    fn get(&self, server: Address) -> Option<&(FastOpenCookie, u16)> {
        self.cookies.get(&server)
    }
}

/// The cookie of the peer of a connection.
fn cookie_of<P: Payload>(shared: &Shared<P>, c: &Connection<P>) -> [u8; 8] {
    shared.secret.fast_open(c.key.remote, c.key.local)
}

impl<P: Payload, F: Frame<Payload = P>> Arrival<'_, '_, P, F> {
    /// A SYN with a cookie, or with a request for one, for a new connection. The payload is taken if the cookie is
    /// valid.
    pub(super) fn open_fast(mut self, cookie: &FastOpenCookie) {
        if cookie.bytes() != cookie_of(self.shared, self.connection) {
            return self.connection.flags.set(Flags::GIVES_COOKIE);
        }
        let c = &mut *self.connection;
        c.flags.set(Flags::FAST_OPEN);
        self.io.counters.tcp_fast_open += 1;
        let connection = ConnectionId { index: self.index, generation: c.generation };
        self.io.events.push_back(accepted(connection, c));
        self.segment.seq += 1;
        if !self.segment.payload.is_empty() {
            self.take_text();
        }
    }

    /// The SYN-ACK acknowledges the SYN without its data, which is sent again at once (RFC 7413 section 4.2.2).
    pub(super) fn repeat_syn_data(&mut self) {
        let c = &mut *self.connection;
        if c.tx.una == c.tx.iss + 1 && c.tx.una.is_before(c.tx.nxt) {
            c.recovery.release(&mut self.shared.sent);
            c.tx.nxt = c.tx.una;
            self.shared.make_ready(self.index, c);
        }
    }
}

impl<P: Payload, L: Link<Payload = P>> Turn<'_, '_, P, L> {
    /// Bytes of queued data that the SYN carries.
    pub(super) fn fast_open_data(&self) -> u32 {
        let c = &*self.connection;
        let known = self.shared.cookies.get(c.key.remote).filter(|_| c.options.fast_open);
        let Some((_, max_segment)) = known.filter(|_| c.state == State::SynSent) else { return 0 };
        // Options of a SYN take up to 40 bytes.
        let segment = u32::from((*max_segment).min(c.tx.mss));
        c.tx.queue.held().min(segment.saturating_sub(40))
    }

    /// Appends the option to a SYN or SYN-ACK.
    pub(super) fn fast_open_option(&self, builder: &mut TcpBuilder) {
        let c = &*self.connection;
        if c.state == State::SynReceived {
            if c.flags.has(Flags::GIVES_COOKIE) {
                append(builder, &cookie_of(self.shared, c));
            }
        } else if c.options.fast_open && c.tx.nxt == c.tx.iss {
            append(builder, self.shared.cookies.get(c.key.remote).map_or(&[], |(cookie, _)| cookie.bytes()));
        }
    }
}

/// Appends the option, aligned by no-operations, if it fits.
fn append(builder: &mut TcpBuilder, cookie: &[u8]) {
    let pad = (2 + cookie.len()).next_multiple_of(4) - 2 - cookie.len();
    if builder.room() < pad + 2 + cookie.len() {
        return;
    }
    builder.option(&[1, 1, 1][..pad]);
    builder.option(&[KIND, 2 + cookie.len() as u8]);
    builder.option(cookie);
}
