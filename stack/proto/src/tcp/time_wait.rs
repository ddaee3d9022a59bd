//! TIME-WAIT (RFC 9293 section 3.6.1): what is left of a connection, so that late segments are answered and its numbers
//! are not used again too early.

use super::connection::{Connection, Flags};
use super::key::{Key, Table};
use super::reset::Bare;
use super::segment::Segment;
use super::{Io, Seq, Tcp};
use crate::slab::Slab;
use crate::{Payload, Time};
use alloc::collections::VecDeque;
use wire::TcpFlags;

/// A connection in TIME-WAIT.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeWait {
    pub(crate) key: Key,
    /// Next number that would be sent, and next number expected.
    pub(crate) nxt: Seq,
    pub(crate) rcv_nxt: Seq,
    /// Timestamp of the peer and offset of ours, if timestamps were on.
    pub(crate) timestamps: Option<(u32, u32)>,
    pub(crate) until: Time,
    /// Duration of the state, in milliseconds.
    pub(crate) duration: u32,
}

const _: () = assert!(size_of::<TimeWait>() <= 80);

/// Microseconds after which the numbers of a connection can be used again by one with timestamps.
const REST: u64 = 1_000_000;

impl TimeWait {
    /// Whether the connection had timestamps, and all later ones differ from them.
    pub(crate) fn has_rested(&self, now: Time) -> bool {
        let rest = u64::from(self.duration).saturating_mul(1000).saturating_sub(REST);
        self.timestamps.is_some() && self.until <= now.after_micros(rest)
    }
}

/// All connections in TIME-WAIT, at most a number; the oldest ends early for a new one.
pub(crate) struct TimeWaits {
    slots: Slab<TimeWait>,
    table: Table,
    /// Slots in the order in which they were entered. One whose time was extended is entered again.
    order: VecDeque<(Time, u32)>,
    max: u32,
}

impl TimeWaits {
    pub(crate) fn new(seed: u64, max: u32) -> Self {
        Self { slots: Slab::new(), table: Table::new(seed), order: VecDeque::new(), max }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn insert(&mut self, entry: TimeWait) {
        if self.slots.len() >= self.max.max(1) as usize {
            self.end_oldest();
        }
        self.compact();
        let at = self.slots.insert(entry);
        let slots = &self.slots;
        self.table.insert(&entry.key, at, |at| slots.get(at).map(|entry| &entry.key));
        self.order.push_back((entry.until, at));
    }

    pub(crate) fn find(&self, key: &Key) -> Option<u32> {
        self.table.find(key, |at| self.slots.get(at).map(|entry| &entry.key))
    }

    pub(crate) fn get(&self, at: u32) -> Option<&TimeWait> {
        self.slots.get(at)
    }

    pub(crate) fn get_mut(&mut self, at: u32) -> Option<&mut TimeWait> {
        self.slots.get_mut(at)
    }

    pub(crate) fn remove(&mut self, at: u32) {
        if let Some(entry) = self.slots.remove(at) {
            self.table.remove(&entry.key, at);
        }
    }

    fn end_oldest(&mut self) {
        while let Some((until, at)) = self.order.pop_front() {
            match self.slots.get(at) {
                Some(entry) if entry.until == until => return self.remove(at),
                Some(entry) if entry.until > until => self.order.push_back((entry.until, at)),
                _ => {}
            }
        }
    }

    /// Drops places of entries that were removed or have a later place, once they are half of all.
    fn compact(&mut self) {
        let Self { slots, order, .. } = self;
        if order.len() > 2 * slots.len() + 64 {
            order.retain(|(until, at)| slots.get(*at).is_some_and(|entry| entry.until >= *until));
        }
    }

    /// Ends those whose time is over.
    pub(crate) fn advance(&mut self, now: Time) {
        while let Some((until, at)) = self.order.front().copied().filter(|(until, _)| *until <= now) {
            self.order.pop_front();
            match self.slots.get(at) {
                Some(entry) if entry.until == until => self.remove(at),
                Some(entry) if entry.until > now => self.order.push_back((entry.until, at)),
                _ => {}
            }
        }
    }

    /// Time of the next call of [`TimeWaits::advance`].
    pub(crate) fn deadline(&self) -> Time {
        self.order.front().map_or(Time::NEVER, |(until, _)| *until)
    }
}

impl<P: Payload> Tcp<P> {
    /// A segment in TIME-WAIT. Returns whether it is a SYN of a new connection, which takes the entry's place: its
    /// timestamp or its sequence number is later (RFC 6191, RFC 9293 section 3.6.1).
    pub(super) fn replace_time_wait(&mut self, at: u32, segment: &Segment, io: &mut Io<'_, P>) -> bool {
        let Some(entry) = self.time_waits.get_mut(at) else { return true };
        if segment.flags.has(TcpFlags::RST) {
            // RFC 1337: a reset does not end TIME-WAIT.
            return false;
        }
        let is_syn = segment.flags.0 & (TcpFlags::SYN.0 | TcpFlags::ACK.0) == TcpFlags::SYN.0;
        let is_later = match (entry.timestamps, segment.timestamps) {
            (Some((last, _)), Some((value, _))) if value != last => {
                value.wrapping_sub(last).cast_signed() > 0
            }
            _ => entry.rcv_nxt.is_before(segment.seq),
        };
        if is_syn && is_later {
            self.time_waits.remove(at);
            return true;
        }
        if segment.flags.has(TcpFlags::FIN) {
            // The acknowledgement of the FIN was lost.
            entry.until = io.now.after_micros(1000 * u64::from(entry.duration));
        }
        let entry = *entry;
        if segment.sequence_len() > 0 && self.shared.rates.challenges.allows(io.now) {
            Self::acknowledge_time_wait(&entry, io);
        }
        false
    }

