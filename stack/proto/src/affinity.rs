//! Affinity: which ephemeral ports belong to a stack that has its addresses in common with others, one on each core.
//!
//! A port that a stack chooses for itself names the stack by its remainder, so every core can tell the owner of a
//! reply from the destination port alone ("Scalable Kernel TCP Design and Implementation for Short-Lived Connections",
//! Lin et al., 2016). If the caller knows how the link distributes replies, a port is preferred whose replies arrive at
//! the stack's own core.

use crate::Endpoint;
use alloc::sync::Arc;
use core::fmt;
use core::ops::RangeInclusive;

/// Ports that a stack chooses (RFC 6335 section 6).
pub(crate) const EPHEMERAL: RangeInclusive<u16> = 49_152..=65_535;

/// Whether replies from a remote end (second) to a local end (first) arrive at the stack's own core.
pub type Home = dyn Fn(Endpoint, Endpoint) -> bool + Send + Sync;

/// Number of the stack to which segments from a remote end (second) to a local end (first) with a port that no stack
/// chooses belong.
pub type Flows = dyn Fn(Endpoint, Endpoint) -> u16 + Send + Sync;

/// Place of a stack among those with the same addresses.
#[derive(Clone)]
pub struct Affinity {
    /// Number of this stack, below `of`.
    index: u16,
    of: u16,
    home: Option<Arc<Home>>,
    flows: Option<Arc<Flows>>,
}

impl Default for Affinity {
    /// A stack with addresses of its own.
    fn default() -> Self {
        Self { index: 0, of: 1, home: None, flows: None }
    }
}

impl fmt::Debug for Affinity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Affinity({} of {}, home: {})", self.index, self.of, self.home.is_some())
    }
}

impl Affinity {
    /// Stack `index` of `of`. Without `home` every own port counts as home.
    pub fn new(index: u16, of: u16, home: Option<Arc<Home>>) -> Self {
        Self { index, of: of.max(1), home, flows: None }
    }

    /// The same place, with the owner of flows whose local port the caller of `connect` chooses.
    #[must_use]
    pub fn with_flows(self, flows: Option<Arc<Flows>>) -> Self {
        Self { flows, ..self }
    }

    /// Whether other stacks have the same addresses.
    pub(crate) fn is_shared(&self) -> bool {
        self.of > 1
    }

    /// Whether this is the first of the stacks with the same addresses.
    pub(crate) fn is_first(&self) -> bool {
        self.index == 0
    }

    /// Number of the stack that may choose `port`, of `of` stacks; `None` if no stack chooses it.
    #[inline]
    pub fn owner(port: u16, of: u16) -> Option<u16> {
        (port >= *EPHEMERAL.start()).then(|| port % of.max(1))
    }

    /// Number of the stack to which segments from `remote` to `local` belong; `None` if it is unknown.
    pub(crate) fn owner_of_flow(&self, local: Endpoint, remote: Endpoint) -> Option<u16> {
        if !self.is_shared() {
            return Some(self.index);
        }
        Self::owner(local.port, self.of).or_else(|| Some(self.flows.as_ref()?(local, remote)))
    }

    /// Number of the other stack to which packets from `remote` to `local` belong; `None` if they belong to this one,
    /// or their owner is unknown.
    pub(crate) fn other_owner(&self, local: Endpoint, remote: Endpoint) -> Option<u16> {
        self.owner_of_flow(local, remote).filter(|owner| *owner != self.index)
    }

    /// Whether segments from `remote` to `local` belong to this stack; true if their owner is unknown.
    pub fn owns(&self, local: Endpoint, remote: Endpoint) -> bool {
        self.owner_of_flow(local, remote).is_none_or(|owner| owner == self.index)
    }

