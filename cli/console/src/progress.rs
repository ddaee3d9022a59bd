//! Progress and remaining time of experiments, on standard error, because standard output is for results.

use indicatif::{ProgressBar, ProgressStyle};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A progress bar if standard error is a terminal, otherwise a line at intervals.
pub struct Progress {
    /// Unit of the count, such as `experiments`.
    what: &'static str,
    bar: ProgressBar,
    start: Instant,
    jobs: usize,
    done: usize,
    /// Part of `done` that was completed before this run.
    before: usize,
    all: usize,
    told: usize,
    running: BTreeMap<String, Instant>,
    /// Total duration of the completed experiments.
    spent: Duration,
}

/// Maximum number of progress lines of a run without a terminal.
const LINES: usize = 10;

impl Progress {
    /// Creates a display for `all` units called `what`, of which `jobs` run in parallel.
    pub fn new(what: &'static str, all: usize, jobs: usize) -> Progress {
        // A valid template; only an invalid one is rejected.
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}");
        let bar = if crate::is_quiet() { ProgressBar::hidden() } else { ProgressBar::new(all as u64) };
        if let Ok(style) = style {
            bar.set_style(style);
        }
        let start = Instant::now();
        Progress {
            what,
            bar,
            start,
            jobs,
            done: 0,
            before: 0,
            all,
            told: 0,
            running: BTreeMap::new(),
            spent: Duration::ZERO,
        }
    }

    /// A unit has started.
    pub fn began(&mut self, name: &str) {
        self.running.insert(name.to_owned(), Instant::now());
        self.show();
    }

    /// A unit has ended, successfully or not.
    pub fn ended(&mut self, name: &str) {
        self.spent += self.running.remove(name).map_or(Duration::ZERO, |began| began.elapsed());
        self.done += 1;
        self.tell();
    }

    /// Sequential progress: `done` units are complete and `next` is running. Units that were complete at the first
    /// call are excluded from the estimate.
    pub fn at(&mut self, done: usize, all: usize, next: &str) {
        if self.all != all {
            (self.all, self.before, self.done) = (all, done, done);
            self.bar.set_length(all as u64);
        }
        let moved = done != self.done;
        (self.done, self.spent) = (done, self.start.elapsed());
        self.running = BTreeMap::from([(next.to_owned(), self.start)]);
        if moved { self.tell() } else { self.show() }
    }

    /// Sets the expected number of units, which may change during the run.
    pub fn expect(&mut self, all: usize) {
        self.all = all.max(self.done);
        self.bar.set_length(self.all as u64);
    }

    /// Sets the number of units that were completed before this run.
    pub fn skip(&mut self, done: usize) {
        (self.done, self.before) = (done, done);
        self.show();
    }

    fn tell(&mut self) {
        self.show();
        let part = self.done * LINES / self.all.max(1);
        // `end` reports completion.
        if self.bar.is_hidden() && part > self.told && self.done < self.all {
            self.told = part;
            crate::note(&format!("{} of {} {}, {}", self.done, self.all, self.what, shown(self.left())));
        }
    }

    /// Removes the bar and prints the total duration.
    pub fn end(&self) {
        self.bar.finish_and_clear();
        let (done, took) = (self.done - self.before, self.start.elapsed().as_secs_f64());
        crate::note(&format!("{done} {} in {took:.1} s", self.what));
    }

    fn show(&self) {
        let names: Vec<_> = self.running.keys().map(String::as_str).collect();
        self.bar.set_position(self.done as u64);
        self.bar.set_message(format!("{} ({})", shown(self.left()), names.join(", ")));
    }

    /// Estimated remaining time, from the average duration of completed units. `None` before the first.
    fn left(&self) -> Option<Duration> {
        let each = self.spent.checked_div(u32::try_from(self.done - self.before).ok()?)?;
        let rest = u32::try_from(self.all.saturating_sub(self.done)).ok()?;
        Some(each * rest / u32::try_from(self.jobs).ok()?.max(1))
    }
}

fn shown(left: Option<Duration>) -> String {
    match left.map(|left| left.as_secs_f64().ceil() as u64) {
        None => "time left not known yet".to_owned(),
        Some(seconds) if seconds < 100 => format!("about {seconds} s left"),
        Some(seconds) => format!("about {} min left", seconds.div_ceil(60)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remaining_time_is_estimated_from_ended_jobs() {
        let mut progress = Progress::new("experiments", 10, 2);
        assert_eq!(progress.left(), None);
        (progress.done, progress.spent) = (4, Duration::from_secs(8));
        assert_eq!(progress.left(), Some(Duration::from_secs(6)));
    }

    #[test]
    fn long_times_are_shown_in_minutes() {
        assert_eq!(shown(Some(Duration::from_millis(1))), "about 1 s left");
        assert_eq!(shown(Some(Duration::from_secs(121))), "about 3 min left");
    }

    #[test]
    fn steps_of_an_earlier_run_do_not_count_for_the_remaining_time() {
        let mut progress = Progress::new("slices", 0, 1);
        progress.at(90, 100, "base");
        assert_eq!(progress.left(), None);
        progress.at(92, 100, "a");
        progress.spent = Duration::from_secs(4);
        assert_eq!(progress.left(), Some(Duration::from_secs(16)));
    }

    #[test]
    fn changed_total_and_skipped_jobs_adjust_the_remaining_time() {
        let mut progress = Progress::new("trials", 0, 1);
        progress.skip(90);
        progress.expect(100);
        assert_eq!(progress.left(), None);
        (progress.done, progress.spent) = (92, Duration::from_secs(4));
        assert_eq!(progress.left(), Some(Duration::from_secs(16)));
        progress.expect(10);
        assert_eq!(progress.left(), Some(Duration::ZERO));
    }

    #[test]
    fn ended_job_is_counted_and_not_running() {
        let mut progress = Progress::new("experiments", 2, 1);
        progress.began("a");
        progress.ended("a");
        assert!(progress.running.is_empty());
        assert_eq!(progress.done, 1);
    }
}
