//! Owners of flows if the number of active workers changes ([`crate::Activity`]).
//!
//! A new flow belongs to the active worker that its hash selects by linear hashing (Litwin, 1980). So an older flow has
//! at most six candidates: the workers that its hash selects for the possible numbers of active workers. A segment
//! whose connection its worker does not have goes on to the next candidate that has connections, as in Beamer (NSDI
//! 2018), in an order in which no worker is twice. The last one answers it, with a reset if it belongs to no
//! connection. A SYN visits the other candidates first, so that one that is repeated reaches the connection that it has
//! opened.
//!
//! Workers see a change of the number at different times. A segment that is between two workers then may end at one
//! without its connection, so segments without a connection are dropped for a short time after a change, and sent again
//! by the peer.

use crate::scale::Activity;
use stack::{Address, Endpoint, Time};
use std::sync::Arc;
use wire::checksum::protocol;
use wire::{Layers, Tcp, TcpFlags};

/// Time after a change in which segments from other workers without a connection are dropped, in nanoseconds. It is
/// longer than a sleep and than packets wait in handoff queues.
const SETTLE: u64 = 200_000_000;

/// Ends and numbers of a received TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// Local and remote end.
    pub(super) ends: (Endpoint, Endpoint),
    /// Sequence and acknowledgement number.
    pub(super) numbers: (u32, u32),
    /// Whether it asks for a connection.
    pub(super) is_syn: bool,
}

impl Segment {
    /// The segment of a frame that starts with `head`; `None` if it has no complete TCP header.
    pub(super) fn of(head: &[u8]) -> Option<Self> {
        let layers = Layers::of(head).filter(|own| own.protocol == protocol::TCP && !own.is_fragment)?;
        let tcp = Tcp::new(head.get(layers.transport..)?)?;
        let (source, destination) = addresses(layers.addresses(head))?;
        let (from, to) = tcp.ports();
        let flags = tcp.flags();
        Some(Self {
            ends: (Endpoint::new(destination, to), Endpoint::new(source, from)),
            numbers: (tcp.sequence(), tcp.acknowledgement()),
            is_syn: flags.has(TcpFlags::SYN) && !flags.has(TcpFlags::ACK),
        })
    }
}

/// Source and destination of an IP header.
fn addresses(bytes: &[u8]) -> Option<(Address, Address)> {
    if let Some(([a, b, c, d], rest)) = bytes.split_first_chunk()
        && let Ok(to) = rest.try_into()
    {
        return Some((Address::v4([*a, *b, *c, *d]), Address::v4(to)));
    }
    let (from, rest) = bytes.split_first_chunk()?;
    Some((Address::v6(*from), Address::v6(rest.try_into().ok()?)))
}

/// Worker of a new flow, of `active` ones.
#[inline]
pub(crate) fn owner(hash: u32, active: usize) -> usize {
    let span = active.next_power_of_two();
    let at = hash as usize & (span - 1);
    if at < active { at } else { at & (span / 2 - 1) }
}

/// Workers that [`owner`] returns for `least` to `most` active ones, the greatest number first.
fn candidates(hash: u32, (least, most): (usize, usize)) -> impl Iterator<Item = usize> {
    let last = owner(hash, least);
    // A bit that is not set selects the same worker as the bits below it.
    let bits = (0..=most.next_power_of_two().ilog2()).rev();
    let bits = bits.filter(move |bits| *bits == 0 || hash >> (bits - 1) & 1 == 1);
    let workers = bits.map(move |bits| hash as usize & ((1 << bits) - 1));
    workers.skip_while(move |at| *at >= most).take_while(move |at| *at >= last)
}

/// The next worker for a segment whose connection worker `me` does not have. `is_taken` if another worker handed it
/// over. Returns `None` if no other worker can have it.
///
/// The order is: the active worker of the flow, then the other candidates with connections. It is the reverse for a
/// SYN, which the active worker accepts if no worker has a connection of the same ends.
#[inline]
fn next(
    hash: u32,
    (me, is_taken): (usize, bool),
    is_syn: bool,
    (active, range): (usize, (usize, usize)),
    holds: impl Fn(usize) -> bool,
) -> Option<usize> {
    let current = owner(hash, active);
    let mut others = candidates(hash, range).filter(|at| *at != current);
    match (is_taken, me == current) {
        (true, true) if is_syn => None,
        (true, false) => {
            let next = others.skip_while(|at| *at != me).skip(1).find(|at| holds(*at));
            next.or(is_syn.then_some(current))
        }
        (false, false) if !is_syn => Some(current),
        _ => {
            let first = others.find(|at| *at != me && holds(*at));
            first.or((is_syn && me != current).then_some(current))
        }
    }
}

/// One worker's view of the active ones.
#[derive(Debug)]
pub(super) struct Steer {
    activity: Arc<Activity>,
    active: usize,
    /// Time at which this worker saw the last change.
    changed: Time,
}

impl Steer {
    pub(super) fn new(activity: Arc<Activity>) -> Self {
        let active = activity.active();
        Self { activity, active, changed: Time(0) }
    }

