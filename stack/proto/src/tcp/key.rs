//! The four numbers that identify a connection, and the table that finds it.

use crate::ip::Packet;
use crate::{Address, Endpoint, Frame};
use core::hash::{BuildHasher, Hash};
use hashbrown::HashTable;
use wire::checksum::{Sum, protocol};

/// Local and remote end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) remote: Address,
    pub(crate) local: Address,
    pub(crate) remote_port: u16,
    pub(crate) local_port: u16,
}

impl Key {
    pub(crate) const fn new(local: Endpoint, remote: Endpoint) -> Self {
        let (local_port, remote_port) = (local.port, remote.port);
        Self { remote: remote.address, local: local.address, remote_port, local_port }
    }

    /// Ends of a received segment; `None` if its ports are not in the head of the frame.
    #[inline]
    pub(crate) fn of<F: Frame>(frame: &F, packet: &Packet) -> Option<Self> {
        let [a, b, c, d] = *frame.head().get(packet.transport..)?.first_chunk()?;
        let (remote_port, local_port) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        Some(Self { remote: packet.source, local: packet.destination, remote_port, local_port })
    }

    pub(crate) const fn local(&self) -> Endpoint {
        Endpoint::new(self.local, self.local_port)
    }

    pub(crate) const fn remote(&self) -> Endpoint {
        Endpoint::new(self.remote, self.remote_port)
    }
}

/// Folded sum of the pseudo header without its length (RFC 9293 section 3.1). It is the same in both directions.
pub(crate) fn pseudo(one: Address, other: Address) -> u16 {
    let mut sum = Sum::of(one.wire());
    sum.add(other.wire());
    sum.add(&[0, protocol::TCP]);
    u16::from_ne_bytes(sum.partial())
}

/// Sum of the pseudo header of a segment of `len` bytes.
#[inline]
pub(crate) fn with_len(pseudo: u16, len: u32) -> Sum {
    let mut sum = Sum::default();
    sum.add_words(pseudo.into(), 2);
    sum.add_words(u32::from_ne_bytes(len.to_be_bytes()).into(), 4);
    sum
}

/// Numbers of slots by key. The keys stay in the slots.
pub(crate) struct Table {
    numbers: HashTable<u32>,
    hasher: foldhash::fast::FixedState,
}

impl Table {
    /// `secret` keeps peers from choosing keys that collide.
    pub(crate) fn new(secret: u64) -> Self {
        Self { numbers: HashTable::new(), hasher: foldhash::fast::FixedState::with_seed(secret) }
    }

    #[inline]
    pub(crate) fn find<'a>(&self, key: &Key, key_of: impl Fn(u32) -> Option<&'a Key>) -> Option<u32> {
        self.numbers.find(hash(&self.hasher, key), |number| key_of(*number) == Some(key)).copied()
    }

    /// Inserts a number whose key is not in the table.
    pub(crate) fn insert<'a>(&mut self, key: &Key, number: u32, key_of: impl Fn(u32) -> Option<&'a Key>) {
        let hash = hash(&self.hasher, key);
        let Self { numbers, hasher } = self;
        let rehash = |number: &u32| key_of(*number).map_or(0, |key| self::hash(hasher, key));
        numbers.insert_unique(hash, number, rehash);
    }

    pub(crate) fn remove(&mut self, key: &Key, number: u32) {
        if let Ok(entry) = self.numbers.find_entry(hash(&self.hasher, key), |other| *other == number) {
            entry.remove();
        }
    }
}

/// Hashes three words instead of 36 bytes.
#[inline]
fn hash(hasher: &foldhash::fast::FixedState, key: &Key) -> u64 {
    let word = |address: &Address| u128::from_ne_bytes(*address.octets());
    let ports = u32::from(key.remote_port) << 16 | u32::from(key.local_port);
    hasher.hash_one(Words(word(&key.remote), word(&key.local), ports))
}

#[derive(Hash)]
struct Words(u128, u128, u32);
