//! The second-level cache's stream prefetcher: detects runs of lines within a page.
//!
//! It only computes the lines to fetch; the machine fetches them.

use serde::Serialize;

/// Enabled hardware prefetchers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Prefetchers {
    /// L2: lines that follow a run of lines
    pub stream: bool,
    /// L2: the other line of an aligned pair
    pub adjacent: bool,
}

/// Pages watched at a time, from the published descriptions of the L2 streamer.
const WATCHED: usize = 32;
const LINES_A_PAGE: u64 = 64;

/// Consecutively touched lines of a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    page: u64,
    last: u64,
    up: bool,
    length: u32,
}

impl Run {
    /// Returns the next lines of the run, within its page.
    pub(super) fn ahead(self, lines: u64) -> impl Iterator<Item = u64> {
        let next = move |n| if self.up { Some(self.last + n) } else { self.last.checked_sub(n) };
        (1..=lines).filter_map(next).filter(move |line| line / LINES_A_PAGE == self.page)
    }
}

/// The runs of one core.
#[derive(Clone, Debug, Default)]
pub(super) struct Streams {
    runs: Vec<Run>,
    next: usize,
}

impl Streams {
    /// Records an access; returns the run if the access is at least its third line.
    pub(super) fn access(&mut self, line: u64) -> Option<Run> {
        let page = line / LINES_A_PAGE;
        let Some(run) = self.runs.iter_mut().find(|run| run.page == page) else {
            self.watch(Run { page, last: line, up: true, length: 1 });
            return None;
        };
        let up = line > run.last;
        if line.abs_diff(run.last) == 1 && (run.length == 1 || run.up == up) {
            run.length += 1;
        } else if line != run.last {
            run.length = 1;
        }
        (run.last, run.up) = (line, up);
        (run.length >= 3).then_some(*run)
    }

    fn watch(&mut self, run: Run) {
        if self.runs.len() < WATCHED {
            self.runs.push(run);
        } else {
            self.runs[self.next] = run;
            self.next = (self.next + 1) % WATCHED;
        }
    }
}