    /// A port for which `is_free` is true and whose replies from `remote` come home, or another own port if none is
    /// among those tested. `first` and `cursor` select the first port to try; the cursor advances by the ports tested,
    /// so that the next call continues (RFC 6056 section 3.3.3). Returns `None` if none of `tries` ports is free.
    pub(crate) fn choose(
        &self,
        (first, cursor, tries): (u16, &mut u16, u16),
        local: Endpoint,
        remote: Option<Endpoint>,
        is_free: impl Fn(u16) -> bool,
    ) -> Option<u16> {
        let (start, end, of) = (*EPHEMERAL.start(), *EPHEMERAL.end(), self.of);
        let lowest = start + (self.index % of + of - start % of) % of;
        let own = (end - lowest) / of + 1;
        let is_home = |port: u16| match (&self.home, remote) {
            (Some(home), Some(remote)) => home(Endpoint::new(local.address, port), remote),
            _ => true,
        };
        let mut found = None;
        for _ in 0..tries.min(own) {
            let port = lowest + first.wrapping_add(*cursor) % own * of;
            *cursor = cursor.wrapping_add(1);
            let is_better = is_home(port);
            if (is_better || found.is_none()) && is_free(port) {
                found = Some(port);
                if is_better {
                    break;
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Address;
    use std::cell::Cell;
    use std::collections::HashSet;

    const LOCAL: Endpoint = Endpoint::new(Address::v4([10, 0, 0, 1]), 0);
    const REMOTE: Endpoint = Endpoint::new(Address::v4([10, 0, 0, 2]), 80);

    #[test]
    fn stacks_choose_disjoint_ports_and_together_all() {
        let mut all = HashSet::new();
        for index in 0..3 {
            let (affinity, mut cursor) = (Affinity::new(index, 3, None), 60_000);
            let mut taken = HashSet::new();
            while let Some(port) =
                affinity.choose((7_777, &mut cursor, 256), LOCAL, Some(REMOTE), |port| !taken.contains(&port))
            {
                assert_eq!(Affinity::owner(port, 3), Some(index));
                taken.insert(port);
            }
            assert!(all.is_disjoint(&taken));
            all.extend(taken);
        }
        assert_eq!((all.len(), Affinity::owner(80, 3)), (EPHEMERAL.len(), None));
    }

    #[test]
    fn flows_have_an_owner() {
        let chosen = Endpoint::new(LOCAL.address, 1000);
        assert_eq!(Affinity::default().owner_of_flow(chosen, REMOTE), Some(0));
        let shared = Affinity::new(1, 3, None);
        assert_eq!(shared.owner_of_flow(chosen, REMOTE), None);
        let shared = shared.with_flows(Some(Arc::new(|local, remote| (local.port + remote.port) % 3)));
        assert_eq!(shared.owner_of_flow(chosen, REMOTE), Some(0));
        let ephemeral = Endpoint::new(LOCAL.address, 50_000);
        assert_eq!(shared.owner_of_flow(ephemeral, REMOTE), Affinity::owner(50_000, 3));
        let owns = |index| {
            let flows: Arc<Flows> = Arc::new(|_, _| 0);
            Affinity::new(index, 3, None).with_flows(Some(flows)).owns(chosen, REMOTE)
        };
        assert_eq!([0, 1].map(owns), [true, false]);
        assert!(Affinity::new(1, 3, None).owns(chosen, REMOTE));
    }

    #[test]
    fn the_work_of_a_call_is_bounded_and_the_next_call_continues() {
        let (affinity, mut cursor, tested) = (Affinity::default(), 0, Cell::new(0));
        let mut choose = |is_free: &dyn Fn(u16) -> bool| {
            tested.set(0);
            let port = affinity.choose((0, &mut cursor, 256), LOCAL, Some(REMOTE), |port| {
                tested.set(tested.get() + 1);
                is_free(port)
            });
            (port, tested.get())
        };
        assert_eq!(choose(&|_| false), (None, 256));
        let calls = (0..EPHEMERAL.len() as u16 / 256).find(|_| choose(&|port| port == 65_535).0.is_some());
        assert!(calls.is_some(), "the only free port is found after some calls");
        assert_eq!(choose(&|_| true).1, 1);
    }

    #[test]
    fn home_ports_are_preferred_but_not_required() {
        let home: Arc<Home> = Arc::new(|local, remote| local.port % 8 == 1 && remote == REMOTE);
        let (affinity, mut cursor) = (Affinity::new(1, 2, Some(home)), 0);
        let mut taken = HashSet::new();
        while let Some(port) =
            affinity.choose((0, &mut cursor, 256), LOCAL, Some(REMOTE), |port| !taken.contains(&port))
        {
            // A quarter of the own ports is home.
            assert_eq!(port % 8 == 1, taken.len() < EPHEMERAL.len() / 8, "{port} after {}", taken.len());
            taken.insert(port);
        }
        assert!(taken.len() > EPHEMERAL.len() / 8);
        assert!(
            affinity.choose((0, &mut 0, 1), LOCAL, None, |_| true).is_some(),
            "a socket without remote end"
        );
    }
}
