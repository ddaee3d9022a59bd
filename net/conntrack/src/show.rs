//! Listings of connections.

use crate::config::SECOND;
use crate::connection::{Connection, Protocol};
use crate::table::Shard;
use crate::tcp::Phase;
use crate::tracker::Tracker;
use crate::tuple::Tuple;

/// A connection as it was when it was listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Original direction.
    pub original: Tuple,
    /// Reply direction, with translated addresses.
    pub reply: Tuple,
    /// Phases of TCP: of the original and of the reply direction.
    pub phases: Option<(Phase, Phase)>,
    /// Whether both sides have sent packets.
    pub is_assured: bool,
    /// Mark.
    pub mark: u32,
    /// Label.
    pub label: u128,
    /// Time until it ends unless a packet arrives, in seconds.
    pub timeout: u64,
}

impl Listed {
    fn of(connection: &Connection, now: u64) -> Self {
        let phases = match &connection.protocol {
            Protocol::Tcp(state) => Some(state.phases()),
            Protocol::Icmp(_) | Protocol::Other(_) => None,
        };
        Self {
            original: connection.original,
            reply: connection.reply(),
            phases,
            is_assured: connection.is_assured(),
            mark: connection.mark,
            label: connection.label,
            timeout: (connection.expires - now).div_ceil(SECOND),
        }
    }
}

impl Tracker {
    /// The connections whose time has not passed. Connections that are added or removed meanwhile may be missing.
    pub fn connections(&self, now: u64) -> impl Iterator<Item = Listed> {
        self.shards
            .iter()
            .flat_map(move |shard| (0..).map_while(move |chunk| listed(&shard.lock(), chunk, now)).flatten())
    }
}

fn listed(shard: &Shard, chunk: usize, now: u64) -> Option<Vec<Listed>> {
    let slots = shard.chunk(chunk)?.map(|(_, connection)| connection);
    Some(slots.filter(|found| found.expires > now).map(|found| Listed::of(found, now)).collect())
}
