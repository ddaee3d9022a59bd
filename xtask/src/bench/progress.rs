//! Progress and remaining time of a bench on standard error, so that standard output contains only the result; and
//! interruption by signals.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Estimated duration of a reading, with start and end of its switch and guests.
const FIRST_GUESS: Duration = Duration::from_secs(12);

/// A progress bar if standard error is a terminal, and a line per round.
pub(super) struct Progress {
    bar: ProgressBar,
    interrupted: Arc<AtomicBool>,
    start: Instant,
    round: Cell<Instant>,
}

impl Progress {
    /// Progress of this many rounds. From here on, terminating signals only set a flag.
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

    /// Whether a signal was received.
    pub(super) fn is_interrupted(&self) -> bool {
        // The flag publishes no other data.
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Starts the next round.
    pub(super) fn begin(&self, title: &str) {
        self.round.set(Instant::now());
        self.bar.set_prefix(title.to_owned());
        self.bar.set_message(shown(self.left()));
    }

    /// Ends the round and prints its result.
    pub(super) fn end(&self, result: &str) {
        self.bar.inc(1);
        self.round.set(Instant::now());
        // Formatted first, because the bar returns no values while it is suspended.
        let line = format!("[{}, {} left] {result}", self.done(), shown(self.left()));
        self.bar.suspend(|| eprintln!("{line}"));
        if self.bar.length() == Some(self.bar.position()) {
            self.bar.finish_and_clear();
        }
    }

    /// Completed rounds, such as `3 of 40 rounds`.
    pub(super) fn done(&self) -> String {
        format!("{} of {} rounds", self.bar.position(), self.bar.length().unwrap_or_default())
    }

    /// Estimated time of the remaining rounds, from the mean of the completed ones.
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
    fn progress_counts_finished_rounds() {
        let progress = Progress::new(2).unwrap();
        for round in ["first", "second"] {
            progress.begin(round);
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
