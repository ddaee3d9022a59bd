//! What ports owe for work that was done for their packets behind a hop.
//!
//! A hop carries packets of many ports in one order, so a stage behind it cannot serve ports by what they cost it, as a
//! stage with ports' own queues does ([`crate::worker`]). It charges the port instead: what a burst costs behind a hop,
//! beyond what its port was charged for it in front, is added to the port's debt, and the stage that takes the port's
//! packets adds that to the meters of the port's queues before their next turn. A burst that goes to one output as it is
//! costs the same on either side and leaves no debt.
//!
//! Protocol: a debt only grows; those that charge add to it with `Relaxed`, because nothing else is published with it, and
//! each stage that takes packets remembers how much of it it has settled. A debt that is seen late is settled late, by as
//! much as hops hold.

use mem::line::Padded;
use mem::shim::atomic::{AtomicU64, Ordering};
use port::PortId;

/// By port, units of work ([`port::work`]) since the start.
#[derive(Debug)]
pub(crate) struct Debts(Box<[Padded<AtomicU64>]>);

impl Debts {
    /// For ports with numbers below `ports`, and for the number of hops' own queues, which owe nothing.
    pub(crate) fn new(ports: usize) -> Self {
        Self((0..=ports).map(|_| Padded(AtomicU64::new(0))).collect())
    }

    /// Work beyond what was charged in front was done for packets of `port`.
    #[cold]
    pub(crate) fn charge(&self, port: PortId, units: u64) {
        self.0[usize::from(port.0)].0.fetch_add(units, Ordering::Relaxed);
    }

    /// All that was ever charged to `port`.
    #[inline(always)]
    pub(crate) fn of(&self, port: PortId) -> u64 {
        self.0[usize::from(port.0)].0.load(Ordering::Relaxed)
    }
}