    fn acknowledge_time_wait(entry: &TimeWait, io: &mut Io<'_, P>) {
        let Ok((path, _)) = io.ip.route(Some(entry.key.local), entry.key.remote, io.now) else { return };
        let ports = (entry.key.local_port, entry.key.remote_port);
        let mut builder = wire::TcpBuilder::new(ports, entry.nxt.0, entry.rcv_nxt.0, TcpFlags::ACK, 0);
        if let Some((recent, offset)) = entry.timestamps {
            builder.timestamps((io.now.millis() as u32).wrapping_add(offset), recent, false);
        }
        io.counters.tcp_out += 1;
        io.ip.send(Bare { key: entry.key, builder }.packet(path), io.now, io.counters);
    }

    pub(super) fn enter_time_wait(&mut self, c: &Connection<P>, io: &mut Io<'_, P>) {
        io.counters.tcp_time_wait += 1;
        let timestamps = c.flags.has(Flags::TIMESTAMPS).then_some((c.rx.ts_recent, c.ts_offset));
        let duration = u32::try_from(c.options.time_wait.as_millis()).unwrap_or(u32::MAX);
        let until = io.now.after_micros(1000 * u64::from(duration));
        let entry = TimeWait { key: c.key, nxt: c.tx.nxt, rcv_nxt: c.rx.nxt, timestamps, until, duration };
        // The FIN that ended the connection must be acknowledged.
        if c.flags.has(Flags::ACK_NOW) {
            Self::acknowledge_time_wait(&entry, io);
        }
        self.time_waits.insert(entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Address, Endpoint};

    fn entry(port: u16, until: u64) -> TimeWait {
        let end = |port| Endpoint::new(Address::v4([10, 0, 0, 1]), port);
        let (nxt, rcv_nxt, timestamps) = (Seq(0), Seq(0), None);
        let key = Key::new(end(80), end(port));
        TimeWait { key, nxt, rcv_nxt, timestamps, until: Time(until), duration: 0 }
    }

    #[test]
    fn entries_end_with_their_time_and_at_the_limit() {
        let mut waits = TimeWaits::new(1, 3);
        (1..5).for_each(|port| waits.insert(entry(port, u64::from(port) * 10)));
        assert_eq!((waits.len(), waits.find(&entry(1, 0).key)), (3, None));
        let second = waits.find(&entry(2, 0).key).unwrap();
        waits.get_mut(second).unwrap().until = Time(100);
        waits.advance(Time(40));
        assert_eq!((waits.len(), waits.find(&entry(2, 0).key)), (1, Some(second)));
        waits.advance(Time(100));
        assert_eq!((waits.len(), waits.deadline()), (0, Time::NEVER));
    }

    #[test]
    fn extended_entries_count_and_end() {
        let mut waits = TimeWaits::new(1, 3);
        for port in 1..100 {
            waits.insert(entry(port, 10));
            let at = waits.find(&entry(port, 0).key).unwrap();
            waits.get_mut(at).unwrap().until = Time(20);
            assert!(waits.len() <= 3 && waits.order.len() <= 3 + 64);
        }
        waits.advance(Time(10));
        waits.advance(Time(20));
        assert_eq!((waits.len(), waits.deadline()), (0, Time::NEVER));
    }

    #[test]
    fn removed_entries_leave_a_bounded_number_of_places() {
        let mut waits = TimeWaits::new(1, 3);
        for port in 1..1000 {
            waits.insert(entry(port, 10));
            let at = waits.find(&entry(port, 0).key).unwrap();
            waits.remove(at);
            assert!(waits.order.len() <= 66);
        }
    }
}
