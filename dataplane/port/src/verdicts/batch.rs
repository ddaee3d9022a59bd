//! Emissions to one port: indices into a burst, and the edit of each.

use crate::edit::EditId;
use crate::{BURST, PLACES, PortId};
use std::ops::Range;

/// Up to 64 indices into a burst, in order.
#[derive(Clone, Copy, Debug)]
pub struct Indices {
    /// First index of a run; [`LISTED`] if the indices are in `list`.
    pub(super) first: u8,
    pub(super) n: u8,
    list: [u8; BURST],
}

const LISTED: u8 = u8::MAX;

impl Indices {
    /// No indices.
    pub const EMPTY: Indices = Indices { first: 0, n: 0, list: [0; BURST] };

    /// Indices as a slice.
    #[inline(always)]
    pub fn as_slice(&self) -> &[u8] {
        let (first, n) = (usize::from(self.first), usize::from(self.n));
        if self.first == LISTED { &self.list[..n] } else { &PLACES[first..first + n] }
    }

    /// Whether there are no indices.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// Appends an index below [`BURST`]. There must be fewer than [`BURST`] indices.
    #[inline(always)]
    pub fn push(&mut self, i: u8) {
        debug_assert!(usize::from(i) < BURST && usize::from(self.n) < BURST);
        if self.n == 0 {
            self.first = i;
        } else if self.first == LISTED || self.first + self.n != i {
            self.push_listed(i);
        }
        self.n += 1;
    }

    /// [`Indices::push`] for an index that does not continue a run.
    #[inline]
    fn push_listed(&mut self, i: u8) {
        if self.first != LISTED {
            self.list_run();
        }
        self.list[usize::from(self.n) % BURST] = i;
    }

    #[cold]
    fn list_run(&mut self) {
        let (first, n) = (usize::from(self.first), usize::from(self.n));
        self.list[..n].copy_from_slice(&PLACES[first..first + n]);
        self.first = LISTED;
    }
}

/// Emissions to one port.
#[derive(Clone, Copy, Debug)]
pub struct Batch {
    pub(super) to: PortId,
    pub(super) indices: Indices,
    /// Whether `edits` is valid.
    pub(super) edited: bool,
    edits: [EditId; BURST],
}

impl Batch {
    pub(super) const EMPTY: Batch =
        Batch { to: PortId(0), indices: Indices::EMPTY, edited: false, edits: [EditId::NONE; BURST] };

    /// An empty batch for `to`.
    pub fn new(to: PortId) -> Self {
        Self { to, ..Self::EMPTY }
    }

    /// Appends an emission. There must be fewer than [`BURST`].
    #[inline(always)]
    pub fn push(&mut self, i: u8, edit: EditId) {
        if self.edited || edit != EditId::NONE {
            self.set_edit(edit);
        }
        self.indices.push(i);
    }

    /// Makes `run`, of at most [`BURST`] packets, the emissions of an empty batch.
    #[inline(always)]
    pub(super) fn fill(&mut self, run: Range<usize>, edit: EditId) {
        (self.indices.first, self.indices.n) = (run.start as u8, run.len() as u8);
        if edit != EditId::NONE {
            self.edited = true;
            self.edits[..run.len()].fill(edit);
        }
    }

    /// Edit of emission `place`.
    #[inline(always)]
    pub fn edit(&self, place: usize) -> EditId {
        if self.edited { self.edits[place % BURST] } else { EditId::NONE }
    }

    /// Output port.
    #[inline(always)]
    pub fn port(&self) -> PortId {
        self.to
    }

    /// Packets to emit.
    #[inline(always)]
    pub fn indices(&self) -> &Indices {
        &self.indices
    }

    /// Whether any emission may have an edit.
    #[inline(always)]
    pub fn is_edited(&self) -> bool {
        self.edited
    }

    #[inline]
    fn set_edit(&mut self, edit: EditId) {
        if !std::mem::replace(&mut self.edited, true) {
            self.edits = [EditId::NONE; BURST];
        }
        self.edits[usize::from(self.indices.n) % BURST] = edit;
    }
}
