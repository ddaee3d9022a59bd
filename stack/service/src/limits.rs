//! Every limit of what clients can make a service hold or do.

use crate::chunks::CHUNK;
use host::MAX_WORKERS;
use std::time::Duration;

/// Minimum size in bytes of the arena of one worker, unless that of the client is smaller.
const MIN_ARENA: u32 = 1 << 20;

/// Limits of a service. A client that exceeds one of its own loses its connections ([`crate::Fault`]), or the operation
/// fails with [`crate::Reason::TooMany`].
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Clients. Each has memory for its rings and arenas. That of as many clients that have left may be in use until
    /// their data is acknowledged.
    pub clients: u32,
    /// Entries of each ring; a power of two from 16 to 32,768.
    pub ring: u32,
    /// Bytes of the arenas of each direction, at most 1 GiB. They are divided among the workers; each has 1 MiB at
    /// least.
    pub arena: u32,
    /// Connections, listeners and UDP sockets of a client on a worker.
    pub sockets: u32,
    /// Multicast memberships of a client, and of all clients. The second must be below the stack's limit of groups,
    /// because its addresses need groups too.
    pub groups: (u32, u32),
    /// Commands of a client that are processed before others have their turn.
    pub commands: u32,
    /// Commands of all clients that open or close something, removals of sockets of clients that left, and resets after
    /// [`Limits::linger`], each in one round of a worker.
    pub control: u32,
    /// Bytes of a connection that are sent and not acknowledged; at most the stack's limit of a send buffer.
    pub send_bytes: u32,
    /// Send commands of a connection that are not acknowledged.
    pub sends: u32,
    /// Bytes received for a client on a worker for which its arena has no room. Each piece counts as 2 KiB at least.
    pub waiting_bytes: u32,
    /// Bytes received on connections of a worker that no client has accepted yet, of all clients.
    pub unaccepted_bytes: u32,
    /// Connections of an endpoint that wait for one client on a worker.
    pub backlog: u32,
    /// Time for which a connection that the client has closed may wait for the peer's FIN, and the number of closed
    /// connections that are remembered for it. The oldest is reset when there are more.
    pub linger: (Duration, u32),
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            clients: 64,
            ring: 1024,
            arena: 4 << 20,
            sockets: 16_384,
            groups: (16, 48),
            commands: 64,
            control: 16,
            send_bytes: 1 << 20,
            sends: 1024,
            waiting_bytes: 32 << 20,
            unaccepted_bytes: 16 << 20,
            backlog: 1024,
            linger: (Duration::from_mins(1), 65_536),
        }
    }
}

/// Number of a client's regions, one for each worker, with the number of active ones, and their sizes, which the
/// service announces to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) workers: u32,
    /// Number of workers that open new connections: the first ones.
    pub(crate) active: u32,
    pub(crate) ring: u32,
    pub(crate) arena: u32,
    pub(crate) send_bytes: u32,
    pub(crate) sends: u32,
}

impl Sizes {
    /// Whether regions of these sizes can exist.
    pub(crate) fn are_valid(&self) -> bool {
        (1..=MAX_WORKERS as u32).contains(&self.workers)
            && (1..=self.workers).contains(&self.active)
            && self.ring.is_power_of_two()
            && (16..=32_768).contains(&self.ring)
            && (CHUNK..=1 << 30).contains(&self.arena)
            && self.arena.is_multiple_of(CHUNK)
            && self.send_bytes > 0
            && self.sends > 0
    }
}

impl Limits {
    /// Sizes of the regions of a client of this many workers.
    pub(crate) fn sizes(&self, workers: usize) -> Sizes {
        let Self { ring, arena, send_bytes, sends, .. } = *self;
        let workers = u32::try_from(workers).unwrap_or(u32::MAX);
        let arena = (arena / workers.max(1)).max(arena.min(MIN_ARENA));
        Sizes { workers, active: workers, ring, arena: arena / CHUNK * CHUNK, send_bytes, sends }
    }
}