    /// Takes over a change. Called for each burst.
    #[inline]
    pub(super) fn update(&mut self, now: Time) {
        let active = self.activity.active();
        if self.active != active {
            (self.active, self.changed) = (active, now);
        }
    }

    /// Worker of a new flow.
    #[inline]
    pub(super) fn owner(&self, hash: u32) -> usize {
        owner(hash, self.active)
    }

    /// See [`next`].
    #[inline]
    pub(super) fn next(&self, hash: u32, place: (usize, bool), is_syn: bool) -> Option<usize> {
        let number = (self.active, self.activity.range());
        next(hash, place, is_syn, number, |worker| self.activity.holds(worker))
    }

    /// Whether segments may be at a wrong worker because of a change.
    #[inline]
    pub(super) fn is_settling(&self, now: Time) -> bool {
        self.changed > Time(0) && now.0 - self.changed.0 < SETTLE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_more_worker_takes_flows_of_one_other_only() {
        for active in 1..32 {
            let moved = (0..1024).filter(|hash| owner(*hash, active) != owner(*hash, active + 1));
            let moved: Vec<_> = moved.map(|hash| (owner(hash, active), owner(hash, active + 1))).collect();
            assert!(!moved.is_empty() && moved.iter().all(|pair| *pair == (moved[0].0, active)), "{active}");
        }
    }

    #[test]
    fn candidates_are_the_owners_for_all_numbers_of_workers() {
        for (least, most) in [(1, 1), (1, 2), (1, 3), (2, 3), (3, 8), (1, 32), (5, 7)] {
            for hash in 0..256 {
                let mut expected: Vec<_> = (least..=most).map(|active| owner(hash, active)).collect();
                expected.sort_unstable();
                expected.dedup();
                let all: Vec<_> = candidates(hash, (least, most)).collect();
                assert!(all.is_sorted_by(|a, b| a > b) && all.len() <= 6, "{all:?}");
                assert!(expected.iter().eq(all.iter().rev()), "{least}..{most}, {hash}: {all:?}");
            }
        }
    }

    /// The workers at which a segment is, if it arrives at `me` and no worker has its connection.
    fn path(hash: u32, me: usize, is_syn: bool, number: (usize, (usize, usize)), held: u32) -> Vec<usize> {
        let holds = |worker: usize| held >> worker & 1 == 1;
        let mut all = vec![me];
        let mut place = (me, false);
        while let Some(at) = next(hash, place, is_syn, number, holds) {
            all.push(at);
            place = (at, true);
        }
        all
    }

    proptest! {
        /// Any worker that may have the connection is reached, and a worker at most twice: at arrival, and in order. A
        /// SYN ends at the active worker.
        #[test]
        fn a_segment_visits_every_candidate_with_connections_and_ends(
            hash: u32, me in 0..32_usize, least in 1..=32_usize, more in 0..32_usize, at in 0..32_usize, held: u32,
            is_syn: bool,
        ) {
            let range = (least, (least + more).min(32));
            let (me, active) = (me % range.1, range.0 + at % (range.1 - range.0 + 1));
            let all = path(hash, me, is_syn, (active, range), held);
            prop_assert!(all.contains(&owner(hash, active)));
            prop_assert!(!is_syn || all.last() == Some(&owner(hash, active)));
            for worker in candidates(hash, range).filter(|worker| held >> worker & 1 == 1) {
                prop_assert!(all.contains(&worker), "{} of {:?}", worker, all);
            }
            let mut later = all[1..].to_vec();
            later.sort_unstable();
            let len = later.len();
            later.dedup();
            prop_assert!(later.len() == len && len <= 7, "{:?}", all);
        }
    }

    #[test]
    fn segments_of_both_ip_versions_are_read() {
        let mut head = vec![2; 12];
        head.extend([8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        let tcp = [&[3, 232, 0, 80, 0, 0, 0, 5, 0, 0, 0, 6, 0x50, 2][..], &[0; 6]].concat();
        head.extend(&tcp);
        let end = |last, port| Endpoint::new(Address::v4([10, 0, 0, last]), port);
        let expected = Segment { ends: (end(2, 80), end(1, 1000)), numbers: (5, 6), is_syn: true };
        assert_eq!(Segment::of(&head), Some(expected));
        head[14 + 20 + 13] = 0x12;
        assert_eq!(Segment::of(&head).map(|segment| segment.is_syn), Some(false), "SYN-ACK");
        assert_eq!(Segment::of(&head[..14 + 20 + 19]), None, "incomplete");
        let mut head = vec![2; 12];
        head.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, 6, 64]);
        head.extend([[0xfd; 15], [0xfe; 15]].map(|address| [&address[..], &[1]].concat()).concat());
        head.extend(&tcp);
        let Some(Segment { ends: (local, remote), .. }) = Segment::of(&head) else { panic!("no segment") };
        assert_eq!((local.address.octets()[0], remote.address.octets()[0]), (0xfe, 0xfd));
    }
}
