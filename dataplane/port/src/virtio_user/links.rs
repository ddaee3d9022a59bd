//! Frames that are longer than a buffer: which buffer follows which, until the back end is done with all of them.
//!
//! A chain comes back under the identifier of its first buffer alone, so the others are remembered here. Where no frame
//! spans buffers nothing of it is read.

/// No buffer follows. Rings are shorter than that.
const LAST: u16 = u16::MAX;

/// By buffer, the one that follows it in its frame.
pub(super) struct Links {
    next: Box<[u16]>,
    /// How many buffers have another one behind them.
    set: usize,
}

impl Links {
    pub(super) fn new(size: u16) -> Self {
        Self { next: vec![LAST; size.into()].into(), set: 0 }
    }

    /// Whether any frame spans buffers.
    #[inline(always)]
    pub(super) fn are_set(&self) -> bool {
        self.set > 0
    }

    /// Buffer `next` follows buffer `id`, which is the last one so far.
    pub(super) fn set(&mut self, id: u16, next: u16) {
        self.next[usize::from(id)] = next;
        self.set += 1;
    }

    /// Forgets what follows buffer `id`, and says what that was.
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
    fn a_chain_is_followed_and_forgotten_buffer_by_buffer() {
        let mut links = Links::new(4);
        assert!(!links.are_set());
        links.set(2, 0);
        links.set(0, 3);
        assert_eq!((links.take(2), links.take(0), links.take(3)), (Some(0), Some(3), None));
        assert!(!links.are_set());
    }
}
