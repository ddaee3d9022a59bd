//! A timer started by a packet runs in every model, with and without sleeping workers, and without another packet.

use crate::common::{Frames, Queue, Source, TIMEOUT, models, push};
use engine::{Context, Engine, EngineConfig, Pipeline, Pipelines, Polling, Rss, Verdicts, WorkerConfig};
use port::{Burst, BurstStats, DropReason, Now};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Length of the timer in nanoseconds.
const TIMER: u64 = 10_000_000;

/// A single packet, of a queue whose worker may sleep.
struct Once {
    packets: u64,
    kick: OwnedFd,
}

impl Once {
    fn new() -> Self {
        Self { packets: 1, kick: eventfd(0, EventfdFlags::NONBLOCK).unwrap() }
    }
}

impl Frames for Once {
    fn fill(&mut self, burst: &mut Burst, stats: &mut BurstStats) {
        let packets = std::mem::take(&mut self.packets);
        (0..packets).for_each(|_| push(&[2; 60], burst, stats));
    }

    fn are_left(&self) -> bool {
        self.packets > 0
    }

    fn kick(&self) -> Option<BorrowedFd<'_>> {
        Some(self.kick.as_fd())
    }
}

/// Starts a timer for each packet and signals the first expiry.
struct Timer {
    ends: Option<Now>,
    ended: Arc<AtomicBool>,
}

impl Pipeline for Timer {
    fn process(&mut self, burst: &mut Burst, context: &Context, verdicts: &mut Verdicts) {
        self.ends = Some(Now(context.now.0 + TIMER));
        (0..burst.len()).for_each(|i| verdicts.drop(i, DropReason::NoDestination));
    }

    fn tick(&mut self, now: Now) -> Option<Now> {
        if self.ends.take_if(|ends| *ends <= now).is_some() {
            self.ended.store(true, Ordering::Relaxed);
        }
        self.ends
    }
}

#[derive(Default)]
struct Timers(Arc<AtomicBool>);

impl Pipelines for Timers {
    fn worker(&self, _: usize) -> Box<dyn Pipeline> {
        Box::new(Timer { ends: None, ended: self.0.clone() })
    }
}

fn config(polling: Polling) -> EngineConfig {
    let workers = vec![WorkerConfig { polling, ..WorkerConfig::default() }; 2];
    EngineConfig { workers, max_ports: 4, rss: Rss::default() }
}

fn ends(timers: &Timers, what: &str) {
    let until = Instant::now() + TIMEOUT;
    while !timers.0.load(Ordering::Relaxed) {
        assert!(Instant::now() < until, "{what}: the timer never ended");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn timer_started_by_a_packet_runs_in_every_model() {
    for model in models() {
        for polling in [Polling::Busy, Polling::Adaptive] {
            let timers = Timers::default();
            let engine = Engine::start_as(config(polling), model.clone(), &timers).unwrap();
            engine.add_port("source", Box::new(Source(Some(Queue(Once::new()))))).unwrap();
            ends(&timers, &format!("{model:?}, {polling:?}"));
            engine.stop().unwrap();
        }
    }
}

#[test]
fn timer_runs_without_application_calls() {
    let timers = Timers::default();
    let (engine, mut workers) = Engine::start_inline(config(Polling::default()), &timers).unwrap();
    engine.add_port("source", Box::new(Source(Some(Queue(Once::new()))))).unwrap();
    let until = Instant::now() + TIMEOUT;
    while engine.snapshot().ports[0].rx_packets == 0 {
        assert!(Instant::now() < until, "no packet");
        for worker in &mut workers {
            worker.forward();
        }
        std::thread::yield_now();
    }
    ends(&timers, "inline");
    drop(workers);
    engine.stop().unwrap();
}
