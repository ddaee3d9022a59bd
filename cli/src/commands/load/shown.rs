//! Progress of a run: a line that is redrawn on a terminal, otherwise one line per second.

use crate::args::load::ClientArgs;
use console::units;
use host::{App, Buffer, Calls};
use indicatif::ProgressBar;
use serve::load::{Load, LoadProgress, Phase, Workload};
use stack::tcp::ConnectionId;
use stack::{ConnectError, Event, Time};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const INTERVAL: Duration = Duration::from_millis(100);
/// Interval without a terminal.
const INTERVAL_OF_LINES: Duration = Duration::from_secs(1);

/// Progress of all workers.
#[derive(Debug, Default)]
pub(super) struct Sums {
    open: AtomicU64,
    answered: AtomicU64,
}

impl Sums {
    /// Adds the changes of a worker.
    fn add(&self, before: Option<LoadProgress>, now: LoadProgress) {
        let before = before.map_or((0, 0), |before| (before.open, before.answered));
        self.open.fetch_add(now.open.wrapping_sub(before.0), Ordering::Relaxed);
        self.answered.fetch_add(now.answered.wrapping_sub(before.1), Ordering::Relaxed);
    }

    /// The progress of a worker with the sums of all.
    fn of(&self, own: LoadProgress) -> LoadProgress {
        let [open, answered] = [&self.open, &self.answered].map(|sum| sum.load(Ordering::Relaxed));
        LoadProgress { open, answered, ..own }
    }
}

/// The client of a worker, with the display if it is the first one.
pub(super) struct Shown<W> {
    load: Load<W>,
    bar: Option<ProgressBar>,
    sums: Arc<Sums>,
    /// Time of the next display.
    next: Time,
    /// Time of the last round.
    seen: Time,
    own: Option<LoadProgress>,
    last: Option<LoadProgress>,
    connections: u32,
    duration: Duration,
}

impl<W: Workload> Shown<W> {
    pub(super) fn new(load: Load<W>, args: &ClientArgs, worker: usize, sums: &Arc<Sums>) -> Self {
        let bar = if console::is_quiet() { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
        Self {
            load,
            bar: (worker == 0).then_some(bar),
            sums: sums.clone(),
            next: Time::default(),
            seen: Time::default(),
            own: None,
            last: None,
            connections: args.connections,
            duration: args.run.duration.0 * args.run.rounds,
        }
    }

    /// Removes the display. Returns the client and the time of its last round.
    pub(super) fn end(self) -> (Load<W>, Time) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
        (self.load, self.seen)
    }

    #[cold]
    fn show(&mut self, now: Time) {
        let own = self.load.progress(now);
        self.sums.add(self.own.replace(own), own);
        let Some(bar) = &self.bar else {
            self.next = now.after(INTERVAL);
            return;
        };
        let progress = self.sums.of(own);
        let text = self.text(progress);
        if bar.is_hidden() {
            console::note(&text);
            self.next = now.after(INTERVAL_OF_LINES);
        } else {
            bar.set_message(text);
            bar.tick();
            self.next = now.after(INTERVAL);
        }
        self.last = Some(progress);
    }

    fn text(&self, now: LoadProgress) -> String {
        match now.phase {
            Phase::Opening => format!("{} of {} connections open", now.open, self.connections),
            Phase::Filling => format!("preparing the rounds over {} connections", now.open),
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

impl<W: Workload, S: Calls> App<S> for Shown<W> {
    #[inline]
    fn event(&mut self, stack: &mut S, event: Event<Buffer>, now: Time) {
        self.load.event(stack, event, now);
    }

    #[inline]
    fn poll(&mut self, stack: &mut S, now: Time) -> bool {
        self.seen = now;
        if self.next <= now {
            self.show(now);
        }
        self.load.poll(stack, now)
    }

    #[inline]
    fn deadline(&self) -> Time {
        App::<S>::deadline(&self.load).min(self.next)
    }

    fn port_lost(&mut self, name: &str, state: &str) {
        App::<S>::port_lost(&mut self.load, name, state);
    }

    fn connect_failed(&mut self, stack: &mut S, connection: ConnectionId, error: ConnectError, now: Time) {
        self.load.connect_failed(stack, connection, error, now);
    }
}
