//! Coherence directory: the rights to every line of the arena, one record per line.
//!
//! Invariants: an exclusive line has one sharer, its owner; a core is a sharer exactly while the line is in its
//! second-level cache. An acquired line stays until `held`: earlier requests are served at that time, and until then
//! the losing core may use the line (the core's `graces`).

use super::Time;

/// No core.
pub(super) const NO_CORE: u8 = u8::MAX;

/// Directory record of one line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    /// Bit mask of the cores that have a copy
    pub(super) sharers: u32,
    /// Core that supplies the line: writer, forwarder, or `NO_CORE`
    pub(super) owner: u8,
    /// The owner has the only copy and may write
    pub(super) exclusive: bool,
    /// The owner's bytes are newer than memory's
    pub(super) dirty: bool,
    /// Core that acquired it last; the line cannot be taken before `held`
    pub(super) winner: u8,
    pub(super) held: Time,
    /// Time from which the owner may write
    pub(super) owned_from: Time,
    /// The owner requested the line for writing
    pub(super) for_writing: bool,
    /// Number of visible stores to the line
    pub(super) version: u32,
}

impl Line {
    const UNTOUCHED: Line = Line {
        sharers: 0,
        owner: 0,
        exclusive: false,
        dirty: false,
        winner: 0,
        held: 0,
        owned_from: 0,
        for_writing: false,
        version: 0,
    };

    /// Whether the core may write.
    pub(super) fn owned_by(&self, core: usize) -> bool {
        self.exclusive && usize::from(self.owner) == core
    }

    pub(super) fn shared_by(&self, core: usize) -> bool {
        self.sharers & (1 << core) != 0
    }

    /// Removes a core that evicted its copy; returns whether the copy was the only newest one.
    pub(super) fn leave(&mut self, core: usize) -> bool {
        self.sharers &= !(1 << core);
        let newest = self.dirty && usize::from(self.owner) == core;
        if usize::from(self.owner) == core {
            self.owner = NO_CORE;
            self.exclusive = false;
            self.dirty = false;
        }
        newest
    }
}

/// All lines of the arena, allocated on first use.
#[derive(Clone, Debug)]
pub(super) struct Directory {
    pages: Vec<Option<Box<[Line; PAGE]>>>,
}

const PAGE: usize = 64;

impl Directory {
    pub(super) fn new(lines: u64) -> Directory {
        Directory { pages: vec![None; (lines as usize).div_ceil(PAGE)] }
    }

    pub(super) fn at(&mut self, line: u64) -> &mut Line {
        let (page, place) = (line as usize / PAGE, line as usize % PAGE);
        &mut self.pages[page].get_or_insert_with(|| {
            Box::new([Line { owner: NO_CORE, winner: NO_CORE, ..Line::UNTOUCHED }; PAGE])
        })[place]
    }

    /// Whether a line is within the arena, rounded up to pages of `PAGE` lines.
    pub(super) fn covers(&self, line: u64) -> bool {
        (line as usize / PAGE) < self.pages.len()
    }
}
