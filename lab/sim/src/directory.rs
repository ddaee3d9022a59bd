//! Who has which line: the truth about rights, one record for each line of the arena.
//!
//! Invariants: an exclusive line has one sharer, its owner; a core is a sharer exactly while the line is in its second-level
//! cache. A line that was just won stays until `held`: whoever asks sooner is served then, and the core that
//! loses it may go on using it until that moment (the core's `graces`).

use super::Time;

/// No core.
pub(super) const NOBODY: u8 = u8::MAX;

/// What is known of one line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    /// A bit for each core that has a copy
    pub(super) sharers: u32,
    /// Who answers for it: the writer, the forwarder, or nobody
    pub(super) owner: u8,
    /// The owner is the only one and may write
    pub(super) exclusive: bool,
    /// The owner's bytes are newer than memory's
    pub(super) dirty: bool,
    /// Who won it last, and until when nobody takes it away
    pub(super) winner: u8,
    pub(super) held: Time,
    /// From when on the owner may write
    pub(super) owned_from: Time,
    /// The owner asked for it in order to write
    pub(super) for_writing: bool,
    /// Stores that became visible in it
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

    /// Forgets a core that evicted its copy; returns whether the copy was the only newest one.
    pub(super) fn leave(&mut self, core: usize) -> bool {
        self.sharers &= !(1 << core);
        let newest = self.dirty && usize::from(self.owner) == core;
        if usize::from(self.owner) == core {
            self.owner = NOBODY;
            self.exclusive = false;
            self.dirty = false;
        }
        newest
    }
}

/// All lines of the arena, made as they are touched.
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
            Box::new([Line { owner: NOBODY, winner: NOBODY, ..Line::UNTOUCHED }; PAGE])
        })[place]
    }

    /// Whether a line is within the arena.
    pub(super) fn covers(&self, line: u64) -> bool {
        (line as usize / PAGE) < self.pages.len()
    }
}
