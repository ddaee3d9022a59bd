//! State of bonds that workers read and control writes: atomics that change rarely. Each worker counts the load that it
//! sends in a block of its own.

use crate::hash::fold;
use crate::key::Key;
use crate::limit::Limiter;
use crate::protocols::PROTOCOL_RATE;
use mem::shim::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU64, Ordering};
use port::PortId;
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

/// Number of buckets of a bond. Loom explores two.
pub(super) const BUCKETS: usize = if cfg!(loom) { 2 } else { 256 };
/// Workers whose load is measured. The load that others send is not seen by rebalancing.
const MEASURED: usize = 256;
const NO_PORT: u16 = u16::MAX;

/// How the bucket of a packet is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hashing {
    /// All packets are in the first bucket.
    One,
    /// By source address and VLAN.
    Source,
    /// By flow, and by source address and VLAN for packets of no flow.
    Flow,
}

/// A bond.
pub(crate) struct Bond {
    /// Number of the bond.
    pub(crate) port: PortId,
    pub(crate) hashing: Hashing,
    buckets: [AtomicU16; BUCKETS],
    /// By number of the worker.
    loads: Box<[OnceLock<Box<Load>>]>,
    secret: [u64; 2],
}

/// Bytes by bucket that one worker has sent.
pub(crate) struct Load([AtomicU64; BUCKETS]);

impl Bond {
    pub(crate) fn new(port: PortId, hashing: Hashing) -> Self {
        let random = RandomState::new();
        // Odd multipliers lose no bits.
        Self::with_secret(port, hashing, [0, 1].map(|i| random.hash_one(i) | 1))
    }

    fn with_secret(port: PortId, hashing: Hashing, secret: [u64; 2]) -> Self {
        let buckets = std::array::from_fn(|_| AtomicU16::new(NO_PORT));
        let loads = (0..MEASURED).map(|_| OnceLock::new()).collect();
        Self { port, hashing, buckets, loads, secret }
    }

    /// The same bond with other buckets for its packets.
    pub(super) fn rehashed(&self, hashing: Hashing) -> Self {
        Self::with_secret(self.port, hashing, self.secret)
    }

    /// Bucket of a source.
    #[inline]
    pub(crate) fn of_source(&self, source: Key) -> u8 {
        (fold(source.bits() ^ self.secret[0], self.secret[1]) >> 8) as u8
    }

    /// Bucket of a flow hash.
    #[inline]
    pub(crate) fn of_flow(&self, hash: u32) -> u8 {
        (fold(u64::from(hash) ^ self.secret[0], self.secret[1]) >> 8) as u8
    }

    /// Member of a bucket; `None` if none can send.
    #[inline]
    pub(crate) fn member(&self, bucket: u8) -> Option<PortId> {
        let port = self.buckets[usize::from(bucket)].load(Ordering::Relaxed);
        (port != NO_PORT).then_some(PortId(port))
    }

    pub(super) fn set_member(&self, bucket: usize, port: Option<PortId>) {
        self.buckets[bucket].store(port.map_or(NO_PORT, |port| port.0), Ordering::Relaxed);
    }

    /// The block of a worker. Allocates it at first; a worker does so when it takes over a table with this bond.
    #[inline]
    pub(crate) fn load(&self, worker: usize) -> Option<&Load> {
        let load = || Box::new(Load(std::array::from_fn(|_| AtomicU64::new(0))));
        Some(self.loads.get(worker)?.get_or_init(load))
    }

    /// Bytes sent from a bucket by all workers.
    pub(super) fn sent(&self, bucket: usize) -> u64 {
        let loads = self.loads.iter().filter_map(OnceLock::get);
        loads.map(|load| load.0[bucket].load(Ordering::Relaxed)).sum()
    }
}

impl Load {
    /// Adds bytes to a bucket. Only the worker of this block may call it.
    #[inline]
    pub(crate) fn add(&self, bucket: u8, bytes: usize) {
        let counter = &self.0[usize::from(bucket)];
        counter.store(counter.load(Ordering::Relaxed).wrapping_add(bytes as u64), Ordering::Relaxed);
    }
}

