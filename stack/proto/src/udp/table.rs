//! Sockets by identifier and by their ends.

use super::UdpOptions;
use crate::affinity::{Affinity, EPHEMERAL};
use crate::ip::PathId;
use crate::random::Random;
use crate::slab::Slab;
use crate::{Address, Config, Endpoint, SocketId};
use core::hash::Hasher;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use siphasher::sip::SipHasher13;

/// Ends of a socket, or of a received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ends {
    pub(crate) local: Endpoint,
    /// Unspecified, with port 0, if the socket is not connected.
    pub(crate) remote: Endpoint,
}

impl Ends {
    pub(crate) const fn bound(local: Endpoint) -> Self {
        Self { local, remote: Endpoint::new(Address::UNSPECIFIED, 0) }
    }

    /// Whether the socket is connected.
    pub(crate) fn is_connected(&self) -> bool {
        self.remote != Self::bound(self.local).remote
    }

    /// Ends of the sockets that receive a datagram with these ends, most specific first.
    pub(crate) fn keys(&self) -> [Self; 3] {
        let all = if self.local.address.is_v4() { Address::v4([0; 4]) } else { Address::UNSPECIFIED };
        [*self, Self::bound(self.local), Self::bound(Endpoint::new(all, self.local.port))]
    }
}

/// A socket.
#[derive(Clone, Debug)]
pub(crate) struct Socket {
    pub(crate) ends: Ends,
    /// The local end given to `bind`.
    pub(crate) bound: Endpoint,
    /// Path to the remote end.
    pub(crate) path: Option<PathId>,
    pub(crate) options: UdpOptions,
    /// Events that were not polled.
    pub(crate) queued: u32,
    generation: u32,
}

/// Sockets by identifier and by their ends. No two have equal ends.
pub(crate) struct Table {
    sockets: Slab<Socket>,
    by_ends: HashMap<Ends, SocketId, FixedState>,
    generation: u32,
    affinity: Affinity,
}

impl Table {
    pub(crate) fn new(config: &Config) -> Self {
        let mut seed = SipHasher13::new_with_key(&config.secret);
        seed.write(b"udp sockets");
        let by_ends = HashMap::with_hasher(FixedState::with_seed(seed.finish()));
        Self { sockets: Slab::new(), by_ends, generation: 0, affinity: config.affinity.clone() }
    }

    pub(crate) fn affinity(&self) -> &Affinity {
        &self.affinity
    }

    pub(crate) fn len(&self) -> usize {
        self.sockets.len()
    }

    /// The end with an ephemeral port in place of 0, chosen at random (RFC 6056 section 3.3.1). Returns `None` if all
    /// are in use.
    pub(crate) fn with_port(&self, local: Endpoint, random: &mut Random) -> Option<Endpoint> {
        if local.port != 0 {
            return Some(local);
        }
        let end = |port| Endpoint::new(local.address, port);
        let first = random.below(EPHEMERAL.len() as u64) as u16;
        let is_free = |port| !self.by_ends.contains_key(&Ends::bound(end(port)));
        // Tests one port more than there are sockets at most.
        self.affinity.choose((first, &mut 0, u16::MAX), local, None, is_free).map(end)
    }

    /// Adds a socket. Returns `None` if its end is in use.
    pub(crate) fn insert(&mut self, local: Endpoint, options: UdpOptions) -> Option<SocketId> {
        let ends = Ends::bound(local);
        if self.by_ends.contains_key(&ends) {
            return None;
        }
        self.generation = self.generation.wrapping_add(1);
        let generation = self.generation;
        let socket = Socket { ends, bound: local, path: None, options, queued: 0, generation };
        let id = SocketId { index: self.sockets.insert(socket), generation };
        self.by_ends.insert(ends, id);
        Some(id)
    }

    pub(crate) fn remove(&mut self, id: SocketId) {
        if let Some(ends) = self.get(id).map(|socket| socket.ends) {
            self.by_ends.remove(&ends);
            self.sockets.remove(id.index);
        }
    }

    /// Changes the ends of a socket. Returns `None` if another socket has them.
    pub(crate) fn rename(&mut self, id: SocketId, ends: Ends) -> Option<()> {
        if self.by_ends.get(&ends).is_some_and(|other| *other != id) {
            return None;
        }
        let old = core::mem::replace(&mut self.get_mut(id)?.ends, ends);
        self.by_ends.remove(&old);
        self.by_ends.insert(ends, id);
        Some(())
    }

    pub(crate) fn find(&self, ends: &Ends) -> Option<SocketId> {
        self.by_ends.get(ends).copied()
    }

    pub(crate) fn get(&self, id: SocketId) -> Option<&Socket> {
        self.sockets.get(id.index).filter(|socket| socket.generation == id.generation)
    }

    pub(crate) fn get_mut(&mut self, id: SocketId) -> Option<&mut Socket> {
        self.sockets.get_mut(id.index).filter(|socket| socket.generation == id.generation)
    }
}
