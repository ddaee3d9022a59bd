//! Connections that entries of the kernel fast path depend on: numbers of their watches.

use port::af_xdp::ConnectionEpoch;
use std::collections::BTreeMap;

/// Numbers in use, each with its number of entries: there may be one for each direction.
#[derive(Default)]
pub(super) struct Connections(BTreeMap<ConnectionEpoch, usize>);

impl Connections {
    /// A number that is not in use.
    pub(super) fn free(&self) -> Option<ConnectionEpoch> {
        ConnectionEpoch::all().find(|number| !self.0.contains_key(number))
    }

    /// Adds an entry.
    pub(super) fn hold(&mut self, number: ConnectionEpoch) {
        *self.0.entry(number).or_default() += 1;
    }

    /// Removes an entry. Returns whether it was the last one of its connection.
    pub(super) fn release(&mut self, number: ConnectionEpoch) -> bool {
        let Some(entries) = self.0.get_mut(&number) else { return false };
        *entries -= 1;
        let is_last = *entries == 0;
        if is_last {
            self.0.remove(&number);
        }
        is_last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_free_again_after_their_last_entry() {
        let mut connections = Connections::default();
        let one = connections.free().unwrap();
        connections.hold(one);
        connections.hold(one);
        assert_ne!(connections.free(), Some(one));
        assert!(!connections.release(one) && connections.release(one) && !connections.release(one));
        assert_eq!(connections.free(), Some(one));
    }
}
