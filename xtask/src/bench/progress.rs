//! How far a bench is and how long it will take, on standard error, so that standard output stays clean for the
//! result; and whether the end was requested.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// About what a round takes: two guests of 12 s, and their switches' ends.
const FIRST_GUESS: Duration = Duration::from_secs(28);

/// A bar where standard error is a terminal, lines everywhere.
pub(super) struct Progress {
    bar: ProgressBar,
    interrupted: Arc<AtomicBool>,
    start: Instant,
    round: Cell<Instant>,
}

impl Progress {
    /// Of so many rounds. From here on, signals that would end the process are only noted.
    pub(super) fn new(rounds: usize) -> Result<Progress> {
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, interrupted.clone()).context("signals cannot be caught")?;
        }
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {prefix}, {msg} left")?;
        let bar = ProgressBar::new(rounds as u64).with_style(style);
        let now = Instant::now();
        Ok(Progress { bar, interrupted, start: now, round: Cell::new(now) })
    }

    /// Whether a signal came.
    pub(super) fn is_interrupted(&self) -> bool {
        // Nothing is read that was written before the flag.
        self.interrupted.load(Ordering::Relaxed)
    }

    /// The next round begins.
    pub(super) fn begin(&self, title: &str) {
        self.round.set(Instant::now());
        self.bar.set_prefix(title.to_owned());
        self.tick();
    }

    /// Shows the time that is left.
    pub(super) fn tick(&self) {
        let left = self.left().saturating_sub(self.round.get().elapsed());
        self.bar.set_message(shown(left));
    }

    /// The round has ended with this.
    pub(super) fn end(&self, result: &str) {
        self.bar.inc(1);
        self.round.set(Instant::now());
        // Put together before: while the bar is suspended it answers nothing.
        let line = format!("[{}, {} left] {result}", self.done(), shown(self.left()));
        self.bar.suspend(|| eprintln!("{line}"));
        if self.bar.length() == Some(self.bar.position()) {
            self.bar.finish_and_clear();
        }
    }

    /// Such as `3 of 40 rounds`.
    pub(super) fn done(&self) -> String {
        format!("{} of {} rounds", self.bar.position(), self.bar.length().unwrap_or_default())
    }

    /// For the rounds that have not ended, at the pace of those that have.
    fn left(&self) -> Duration {
        let done = u32::try_from(self.bar.position()).unwrap_or(u32::MAX);
        let all = u32::try_from(self.bar.length().unwrap_or_default()).unwrap_or(u32::MAX);
        let each = self.round.get().duration_since(self.start).checked_div(done).unwrap_or(FIRST_GUESS);
        each * all.saturating_sub(done)
    }
}

fn shown(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds < 100 => format!("{seconds} s"),
        seconds => format!("{} min", seconds.div_ceil(60)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn before_the_first_round_a_guess_counts_and_then_the_pace() {
        let progress = Progress::new(10).unwrap();
        assert_eq!(progress.left(), FIRST_GUESS * 10);
        progress.bar.inc(2);
        progress.round.set(progress.start + Duration::from_mins(1));
        assert_eq!(progress.left(), Duration::from_mins(4));
        assert_eq!(progress.done(), "2 of 10 rounds");
    }

    #[test]
    fn rounds_are_told_until_the_last_one() {
        let progress = Progress::new(2).unwrap();
        for round in ["first", "second"] {
            progress.begin(round);
            progress.tick();
            progress.end(round);
        }
        assert_eq!((progress.done(), progress.left()), ("2 of 2 rounds".to_owned(), Duration::ZERO));
    }

    #[test]
    fn long_times_are_shown_in_minutes() {
        assert_eq!(shown(Duration::from_secs(99)), "99 s");
        assert_eq!(shown(Duration::from_secs(121)), "3 min");
    }
}
