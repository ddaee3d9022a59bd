//! Cache line write-back and flush by the program (CLFLUSHOPT, CLWB, CLDEMOTE).
//!
//! Each is ordered after the core's earlier stores to the same line (Intel's manual, volume 2), so it is queued in the
//! store buffer; executed at once, it would write back a line that lacks its newest bytes.

use super::Time;
use super::directory::NO_CORE;
use super::machine::Machine;
use super::stores::Store;
use crate::memory::{Address, Cleaning, LINE};

impl Machine {
    /// Queues a cleaning operation behind the earlier stores.
    pub(super) fn clean(&mut self, id: usize, at: Address, how: Cleaning) {
        self.cores[id].issue(1, &self.timing);
        let core = &mut self.cores[id];
        let ready = core.clock.max(core.retired);
        core.stores.push(Store {
            at: at / LINE * LINE,
            bytes: 0,
            value: None,
            expected: None,
            ready,
            past: false,
            cleaning: Some(how),
        });
    }

    /// Executes a cleaning operation that reached the head of the store buffer.
    pub(super) fn commit_cleaning(&mut self, id: usize, line: u64, how: Cleaning, now: Time) {
        self.leave_buffer(id, now);
        match how {
            Cleaning::Flush => {
                self.write_back(line, now);
                self.purge(line, now);
            }
            Cleaning::WriteBack => self.write_back(line, now),
            Cleaning::Demote if self.timing.demotes => self.demote(id, line),
            Cleaning::Demote => {}
        }
    }

    fn write_back(&mut self, line: u64, now: Time) {
        let newest = std::mem::take(&mut self.directory.at(line).dirty);
        if self.llc.written_back(line) || newest {
            self.write_memory(line, now);
        }
    }

    /// Moves the core's copy to the shared cache; later requests are then served from there, not from this core.
    fn demote(&mut self, id: usize, line: u64) {
        let entry = self.directory.at(line);
        if !entry.shared_by(id) {
            return;
        }
        let newest = entry.leave(id);
        entry.winner = NO_CORE;
        self.cores[id].l1.remove(line);
        self.cores[id].l2.remove(line);
        self.enter_llc(id, line, newest);
    }
}
