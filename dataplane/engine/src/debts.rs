//! What ports owe for work that was done for their packets behind a handoff queue.
//!
//! A handoff queue carries packets of many ports in one order, so a stage behind it cannot serve ports by what they cost it, as a
//! stage with ports' own queues does ([`crate::worker`]). It charges the port instead: what a burst costs behind a handoff queue,
//! beyond what its port was charged for it in front, is added to the port's debt, and the stage that takes the port's
//! packets adds that to the meters of the port's queues before their next turn. A burst that goes to one output as it is
//! costs the same on either side and leaves no debt.
//!
//! A debt is settled late, by what handoff queues hold. So beside it stands the highest price, what a packet of the port was found to
//! cost beyond what was charged, as soon as it was known where a burst goes: the stage in front lets no more packets into a
//! handoff queue than are a turn's work at that price.
//!
//! Protocol: a debt only grows; those that charge add to it with `Relaxed`, because nothing else is published with it, and
//! each stage that takes packets remembers how much of it it has settled. A price is a hint: the first stage that settles
//! takes it, and where it is missed the next expensive burst brings it again.

use mem::line::Padded;
use mem::shim::atomic::{AtomicU64, Ordering};
use port::PortId;

/// What one port owes, in units of work ([`port::work`]).
#[derive(Debug, Default)]
struct Debt {
    /// Since the start.
    owed: AtomicU64,
    /// A packet's: the highest since it was taken last.
    price: AtomicU64,
}

/// By port.
#[derive(Debug)]
pub(crate) struct Debts(Box<[Padded<Debt>]>);

impl Debts {
    /// For ports with numbers below `ports`, and for handoff queues, which owe nothing.
    pub(crate) fn new(ports: usize) -> Self {
        Self((0..=ports).map(|_| Padded(Debt::default())).collect())
    }

    /// Work beyond what was charged in front was done for packets of `port`, of which each costs `price` beyond.
    #[cold]
    pub(crate) fn charge(&self, port: PortId, units: u64, price: u64) {
        let debt = self.at(port);
        debt.price.fetch_max(price, Ordering::Relaxed);
        // A price alone is to be noticed, too.
        debt.owed.fetch_add(units.max(1), Ordering::Relaxed);
    }

    /// All that was ever charged to `port`.
    #[inline(always)]
    pub(crate) fn of(&self, port: PortId) -> u64 {
        self.at(port).owed.load(Ordering::Relaxed)
    }

    /// Takes the highest price of a packet of `port`; 0 without a new one.
    pub(crate) fn take_price(&self, port: PortId) -> u64 {
        self.at(port).price.swap(0, Ordering::Relaxed)
    }

    #[inline(always)]
    fn at(&self, port: PortId) -> &Debt {
        &self.0[usize::from(port.0).min(self.0.len() - 1)].0
    }
}
