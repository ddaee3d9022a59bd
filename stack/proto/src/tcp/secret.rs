//! Numbers that peers cannot predict: initial sequence numbers (RFC 6528), SYN cookies, timestamp offsets, Fast Open
//! cookies.

use super::Seq;
use super::key::Key;
use crate::{Address, Time};
use core::hash::{Hash, Hasher};
use siphasher::sip::SipHasher13;

/// Maximum segment sizes that a cookie can carry.
const SEGMENTS: [u16; 8] = [536, 1220, 1300, 1360, 1400, 1440, 1460, 8940];
/// Bits of a cookie for the index of the segment size.
const INDEX_BITS: u32 = 3;
/// Time in nanoseconds after which a cookie has another secret; a cookie is valid for one to two of them.
const COOKIE_PERIOD: u64 = 64_000_000_000;

/// Domains of the hash, so that no number reveals another.
#[derive(Clone, Copy, Hash)]
enum Use {
    Sequence,
    Cookie,
    Timestamp,
    FastOpen,
    Table,
    Port,
}

/// Properties of the SYN that a valid cookie encodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cookie {
    pub(crate) max_segment: u16,
}

/// A keyed hash.
#[derive(Clone)]
pub(crate) struct Secret {
    key: [u8; 16],
}

impl Secret {
    pub(crate) const fn new(key: [u8; 16]) -> Self {
        Self { key }
    }

    fn hash(&self, domain: Use, value: impl Hash) -> u64 {
        let mut hasher = SipHasher13::new_with_key(&self.key);
        (domain, value).hash(&mut hasher);
        hasher.finish()
    }

    /// Seed of hash tables.
    pub(crate) fn table(&self, number: u32) -> u64 {
        self.hash(Use::Table, number)
    }

    /// Initial sequence number: a clock of 4 microseconds and a hash of the connection (RFC 6528 section 3).
    pub(crate) fn sequence(&self, key: &Key, now: Time) -> Seq {
        Seq(((now.micros() / 4) as u32).wrapping_add(self.hash(Use::Sequence, key) as u32))
    }

    /// Offset of a connection's timestamps.
    pub(crate) fn timestamp_offset(&self, key: &Key) -> u32 {
        self.hash(Use::Timestamp, (key.local, key.remote)) as u32
    }

    /// First port to try for a connection to this destination (RFC 6056, algorithm 3).
    pub(crate) fn port(&self, local: Address, remote: Address, remote_port: u16) -> u16 {
        self.hash(Use::Port, (local, remote, remote_port)) as u16
    }

    /// Fast Open cookie of a client (RFC 7413 section 4.1.2).
    pub(crate) fn fast_open(&self, client: Address, server: Address) -> [u8; 8] {
        self.hash(Use::FastOpen, (client, server)).to_be_bytes()
    }

    /// Initial sequence number that carries the segment size of a SYN.
    pub(crate) fn cookie(&self, key: &Key, irs: Seq, max_segment: u16, now: Time) -> Seq {
        let index = SEGMENTS.iter().rposition(|size| *size <= max_segment).unwrap_or(0) as u32;
        Seq(self.cookie_of(key, irs, now.0 / COOKIE_PERIOD, index))
    }

    /// Validates the cookie that an acknowledgement returns.
    pub(crate) fn check(&self, key: &Key, irs: Seq, cookie: Seq, now: Time) -> Option<Cookie> {
        let index = cookie.0 & ((1 << INDEX_BITS) - 1);
        let period = now.0 / COOKIE_PERIOD;
        let mut periods = [period, period.wrapping_sub(1)].into_iter();
        let is_valid = periods.any(|period| self.cookie_of(key, irs, period, index) == cookie.0);
        is_valid.then(|| Cookie { max_segment: SEGMENTS[index as usize] })
    }

    fn cookie_of(&self, key: &Key, irs: Seq, period: u64, index: u32) -> u32 {
        let hash = self.hash(Use::Cookie, (key, irs, period, index)) as u32;
        hash << INDEX_BITS | index
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Endpoint;

    fn key(port: u16) -> Key {
        let end = |last, port| Endpoint::new(Address::v4([10, 0, 0, last]), port);
        Key::new(end(1, 80), end(2, port))
    }

    #[test]
    fn cookies_are_valid_for_their_connection_and_for_two_periods() {
        let secret = Secret::new([7; 16]);
        let cookie = secret.cookie(&key(9), Seq(5), 1452, Time(0));
        let check =
            |port, irs, periods| secret.check(&key(port), Seq(irs), cookie, Time(periods * COOKIE_PERIOD));
        assert_eq!(check(9, 5, 1), Some(Cookie { max_segment: 1440 }));
        assert_eq!((check(9, 5, 2), check(8, 5, 0), check(9, 6, 0)), (None, None, None));
    }

    #[test]
    fn sequence_numbers_advance_with_time_and_differ_between_connections() {
        let secret = Secret::new([7; 16]);
        let at = |port, micros: u64| secret.sequence(&key(port), Time(micros * 1000)).0;
        assert_eq!(at(9, 4_000).wrapping_sub(at(9, 0)), 1000);
        assert_ne!(at(9, 0), at(10, 0));
    }
}
