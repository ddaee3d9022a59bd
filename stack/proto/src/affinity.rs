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

/// Place of a stack among those with the same addresses.
#[derive(Clone)]
pub struct Affinity {
    /// Number of this stack, below `of`.
    index: u16,
    of: u16,
    home: Option<Arc<Home>>,
}

impl Default for Affinity {
    /// A stack with addresses of its own.
    fn default() -> Self {
        Self { index: 0, of: 1, home: None }
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
        Self { index, of: of.max(1), home }
    }

    /// Number of the stack that may choose `port`, of `of` stacks; `None` if no stack chooses it.
    #[inline]
    pub fn owner(port: u16, of: u16) -> Option<u16> {
        (port >= *EPHEMERAL.start()).then(|| port % of.max(1))
    }

    /// A port for which `is_free` is true and whose replies from `remote` come home, or another own port if there is
    /// none. `first` selects the first port to try. Returns `None` if no own port is free.
    pub(crate) fn choose(
        &self,
        first: u16,
        local: Endpoint,
        remote: Option<Endpoint>,
        is_free: impl Fn(u16) -> bool,
    ) -> Option<u16> {
        let (start, n) = (*EPHEMERAL.start(), EPHEMERAL.len() as u16);
        let ports = (0..n).map(|i| start + (first % n + i) % n);
        let own = ports.filter(|port| Self::owner(*port, self.of) == Some(self.index));
        let is_home = |port: &u16| match (&self.home, remote) {
            (Some(home), Some(remote)) => home(Endpoint::new(local.address, *port), remote),
            _ => true,
        };
        let free = |port: &u16| is_free(*port);
        own.clone().filter(is_home).find(free).or_else(|| own.clone().find(free))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Address;
    use std::collections::HashSet;

    const LOCAL: Endpoint = Endpoint::new(Address::v4([10, 0, 0, 1]), 0);
    const REMOTE: Endpoint = Endpoint::new(Address::v4([10, 0, 0, 2]), 80);

    #[test]
    fn stacks_choose_disjoint_ports_and_together_all() {
        let mut all = HashSet::new();
        for index in 0..3 {
            let affinity = Affinity::new(index, 3, None);
            let mut taken = HashSet::new();
            while let Some(port) = affinity.choose(7_777, LOCAL, Some(REMOTE), |port| !taken.contains(&port))
            {
                assert_eq!(Affinity::owner(port, 3), Some(index));
                taken.insert(port);
            }
            assert!(all.is_disjoint(&taken));
            all.extend(taken);
        }
        assert_eq!((all.len(), Affinity::owner(80, 3)), (EPHEMERAL.len(), None));
    }

    /// Odd ports above 65,000.
    const HOMES: usize = 268;

    #[test]
    fn home_ports_are_preferred_but_not_required() {
        let home: Arc<Home> = Arc::new(|local, remote| local.port > 65_000 && remote == REMOTE);
        let affinity = Affinity::new(1, 2, Some(home));
        let mut taken = HashSet::new();
        for n in 0.. {
            let port = affinity.choose(n, LOCAL, Some(REMOTE), |port| !taken.contains(&port));
            let Some(port) = port else { break };
            assert_eq!(port > 65_000, taken.len() < HOMES, "{port} after {}", taken.len());
            taken.insert(port);
        }
        assert_eq!(taken.len(), EPHEMERAL.len() / 2);
        assert!(
            affinity.choose(0, LOCAL, None, |port| port < 50_000).is_some(),
            "a socket without remote end"
        );
    }
}
