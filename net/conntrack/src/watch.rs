//! Connections whose packets are forwarded outside of the workers.
//!
//! The state of such packets must be that of the last one that was seen: a watched connection is open in both
//! directions, and neither translated, related nor helped. [`Tracker::on_end`] sets a listener, which is called with
//! the number of a watch as soon as that may change. Packets with control bits that change the
//! connection must still be passed to [`Tracker::track`], and packets that were forwarded outside be told by
//! [`Tracker::confirm`].

use crate::bits;
use crate::config::Timer;
use crate::connection::{Connection, Protocol, State};
use crate::helper::Helper;
use crate::table::Shard;
use crate::tracker::Tracker;
use crate::tuple::Tuple;
use crate::{tcp, udp};
use std::sync::{MutexGuard, OnceLock};

/// Calls the listener with the number of a watch.
#[derive(Default)]
pub(crate) struct Listener(OnceLock<Box<dyn Fn(u16) + Send + Sync>>);

impl Listener {
    /// Tells that a connection has changed, if it is watched.
    #[inline]
    pub(crate) fn tell(&self, connection: &Connection) {
        if connection.watch != 0 {
            self.call(connection.watch);
        }
    }

    #[cold]
    fn call(&self, watch: u16) {
        if let Some(listener) = self.0.get() {
            listener(watch);
        }
    }
}

/// An open connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watched {
    /// Number of the watch; 0 for none.
    pub number: u16,
    /// State of the packets of the direction.
    pub state: State,
}

impl Connection {
    /// Whether further packets without control bits do not change its state.
    pub(crate) fn is_settled(&self) -> bool {
        match &self.protocol {
            Protocol::Tcp(state) => state.phases() == (tcp::Phase::Established, tcp::Phase::Established),
            Protocol::Icmp(_) => false,
            Protocol::Other(state) => *state == udp::State::Multiple,
        }
    }
}

impl Tracker {
    /// Sets the function that is called with the number of a watch when its connection changes or ends. The first
    /// function stays. Workers call it under a lock; it must not block.
    pub fn on_end(&self, listener: impl Fn(u16) + Send + Sync + 'static) {
        let _ = self.listener.0.set(Box::new(listener));
    }

    /// Watches the connection of a direction under `number`, unless it has another number already. Returns `None` if
    /// its packets cannot be forwarded outside: with the window check, that is each TCP connection.
    pub fn watch(&self, tuple: &Tuple, number: u16, now: u64) -> Option<Watched> {
        let (mut shard, slot, is_reply) = self.settled(tuple, now)?;
        let connection = shard.get_mut(slot)?;
        if connection.watch == 0 {
            connection.watch = number;
        }
        connection.has_gaps = true;
        Some(watched(connection, is_reply))
    }

    /// The connection of a direction, if it can be watched. Its number is 0 if it is not.
    pub fn watched(&self, tuple: &Tuple, now: u64) -> Option<Watched> {
        let (shard, slot, is_reply) = self.settled(tuple, now)?;
        shard.get(slot).map(|connection| watched(connection, is_reply))
    }

    /// Ends a watch.
    pub fn unwatch(&self, tuple: &Tuple) {
        let Some((mut shard, slot, _)) = self.lookup(self.hasher.hash(tuple), tuple) else { return };
        if let Some(connection) = shard.get_mut(slot) {
            connection.watch = 0;
        }
    }

    /// Notes packets of the connection of a direction, which it did not see itself.
    pub fn confirm(&self, tuple: &Tuple, now: u64) {
        let Some((mut shard, slot, _)) = self.settled(tuple, now) else { return };
        if let Some(connection) = shard.get_mut(slot) {
            let is_tcp = matches!(connection.protocol, Protocol::Tcp(_));
            let timer = if is_tcp { Timer::TcpEstablished } else { Timer::UdpMultiple };
            connection.expires = now + self.rules.nanos(timer);
        }
    }

    /// The connection of a direction, if it can be watched.
    fn settled(&self, tuple: &Tuple, now: u64) -> Option<(MutexGuard<'_, Shard>, u32, bool)> {
        let (shard, slot, is_reply) = self.lookup(self.hasher.hash(tuple), tuple)?;
        let connection = shard.get(slot)?;
        let is_tcp = matches!(connection.protocol, Protocol::Tcp(_));
        let is_simple = connection.is_plain() && connection.helper == Helper::None;
        let is_open = connection.is_settled() && connection.expires > now;
        (is_simple && is_open && !(is_tcp && self.rules.checks_window())).then_some((shard, slot, is_reply))
    }
}

fn watched(connection: &Connection, is_reply: bool) -> Watched {
    let reply = if is_reply { bits::REPLY } else { 0 };
    Watched { number: connection.watch, state: connection.state(bits::ESTABLISHED | reply) }
}
