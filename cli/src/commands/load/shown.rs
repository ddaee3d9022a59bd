//! Progress of a run: a line that is redrawn on a terminal, otherwise one line per second.

use crate::args::load::ClientArgs;
use console::units;
use host::{App, Buffer};
use indicatif::ProgressBar;
use serve::load::{Load, LoadProgress, Phase, Workload};
use stack::{Event, Stack, Time};
use std::time::Duration;

const INTERVAL: Duration = Duration::from_millis(100);
/// Interval without a terminal.
const INTERVAL_OF_LINES: Duration = Duration::from_secs(1);

/// The client with its display.
pub(super) struct Shown<W> {
    load: Load<W>,
    bar: ProgressBar,
    /// Time of the next display.
    next: Time,
    last: Option<LoadProgress>,
    connections: u32,
    duration: Duration,
}

impl<W: Workload> Shown<W> {
    pub(super) fn new(load: Load<W>, args: &ClientArgs) -> Self {
        let bar = if console::is_quiet() { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
        let duration = args.run.duration.0 * args.run.rounds;
        Self { load, bar, next: Time::default(), last: None, connections: args.connections, duration }
    }

    /// Removes the display.
    pub(super) fn end(self) -> Load<W> {
        self.bar.finish_and_clear();
        self.load
    }

    #[cold]
    fn show(&mut self, now: Time) {
        let progress = self.load.progress(now);
        let text = self.text(progress);
        if self.bar.is_hidden() {
            console::note(&text);
            self.next = now.after(INTERVAL_OF_LINES);
        } else {
            self.bar.set_message(text);
            self.bar.tick();
            self.next = now.after(INTERVAL);
        }
        self.last = Some(progress);
    }

    fn text(&self, now: LoadProgress) -> String {
        match now.phase {
            Phase::Opening => format!("{} of {} connections open", now.open, self.connections),
            Phase::Filling => format!("setting all keys over {} connections", now.open),
            Phase::Running if now.passed.is_zero() => format!("warming up {} connections", now.open),
            Phase::Running => {
                let before = self.last.map_or((0, Duration::ZERO), |last| (last.answered, last.passed));
                let passed = now.passed.saturating_sub(before.1).as_secs_f64().max(1e-9);
                let rate = units::scaled((now.answered - before.0) as f64 / passed);
                let left = self.duration.saturating_sub(now.passed).as_secs_f64();
                format!("{rate} replies/s, {} connections, {left:.0} s left", now.open)
            }
            Phase::Draining => "waiting for the last replies".to_owned(),
            Phase::Closing | Phase::Done => "closing the connections".to_owned(),
        }
    }
}

impl<W: Workload> App for Shown<W> {
    #[inline]
    fn event(&mut self, stack: &mut Stack<Buffer>, event: Event<Buffer>, now: Time) {
        self.load.event(stack, event, now);
    }

    #[inline]
    fn poll(&mut self, stack: &mut Stack<Buffer>, now: Time) -> bool {
        if self.next <= now {
            self.show(now);
        }
        self.load.poll(stack, now)
    }

    #[inline]
    fn deadline(&self) -> Time {
        self.load.deadline().min(self.next)
    }

    fn port_lost(&mut self, name: &str, state: &str) {
        self.load.port_lost(name, state);
    }
}
