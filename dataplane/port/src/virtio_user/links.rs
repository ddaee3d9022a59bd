//! Links between the buffers of frames that are longer than one buffer, kept until the back end has used all of them.
//!
//! A chain returns under the identifier of its first buffer only, so the others are recorded here. Not read while no
//! frame spans buffers.

/// No next buffer. Rings are shorter than this.
const LAST: u16 = u16::MAX;

/// For each buffer, the next one of its frame.
pub(super) struct Links {
    next: Box<[u16]>,
    /// Number of buffers that have a next one.
    set: usize,
}

impl Links {
    pub(super) fn new(size: u16) -> Self {
        Self { next: vec![LAST; size.into()].into(), set: 0 }
    }

    /// Restores the links from `next`, indexed by buffer; no links if `next` is empty. Returns `None` unless the
    /// frames that begin with buffers `first` have distinct buffers, and these are all that have links. Otherwise
    /// also returns whether each buffer belongs to such a frame.
    pub(super) fn thaw(
        next: Vec<u16>,
        size: u16,
        first: impl Iterator<Item = u16>,
    ) -> Option<(Self, Vec<bool>)> {
        let mut taken = vec![false; size.into()];
        let links = if next.is_empty() {
            Self::new(size)
        } else {
            let set = next.iter().filter(|&&id| id != LAST).count();
            Self { next: next.into(), set }
        };
        let mut followed = 0;
        for first in first {
            let mut id = first;
            loop {
                // A buffer visited twice belongs to two frames, or its frame is a loop.
                if std::mem::replace(taken.get_mut(usize::from(id))?, true) {
                    return None;
                }
                id = *links.next.get(usize::from(id))?;
                if id == LAST {
                    break;
                }
                followed += 1;
            }
        }
        (links.next.len() == usize::from(size) && followed == links.set).then_some((links, taken))
    }

    /// Next buffers, indexed by buffer; empty if there are no links.
    pub(super) fn freeze(&self) -> Vec<u16> {
        if self.are_set() { self.next.to_vec() } else { Vec::new() }
    }

    /// Whether any frame spans buffers.
    #[inline(always)]
    pub(super) fn are_set(&self) -> bool {
        self.set > 0
    }

    /// Links `next` after buffer `id`, which is the last buffer of its frame so far.
    pub(super) fn set(&mut self, id: u16, next: u16) {
        self.next[usize::from(id)] = next;
        self.set += 1;
    }

    /// Removes and returns the buffer after `id`.
    pub(super) fn take(&mut self, id: u16) -> Option<u16> {
        let next = std::mem::replace(&mut self.next[usize::from(id)], LAST);
        if next == LAST {
            return None;
        }
        self.set -= 1;
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chain_is_followed_and_released_buffer_by_buffer() {
        let mut links = Links::new(4);
        assert!(!links.are_set());
        links.set(2, 0);
        links.set(0, 3);
        assert_eq!((links.take(2), links.take(0), links.take(3)), (Some(0), Some(3), None));
        assert!(!links.are_set());
    }

    #[test]
    fn links_resume_from_frozen_state_unless_shared() {
        let mut links = Links::new(4);
        links.set(2, 0);
        links.set(0, 3);
        let next = links.freeze();
        let thaw = |next: &[u16], first: &[u16]| Links::thaw(next.to_vec(), 4, first.iter().copied());
        let (mut again, taken) = thaw(&next, &[2]).unwrap();
        assert_eq!(taken, [true, false, true, true]);
        assert_eq!((again.take(2), again.take(0), again.take(3)), (Some(0), Some(3), None));
        assert!(again.freeze().is_empty());
        assert!(
            thaw(&[], &[1, 3])
                .is_some_and(|(links, taken)| !links.are_set() && taken == [false, true, false, true])
        );
        for (next, first) in [
            (&next[..], &[2, 3][..]),
            (&next, &[1]),
            (&next[..3], &[2]),
            (&[1, 0, LAST, LAST], &[0]),
            (&[9, LAST, LAST, LAST], &[0]),
            (&[], &[4]),
        ] {
            assert!(thaw(next, first).is_none(), "{next:?} {first:?}");
        }
    }
}
