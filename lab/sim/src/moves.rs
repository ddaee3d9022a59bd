//! Which lines a core took from another core's cache, line by line: by reading what the other had changed or owned, or by taking
//! the right to write away from it. Kept only if asked for; it changes nothing of what happens.

use super::machine::Machine;
use crate::memory::{Address, LINE};

/// How often one core took one line, or those of one part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// To read it: the other core had changed it, or was the only one to have it
    pub read: u32,
    /// To write it, with its bytes
    pub owned: u32,
    /// To write it: the bytes were here, only the right was not
    pub raised: u32,
}

/// By core, and by line or part; empty if nobody asks.
#[derive(Clone, Debug, Default)]
pub(super) struct Moves {
    counts: Vec<Vec<Moved>>,
    /// Where parts end, in lines and in their order; none: each line counts for itself
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
    /// From here on, lines that cores take from each other are counted one by one, below `end`.
    pub fn watch_moves(&mut self, end: Address) {
        let counts = vec![vec![Moved::default(); end.div_ceil(LINE) as usize]; self.cores.len()];
        self.moves = Moves { counts, ends: None };
    }

    /// The same, counted together for each part of the arena: `ends` says where each ends, in their order.
    pub fn watch_parts(&mut self, ends: &[Address]) {
        let counts = vec![vec![Moved::default(); ends.len()]; self.cores.len()];
        self.moves = Moves { counts, ends: Some(ends.iter().map(|end| end.div_ceil(LINE)).collect()) };
    }

    /// Counts anew.
    pub(super) fn forget_moves(&mut self) {
        self.moves.counts.iter_mut().for_each(|lines| lines.fill(Moved::default()));
    }

    /// What a core took so far of each watched line, or part.
    pub fn moves(&self, core: usize) -> &[Moved] {
        self.moves.counts.get(core).map_or(&[], Vec::as_slice)
    }

    /// A core is about to get a line.
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