/// Which packets a member of a bond accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// None, apart from LACPDUs.
    Nothing,
    /// All.
    All,
    /// Those whose source is not in use at another port; group addresses only on the active member, because the other
    /// end sends each such packet on every member.
    Unreflected {
        /// Whether this is the active member.
        is_active: bool,
    },
}

impl Admission {
    const ALL: [Self; 4] = [
        Self::Nothing,
        Self::All,
        Self::Unreflected { is_active: false },
        Self::Unreflected { is_active: true },
    ];
}

/// A port that is a member of a bond.
pub(crate) struct Link {
    /// Number of the bond.
    pub(crate) bond: PortId,
    /// Whether frames of slow protocols are for control.
    has_lacp: AtomicBool,
    /// Limit of these frames.
    pub(crate) limit: Limiter,
    /// Place in [`Admission::ALL`].
    admission: AtomicU8,
}

impl Link {
    pub(crate) fn new(bond: PortId, has_lacp: bool) -> Self {
        let (has_lacp, limit) = (AtomicBool::new(has_lacp), Limiter::new(PROTOCOL_RATE));
        Self { bond, has_lacp, limit, admission: AtomicU8::new(0) }
    }

    #[inline]
    pub(crate) fn has_lacp(&self) -> bool {
        self.has_lacp.load(Ordering::Relaxed)
    }

    pub(super) fn set_lacp(&self, has_lacp: bool) {
        self.has_lacp.store(has_lacp, Ordering::Relaxed);
    }

    /// Whether the member accepts frames to groups, so that frames of protocols of the bond count.
    pub(crate) fn accepts_groups(&self) -> bool {
        matches!(self.admission(), Admission::All | Admission::Unreflected { is_active: true })
    }

    #[inline]
    pub(crate) fn admission(&self) -> Admission {
        Admission::ALL[usize::from(self.admission.load(Ordering::Relaxed)) % Admission::ALL.len()]
    }

    pub(super) fn admit(&self, admission: Admission) {
        let place = Admission::ALL.iter().position(|known| *known == admission).unwrap_or(0);
        self.admission.store(place as u8, Ordering::Relaxed);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    const OLD: PortId = PortId(1);
    const NEW: PortId = PortId(2);

    /// A worker that sees a bucket at its new member never sees it at the old one again, and none without a member.
    #[test]
    fn loom_buckets_move_once() {
        loom::model(|| {
            let bond = Arc::new(Bond::new(PortId(0), Hashing::Source));
            (0..BUCKETS).for_each(|bucket| bond.set_member(bucket, Some(OLD)));
            let shared = bond.clone();
            let control = thread::spawn(move || (0..BUCKETS).for_each(|i| shared.set_member(i, Some(NEW))));
            let first = bond.member(0);
            let seen = [first, bond.member(1), bond.member(0)];
            assert!(seen.iter().all(|member| [Some(OLD), Some(NEW)].contains(member)), "{seen:?}");
            assert!(first == Some(OLD) || seen[2] == Some(NEW), "{seen:?}");
            control.join().unwrap();
            assert_eq!((bond.member(0), bond.member(1)), (Some(NEW), Some(NEW)));
        });
    }

    /// Two workers count in blocks of their own, and control reads sums that never fall.
    #[test]
    fn loom_no_load_is_lost() {
        loom::model(|| {
            let bond = Arc::new(Bond::new(PortId(0), Hashing::Source));
            let worker = |index: usize| {
                let bond = bond.clone();
                thread::spawn(move || bond.load(index).unwrap().add(1, 100))
            };
            let workers = [worker(0), worker(1)];
            let earlier = bond.sent(1);
            assert!(bond.sent(1) >= earlier);
            workers.into_iter().for_each(|worker| worker.join().unwrap());
            assert_eq!((bond.sent(0), bond.sent(1)), (0, 200));
        });
    }

    /// A worker reads an admission that control has written, never another one.
    #[test]
    fn loom_admission_is_old_or_new() {
        loom::model(|| {
            let link = Arc::new(Link::new(PortId(0), true));
            let shared = link.clone();
            let control = thread::spawn(move || shared.admit(Admission::Unreflected { is_active: true }));
            let seen = link.admission();
            let new = Admission::Unreflected { is_active: true };
            assert!([Admission::Nothing, new].contains(&seen), "{seen:?}");
            control.join().unwrap();
            assert!(link.accepts_groups());
        });
    }
}
