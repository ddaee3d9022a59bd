//! The second-level cache's stream prefetcher: notices runs of lines within a page.
//!
//! It only says what it would fetch; the machine fetches.

/// Pages watched at a time, as the published descriptions of the L2 streamer have it.
const WATCHED: usize = 32;
const LINES_A_PAGE: u64 = 64;

#[derive(Clone, Copy, Debug)]
struct Run {
    page: u64,
    last: u64,
    up: bool,
    length: u32,
}

/// One core's.
#[derive(Clone, Debug, Default)]
pub(super) struct Streams {
    runs: Vec<Run>,
    next: usize,
}

impl Streams {
    /// Takes note of an access, and returns the line to fetch ahead if it continued a run of three.
    pub(super) fn access(&mut self, line: u64) -> Option<u64> {
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
        let ahead = if up { line + 1 } else { line.checked_sub(1)? };
        (run.length >= 3 && ahead / LINES_A_PAGE == page).then_some(ahead)
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
