//! The private state of a driver's ring as plain data, so that another queue, also of another process, continues the
//! ring over the same memory: [`DriverRing::freeze`](super::DriverRing::freeze) and
//! [`DriverRing::thaw`](super::DriverRing::thaw).
//!
//! The state is trusted less than the ring's own fields: it may have been stored or sent. [`DriverState::validate`]
//! checks it against the ring, so that an invalid one is an error and never a panic or a lost descriptor.

use super::{Outstanding, Used};
use crate::{Layout, RingFault};

/// State of a stopped driver ring. Every posted buffer is published.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverState {
    /// Position behind the last posted buffer. Split: available index. Packed: index, and the wrap counter in bit 15.
    pub posted: u16,
    /// Position of the next used buffer, encoded likewise.
    pub taken: u16,
    /// By identifier: descriptors of the outstanding chain in the upper half, its device-writable bytes in the lower; 0
    /// if not outstanding.
    pub out: Vec<u64>,
    /// By ring index: identifier posted there last. Used by in-order rings, and by split rings for what need not be
    /// written again.
    pub order: Vec<u16>,
    /// Split rings, by index: contents of the descriptors, as address and the word of length, flags and next. Empty on
    /// packed rings.
    pub descriptors: Vec<(u64, u64)>,
    /// In order: last buffer of a batch whose earlier buffers were not all reclaimed.
    pub batch: Option<Used>,
}

impl DriverState {
    /// Whether a chain that begins with buffer `id` is outstanding.
    pub fn is_out(&self, id: u16) -> bool {
        self.out.get(usize::from(id)).is_some_and(|&out| out != 0)
    }

    /// Checks the state against a ring. Returns the numbers of outstanding chains and descriptors.
    pub(super) fn validate(&self, layout: &Layout) -> Result<(u32, u32), RingFault> {
        let (size, in_range) = (usize::from(layout.size), |id: &u16| *id < layout.size);
        if self.out.len() != size || self.order.len() != size || !self.order.iter().all(in_range) {
            return Err(RingFault::State("it is of a ring of another size"));
        }
        let out = self.out.iter().filter(|&&out| out > 0).map(|out| out >> 32);
        let (chains, descriptors) = out.clone().fold((0, 0), |(n, sum), more| (n + 1, sum + more));
        if out.clone().any(|n| n == 0) || descriptors > size as u64 {
            return Err(RingFault::State("more descriptors are outstanding than the ring has"));
        }
        if self.batch.is_some_and(|last| !layout.in_order || !self.is_out(last.id)) {
            return Err(RingFault::State("the batch ends with a buffer that is not outstanding"));
        }
        Ok((chains, descriptors as u32))
    }

    /// In-order rings: checks that walking the posting order meets each outstanding chain once. `step`: ring index
    /// behind a chain of so many descriptors.
    pub(super) fn validate_order(
        &self,
        mut at: usize,
        step: impl Fn(usize, u32) -> usize,
    ) -> Result<(), RingFault> {
        let mut out = self.out();
        for _ in 0..out.iter().filter(|out| !out.is_none()).count() {
            let chain = std::mem::replace(&mut out[usize::from(self.order[at])], Outstanding::NONE);
            if chain.is_none() {
                return Err(RingFault::State("the posting order names a buffer that is not outstanding"));
            }
            at = step(at, chain.descriptors());
        }
        Ok(())
    }

    pub(super) fn out(&self) -> Vec<Outstanding> {
        self.out.iter().map(|&out| Outstanding(out)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DriverRing, Packed, Post, Split};
    use super::*;
    use crate::Direction;
    use crate::mock::{BUFFERS, Mock, Shape};

    fn frozen<R: DriverRing>(packed: bool) -> (Mock, DriverState) {
        let mock = Mock::new(Shape { packed, size: 8, in_order: true, event_idx: false, indirect: false });
        let mut ring = R::new(&mock.layout, &mock.map).unwrap();
        (0..3).for_each(|id| ring.post(Post { id, address: BUFFERS, len: 16, direction: Direction::Write }));
        let state = ring.freeze();
        (mock, state)
    }

    /// Each of these changes makes the state invalid.
    const CHANGES: [fn(&mut DriverState); 10] = [
        |state| state.posted += 1,
        |state| state.taken += 1,
        |state| state.posted = 0x7fff,
        |state| state.out[7] = 1 << 32,
        |state| state.out[0] = 0,
        |state| state.out[0] = 9 << 32,
        |state| state.out[0] = 16,
        |state| state.order[1] = 0,
        |state| state.order[1] = 8,
        |state| state.batch = Some(Used { id: 5, len: 0 }),
    ];

    fn is_checked<R: DriverRing>(packed: bool) {
        let (mock, state) = frozen::<R>(packed);
        assert!((0..8).map(|id| state.is_out(id)).eq((0..8).map(|id| id < 3)));
        assert_eq!(R::thaw(&mock.layout, &mock.map, &state).map(|ring| ring.free()).unwrap(), 5);
        for (number, change) in CHANGES.iter().enumerate() {
            let mut bad = state.clone();
            change(&mut bad);
            let thawed = R::thaw(&mock.layout, &mock.map, &bad).map(|_| ());
            assert!(matches!(thawed, Err(RingFault::State(_))), "{number}: {thawed:?}");
        }
        let (_, other) = if packed { frozen::<Split>(false) } else { frozen::<Packed>(true) };
        assert!(R::thaw(&mock.layout, &mock.map, &other).is_err(), "it is of the other kind of ring");
    }

    #[test]
    fn an_invalid_state_is_refused() {
        is_checked::<Split>(false);
        is_checked::<Packed>(true);
    }
}
