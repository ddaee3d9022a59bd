//! Counts of lines that a core took from another core's cache, by line or part: reads of lines that the other core had
//! changed or held exclusively, and ownership transfers. Counted only on request; counting does not affect the
//! simulation.

use super::machine::Machine;
use crate::memory::{Address, LINE};

/// Number of times that one core took one line, or the lines of one part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Reads of a line that another core had changed or held exclusively
    pub read: u32,
    /// Writes that transferred the bytes
    pub owned: u32,
    /// Writes that transferred only ownership: the bytes were already here
    pub raised: u32,
}

/// Counts by core, and by line or part; empty if not watched.
#[derive(Clone, Debug, Default)]
pub(super) struct Moves {
    counts: Vec<Vec<Moved>>,
    /// End of each part, in lines, ascending; `None`: each line is counted separately
    ends: Option<Vec<u64>>,
}

impl Moves {
    fn at(&mut self, core: usize, line: u64) -> Option<&mut Moved> {
        let place = match &self.ends {
            Some(ends) => ends.partition_point(|end| *end <= line),
            None => line as usize,
        };
        self.counts.get_mut(core)?.get_mut(place)
    }
}

impl Machine {
    /// Counts line transfers between cores per line below `end` from now on.
    pub fn watch_moves(&mut self, end: Address) {
        let counts = vec![vec![Moved::default(); end.div_ceil(LINE) as usize]; self.cores.len()];
        self.moves = Moves { counts, ends: None };
    }

    /// Counts line transfers between cores per part of the arena; `ends` are the ascending end addresses of the parts.
    pub fn watch_parts(&mut self, ends: &[Address]) {
        let counts = vec![vec![Moved::default(); ends.len()]; self.cores.len()];
        self.moves = Moves { counts, ends: Some(ends.iter().map(|end| end.div_ceil(LINE)).collect()) };
    }

    /// Resets the counts.
    pub(super) fn forget_moves(&mut self) {
        self.moves.counts.iter_mut().for_each(|lines| lines.fill(Moved::default()));
    }

    /// Transfers to a core so far, per watched line or part.
    pub fn moves(&self, core: usize) -> &[Moved] {
        self.moves.counts.get(core).map_or(&[], Vec::as_slice)
    }

    /// Counts a line that a core is about to receive.
    pub(super) fn note_move(&mut self, core: usize, line: u64, write: bool) {
        if self.moves.counts.is_empty() {
            return;
        }
        let entry = *self.directory.at(line);
        let others = entry.sharers & !(1 << core) != 0;
        let changed = entry.exclusive || entry.dirty;
        let Some(moved) = self.moves.at(core, line).filter(|_| others) else { return };
        match (write, entry.shared_by(core)) {
            (true, true) => moved.raised += 1,
            (true, false) => moved.owned += 1,
            (false, false) if changed => moved.read += 1,
            (false, _) => {}
        }
    }
}
