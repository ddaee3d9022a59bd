//! Debts: work done behind a handoff queue, charged to the port that the packets came from.
//!
//! A handoff queue carries packets of many ports in one order, so the stage behind it cannot schedule ports by cost,
//! as a stage with receive queues of ports does ([`crate::worker`]). It charges the port instead: the cost of a burst
//! behind the handoff queue, beyond the cost charged in front, is added to the port's debt. The stage that receives
//! the port's packets adds the debt to the meters of the port's queues before their next turn. A burst forwarded
//! unchanged to one output costs the same on both sides and causes no debt.
//!
//! A debt is settled late, by the packets that the handoff queues hold. The price bounds that: it is the highest cost
//! of a packet of the port beyond the charge in front, published as soon as the destination of a burst is known. The
//! stage in front admits no more packets to a handoff queue than cost one turn at that price.
//!
//! Protocol: a debt only grows. Charges add to it with `Relaxed`, because no other data is published with it, and
//! each stage that receives packets records how much of it it has settled. A price is a hint: the first stage that
//! settles takes it, and the next expensive burst sets it again.

use mem::line::Padded;
use mem::shim::atomic::{AtomicU64, Ordering};
use port::PortId;

/// Debt of one port, in units of work ([`port::work`]).
#[derive(Debug, Default)]
struct WorkDebt {
    /// Total since start.
    owed: AtomicU64,
    /// Highest price of one packet since it was last taken.
    price: AtomicU64,
}

/// Debts by port.
#[derive(Debug)]
pub(crate) struct WorkDebts(Box<[Padded<WorkDebt>]>);

impl WorkDebts {
    /// For ports with numbers below `ports`. Handoff queues share one more entry, which stays zero.
    pub(crate) fn new(ports: usize) -> Self {
        Self((0..=ports).map(|_| Padded(WorkDebt::default())).collect())
    }

    /// Charges `port` with `units` of work beyond the charge in front, at `price` per packet.
    #[cold]
    pub(crate) fn charge(&self, port: PortId, units: u64, price: u64) {
        let debt = self.at(port);
        debt.price.fetch_max(price, Ordering::Relaxed);
        // At least one unit, so that a change of the price alone is noticed.
        debt.owed.fetch_add(units.max(1), Ordering::Relaxed);
    }

    /// Total debt ever charged to `port`.
    #[inline(always)]
    pub(crate) fn of(&self, port: PortId) -> u64 {
        self.at(port).owed.load(Ordering::Relaxed)
    }

    /// Takes the highest price of a packet of `port`; 0 if there is no new one.
    pub(crate) fn take_price(&self, port: PortId) -> u64 {
        self.at(port).price.swap(0, Ordering::Relaxed)
    }

    #[inline(always)]
    fn at(&self, port: PortId) -> &WorkDebt {
        &self.0[usize::from(port.0).min(self.0.len() - 1)].0
    }
}
