//! A connection of a client, and what is to be reported about it.
//!
//! Events change the state; [`Connection::flush`] turns it into completions as far as the ring has room. So memory for
//! unreported events is bounded by the number of connections and of waiting bytes.

use super::client::Channel;
use crate::chunks::{CHUNK, Stream};
use crate::entry::Completion;
use crate::reason::Reason;
use host::Buffer;
use stack::tcp::ConnectionId;
use stack::{Endpoint, Slice};
use std::collections::VecDeque;

/// Minimum number of bytes that a waiting piece counts.
const MIN_WAITING: u32 = 2048;

/// Completion to report first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Announce {
    Nothing,
    Accepted { listener: u32 },
    Connected,
}

/// A fact that is reported once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fact<T> {
    No,
    New(T),
    Told,
}

/// How far [`Connection::flush`] came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flushed {
    Done,
    RingFull,
    NoArena,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    /// `None` while no client has accepted it.
    pub(super) client: Option<usize>,
    pub(super) id: u32,
    /// `None` after its end.
    pub(super) stack: Option<ConnectionId>,
    pub(super) ends: (Endpoint, Endpoint),
    pub(super) announce: Announce,
    /// Received data that is not in the arena.
    pub(super) waiting: VecDeque<Slice<Buffer>>,
    /// Received data in the arena.
    pub(super) stream: Stream,
    /// Lengths of the send commands that are not acknowledged.
    pub(super) sends: VecDeque<u32>,
    pub(super) in_flight: u32,
    /// Acknowledged bytes to be reported.
    pub(super) acked: u32,
    pub(super) finished: Fact<()>,
    pub(super) closed: Fact<Reason>,
    /// The client has closed it.
    pub(super) is_released: bool,
    /// Whether it is in its client's list.
    pub(super) is_dirty: bool,
}

/// Bytes that a piece of waiting data counts.
pub(super) fn charge(data: &Slice<Buffer>) -> u32 {
    (data.len() as u32).max(MIN_WAITING)
}

impl Connection {
    pub(super) fn new(stack: ConnectionId, ends: (Endpoint, Endpoint), owner: Option<(usize, u32)>) -> Self {
        Self {
            client: owner.map(|(client, _)| client),
            id: owner.map_or(0, |(_, id)| id),
            stack: Some(stack),
            ends,
            announce: Announce::Nothing,
            waiting: VecDeque::new(),
            stream: Stream::default(),
            sends: VecDeque::new(),
            in_flight: 0,
            acked: 0,
            finished: Fact::No,
            closed: Fact::No,
            is_released: false,
            is_dirty: false,
        }
    }

    /// Counts a send command. Returns `false` if it exceeds the limits.
    #[inline]
    pub(super) fn count_send(&mut self, len: u32, max_bytes: u32, max_sends: u32) -> bool {
        if self.sends.len() >= max_sends as usize || self.in_flight + len > max_bytes {
            return false;
        }
        self.sends.push_back(len);
        self.in_flight += len;
        true
    }

    /// Counts acknowledged bytes. The client gets whole commands back, so that it and the service agree on their
    /// number.
    #[inline]
    pub(super) fn acknowledge(&mut self, bytes: u32) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
        self.acked += bytes;
        let mut left = bytes;
        while let Some(len) = self.sends.front_mut() {
            let part = left.min(*len);
            (*len, left) = (*len - part, left - part);
            if *len > 0 {
                break;
            }
            self.sends.pop_front();
        }
    }

    /// Takes all waiting data. Returns what it counted.
    pub(super) fn discard(&mut self) -> u32 {
        self.waiting.drain(..).map(|data| charge(&data)).sum()
    }

    /// Whether both sides are done with it.
    pub(super) fn is_over(&self) -> bool {
        self.is_released && self.closed == Fact::Told
    }

    /// Reports what is new. `waiting` is reduced by what leaves for the arena.
    #[inline]
    pub(super) fn flush(&mut self, channel: &mut Channel, waiting: &mut u32) -> Flushed {
        let (id, (local, remote)) = (self.id, self.ends);
        let first = match self.announce {
            Announce::Nothing => None,
            Announce::Accepted { listener } => Some(Completion::Accepted { listener, id, local, remote }),
            Announce::Connected => Some(Completion::Connected { id, local, remote }),
        };
        if first.is_some_and(|completion| !channel.send(completion)) {
            return Flushed::RingFull;
        }
        self.announce = Announce::Nothing;
        if self.acked > 0 {
            if !channel.send(Completion::Sent { id, bytes: self.acked }) {
                return Flushed::RingFull;
            }
            self.acked = 0;
        }
        match self.flush_data(channel, waiting) {
            Flushed::Done => self.flush_end(channel),
            other => other,
        }
    }

    #[inline]
    fn flush_data(&mut self, channel: &mut Channel, waiting: &mut u32) -> Flushed {
        while let Some(data) = self.waiting.front_mut() {
            let Some(range) = self.stream.take(&mut channel.free, data.len()) else {
                return Flushed::NoArena;
            };
            if !channel.send(Completion::Data { id: self.id, range }) {
                self.stream.undo_take(&mut channel.free, range.len);
                return Flushed::RingFull;
            }
            let len = range.len as usize;
            let part = data.range().start..data.range().start + len;
            if let Some(bytes) = data.data().bytes().and_then(|bytes| bytes.get(part)) {
                channel.write(range, bytes);
            } else {
                let mut bytes = [0; CHUNK as usize];
                data.copy_to(0, &mut bytes[..len]);
                channel.write(range, &bytes[..len]);
            }
            let counted = charge(data);
            data.narrow(len..usize::MAX);
            *waiting -= counted;
            if data.is_empty() {
                self.waiting.pop_front();
            } else {
                *waiting += charge(data);
            }
        }
        Flushed::Done
    }

    fn flush_end(&mut self, channel: &mut Channel) -> Flushed {
        let id = self.id;
        if self.finished == Fact::New(()) {
            if !channel.send(Completion::Finished { id }) {
                return Flushed::RingFull;
            }
            self.finished = Fact::Told;
        }
        if let Fact::New(reason) = self.closed {
            if !channel.send(Completion::Closed { id, reason }) {
                return Flushed::RingFull;
            }
            self.closed = Fact::Told;
        }
        Flushed::Done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledgements_free_commands_in_order() {
        let mut stack: stack::Stack<Buffer> = stack::Stack::new(stack::Config::new([0; 16]), stack::Time(0));
        let interface = stack.add_interface(stack::ip::InterfaceConfig {
            mac: wire::MacAddress::new([2; 6]),
            mtu: 1500,
            vlan: None,
        });
        stack.add_address(interface, "10.0.0.1/24".parse().unwrap(), stack::Time(0));
        let to = Endpoint::from("10.0.0.2:1".parse::<std::net::SocketAddr>().unwrap());
        let from = Endpoint::new(stack::Address::v4([0; 4]), 0);
        let id = stack.connect(from, to, stack::tcp::Options::default(), stack::Time(0)).unwrap();
        let mut connection = Connection::new(id, (from, to), None);
        assert!(connection.count_send(100, 150, 2) && !connection.count_send(51, 150, 2));
        assert!(connection.count_send(50, 150, 2) && !connection.count_send(0, 150, 2));
        connection.acknowledge(99);
        assert_eq!((connection.sends.len(), connection.in_flight, connection.acked), (2, 51, 99));
        connection.acknowledge(2);
        assert_eq!((connection.sends.clone(), connection.in_flight), (VecDeque::from([49]), 49));
    }
}
