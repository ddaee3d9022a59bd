//! A panic in the middle of a burst, in every model: each port with a queue on the worker receives the fault.

use crate::common::{Frames, Queue, Source, TIMEOUT, push};
use engine::{
    Context, Engine, EngineConfig, Model, Pipeline, Pipelines, Polling, Rss, Verdicts, WorkerConfig,
};
use port::{Attach, Burst, BurstStats, Now, PortControl, PortFault, PortStatus, QueueId};
use rustix::fd::BorrowedFd;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// One packet in every burst.
struct Endless;

impl Frames for Endless {
    fn fill(&mut self, burst: &mut Burst, stats: &mut BurstStats) {
        push(&[2; 60], burst, stats);
    }

    fn are_left(&self) -> bool {
        true
    }
}

/// A fault, and the faulty queue.
type Fault = (PortFault, Option<QueueId>);

/// A port that records its fault.
struct RecordFault(Source<Queue<Endless>>, Arc<Mutex<Option<Fault>>>);

impl PortControl for RecordFault {
    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn handle(&mut self, now: Instant, engine: &mut dyn Attach) {
        self.0.handle(now, engine);
    }

    fn fault(&mut self, _: Instant, fault: PortFault, engine: &mut dyn Attach) {
        *self.1.lock().unwrap() = Some((fault, engine.faulty_queue()));
    }

    fn close(&mut self, engine: &mut dyn Attach) {
        self.0.close(engine);
    }

    fn status(&self) -> PortStatus {
        self.0.status()
    }
}

struct Panics;

impl Pipeline for Panics {
    fn process(&mut self, _: &mut Burst, _: &Context, _: &mut Verdicts) {
        panic!("as a test wants it");
    }
}

/// Its timer panics.
struct TimerPanics;

impl Pipeline for TimerPanics {
    fn process(&mut self, _: &mut Burst, _: &Context, _: &mut Verdicts) {}

    fn tick(&mut self, _: Now) -> Option<Now> {
        panic!("as a test wants it");
    }
}

impl Pipelines for TimerPanics {
    fn worker(&self, _: usize) -> Box<dyn Pipeline> {
        Box::new(TimerPanics)
    }
}

impl Pipelines for Panics {
    fn worker(&self, _: usize) -> Box<dyn Pipeline> {
        Box::new(Panics)
    }
}

fn config() -> EngineConfig {
    let workers = vec![WorkerConfig { polling: Polling::Busy, ..WorkerConfig::default() }];
    EngineConfig { workers, max_ports: 4, rss: Rss::default() }
}

/// Waits, calling `turn` repeatedly, until the port has received the fault.
fn told(engine: &Engine, what: &str, mut turn: impl FnMut()) {
    let fault = Arc::new(Mutex::new(None));
    engine.add_port("source", Box::new(RecordFault(Source(Some(Queue(Endless))), fault.clone()))).unwrap();
    let until = Instant::now() + TIMEOUT;
    while fault.lock().unwrap().is_none() {
        assert!(Instant::now() < until, "{what}: the port ended without a reason");
        turn();
        std::thread::yield_now();
    }
    let expected = (PortFault::WorkerFailed, Some(QueueId::Rx(0)));
    assert_eq!(*fault.lock().unwrap(), Some(expected), "{what}");
}

#[test]
fn port_gets_the_fault_of_a_panicked_worker() {
    for model in [Model::RunToCompletion, Model::Stealing] {
        let engine = Engine::start_as(config(), model.clone(), &Panics).unwrap();
        told(&engine, &format!("{model:?}"), || {});
        // The worker's thread has ended with a panic; only the end of the engine matters here.
        let _ = engine.stop();
    }
}

#[test]
fn port_gets_the_fault_of_a_panicked_application() {
    let (engine, mut workers) = Engine::start_inline(config(), &Panics).unwrap();
    told(&engine, "merged", || {
        for worker in &mut workers {
            let panics = std::panic::AssertUnwindSafe(|| worker.forward());
            let _ = std::panic::catch_unwind(panics);
        }
    });
    assert!(!workers[0].forward(), "the worker goes on, without the queue");
    drop(workers);
    engine.stop().unwrap();
}

#[test]
fn inline_worker_ends_with_its_auxiliary_thread() {
    let (engine, mut workers) = Engine::start_inline(config(), &TimerPanics).unwrap();
    let until = Instant::now() + TIMEOUT;
    // The application may run the timer itself before the auxiliary thread does.
    let mut ended = || {
        let forward = std::panic::AssertUnwindSafe(|| workers[0].forward());
        matches!(std::panic::catch_unwind(forward), Ok(false))
    };
    while !ended() {
        assert!(Instant::now() < until, "the worker does not end");
        std::thread::yield_now();
    }
    let began = Instant::now();
    let _ = engine.stop();
    assert!(began.elapsed() < TIMEOUT, "the engine waits for a worker that has ended");
}
