//! Which lines a core took from another core's cache, line by line: by reading what the other had changed or owned, or by taking
//! the right to write away from it. Kept only if asked for; it changes nothing of what happens.

use super::machine::Machine;
use crate::cache::memory::{Address, LINE};

/// How often one core took one line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// To read it: the other core had changed it, or was the only one to have it
    pub read: u32,
    /// To write it, with its bytes
    pub owned: u32,
    /// To write it: the bytes were here, only the right was not
    pub raised: u32,
}

/// By core and line; empty if nobody asks.
#[derive(Clone, Debug, Default)]
pub(super) struct Moves(Vec<Vec<Moved>>);

impl Machine {
    /// From here on, lines that cores take from each other are counted one by one, below `end`.
    pub fn watch_moves(&mut self, end: Address) {
        self.moves = Moves(vec![vec![Moved::default(); end.div_ceil(LINE) as usize]; self.cores.len()]);
    }

    /// Counts anew.
    pub(super) fn forget_moves(&mut self) {
        self.moves.0.iter_mut().for_each(|lines| lines.fill(Moved::default()));
    }

    /// What a core took so far of each watched line.
    pub fn moves(&self, core: usize) -> &[Moved] {
        self.moves.0.get(core).map_or(&[], Vec::as_slice)
    }

    /// A core is about to get a line.
    pub(super) fn note_move(&mut self, core: usize, line: u64, write: bool) {
        if self.moves.0.is_empty() {
            return;
        }
        let entry = *self.directory.at(line);
        let others = entry.sharers & !(1 << core) != 0;
        let changed = entry.exclusive || entry.dirty;
        let Some(moved) = self.moves.0[core].get_mut(line as usize).filter(|_| others) else { return };
        match (write, entry.shared_by(core)) {
            (true, true) => moved.raised += 1,
            (true, false) => moved.owned += 1,
            (false, false) if changed => moved.read += 1,
            (false, _) => {}
        }
    }
}
