//! Moves of receive queues and load monitoring, with ports whose queue either always or never has packets.

use crate::common::{Frames, Queue, Source, TIMEOUT, push};
use engine::balance::Rebalancing;
use engine::placement::{QueueAffinity, QueueName};
use engine::{
    Context, Engine, EngineConfig, EngineError, Model, Pipeline, Pipelines, Rss, Verdicts, WorkerConfig,
};
use port::{BURST, Burst, BurstStats, DropReason, PortId};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

struct Endless {
    bound: bool,
    /// The kick of a queue that never has packets; `None` for a queue that always has some.
    empty: Option<OwnedFd>,
}

impl Frames for Endless {
    fn fill(&mut self, burst: &mut Burst, stats: &mut BurstStats) {
        if self.empty.is_none() {
            (0..BURST).for_each(|_| push(&[2; 60], burst, stats));
        }
    }

    fn are_left(&self) -> bool {
        self.empty.is_none()
    }

    fn kick(&self) -> Option<BorrowedFd<'_>> {
        self.empty.as_ref().map(AsFd::as_fd)
    }

    fn is_bound(&self) -> bool {
        self.bound
    }
}

struct Sink;

impl Pipeline for Sink {
    fn process(&mut self, burst: &mut Burst, _: &Context, out: &mut Verdicts) {
        (0..burst.len()).for_each(|i| out.drop(i, DropReason::NoDestination));
    }
}

impl Pipelines for Sink {
    fn worker(&self, _: usize) -> Box<dyn Pipeline> {
        Box::new(Sink)
    }
}

fn engine(model: Model) -> Engine {
    engine_of(2, model)
}

fn engine_of(workers: usize, model: Model) -> Engine {
    let workers = vec![WorkerConfig::default(); workers];
    Engine::start_as(EngineConfig { workers, max_ports: 8, rss: Rss::default() }, model, &Sink).unwrap()
}

fn add(engine: &Engine, name: &str, bound: bool) -> PortId {
    engine.add_port(name, Box::new(Source(Some(Queue(Endless { bound, empty: None }))))).unwrap()
}

/// The worker of each queue.
fn workers(engine: &Engine) -> Vec<usize> {
    engine.queues().unwrap().into_iter().map(|queue| queue.worker).collect()
}

#[test]
fn monitored_load_is_rebalanced_and_reported() {
    let engine = engine(Model::RunToCompletion);
    let ports = ["a", "b", "c", "d"].map(|name| add(&engine, name, false));
    for port in ports {
        engine.move_queue(port, 0, 0).unwrap();
    }
    assert_eq!(workers(&engine), [0; 4]);
    let watched = |moves| Rebalancing { interval: Duration::from_millis(20), threshold: 0.05, moves };
    engine.watch_load(Some(watched(false))).unwrap();
    let until = Instant::now() + TIMEOUT;
    while engine.latest_balance().is_none_or(|found| found.moves.is_empty()) {
        assert!(Instant::now() < until, "{:?}", engine.latest_balance());
        std::thread::yield_now();
    }
    assert_eq!(workers(&engine), [0; 4], "it is told and not done");
    engine.watch_load(Some(watched(true))).unwrap();
    while workers(&engine).iter().all(|worker| *worker == 0) {
        assert!(Instant::now() < until, "{:?}", engine.latest_balance());
        std::thread::yield_now();
    }
    engine.watch_load(None).unwrap();
    engine.stop().unwrap();
}

#[test]
fn bound_or_absent_queue_is_not_moved() {
    for model in [Model::RunToCompletion, Model::Stealing] {
        let engine = engine(model);
        let port = add(&engine, "a", true);
        let before = workers(&engine);
        let refused = engine.move_queue(port, 0, 1 - before[0]).unwrap_err();
        assert!(matches!(refused, EngineError::NotMoved(_)), "{refused}");
        assert_eq!(refused.to_string(), "the queue was not moved: its port requires its current thread");
        assert_eq!(workers(&engine), before);
        let missing = engine.move_queue(port, 7, 0).unwrap_err();
        assert_eq!(missing.to_string(), "the queue was not moved: it is no longer running");
        let nowhere = engine.move_queue(add(&engine, "b", false), 0, 9).unwrap_err();
        assert_eq!(nowhere.to_string(), "the queue was not moved: worker 9 does not respond");
        engine.stop().unwrap();
    }
}

#[test]
fn isolated_queue_has_its_own_worker_even_if_added_later() {
    let engine = engine(Model::RunToCompletion);
    let isolated = QueueName { port: "late".to_owned(), pair: None };
    engine.set_queue_affinity(QueueAffinity::arrange(2, &[], &[isolated]).unwrap()).unwrap();
    for name in ["a", "b", "c"] {
        add(&engine, name, false);
    }
    add(&engine, "late", false);
    assert_eq!(workers(&engine), [0, 0, 0, 1]);
    let found = engine.rebalance(Duration::from_millis(20), 0.01, true).unwrap();
    assert_eq!((found.moves.len(), found.queues[3].stays.is_some()), (0, true));
    engine.stop().unwrap();
}

/// Waits until queue `a` has received many packets, and checks that no other worker served it.
fn only_its_worker_serves_it(engine: Engine) {
    let home = workers(&engine)[0];
    let until = Instant::now() + TIMEOUT;
    while engine.queues().unwrap()[0].packets < 1_000_000 {
        assert!(Instant::now() < until, "{:?}", engine.snapshot().workers);
        std::thread::yield_now();
    }
    let now = engine.snapshot().workers;
    assert_eq!((now[1 - home].packets, now[1 - home].steals), (0, 0), "{now:?}");
    engine.stop().unwrap();
}

#[test]
fn bound_queue_is_not_stolen() {
    let engine = engine(Model::Stealing);
    add(&engine, "a", true);
    only_its_worker_serves_it(engine);
}

#[test]
fn isolated_or_assigned_queue_is_not_stolen() {
    let a = QueueName { port: "a".to_owned(), pair: None };
    let (isolated, ruled) =
        (QueueAffinity::arrange(2, &[], std::slice::from_ref(&a)), QueueAffinity::arrange(2, &[(a, 1)], &[]));
    for affinity in [isolated, ruled] {
        let engine = engine(Model::Stealing);
        engine.set_queue_affinity(affinity.unwrap()).unwrap();
        add(&engine, "a", false);
        assert_eq!(workers(&engine), [1]);
        only_its_worker_serves_it(engine);
    }
}

#[test]
fn dedicated_worker_does_not_steal_and_another_is_woken() {
    let engine = engine_of(3, Model::Stealing);
    let calm = QueueName { port: "calm".to_owned(), pair: None };
    let affinity = QueueAffinity::arrange(3, &[(calm.clone(), 0)], &[calm]);
    engine.set_queue_affinity(affinity.unwrap()).unwrap();
    let empty = Some(eventfd(0, EventfdFlags::NONBLOCK).unwrap());
    engine.add_port("calm", Box::new(Source(Some(Queue(Endless { bound: false, empty }))))).unwrap();
    let until = Instant::now() + TIMEOUT;
    // All workers sleep first, so that the wake-up must skip the dedicated worker.
    while !engine.snapshot().workers.iter().all(|worker| worker.sleeping) {
        assert!(Instant::now() < until, "{:?}", engine.snapshot().workers);
        std::thread::yield_now();
    }
    add(&engine, "busy", false);
    assert_eq!(workers(&engine), [0, 1]);
    while engine.snapshot().workers[2].steals < 200 {
        assert!(Instant::now() < until, "{:?}", engine.snapshot().workers);
        std::thread::yield_now();
    }
    let now = engine.snapshot().workers;
    assert_eq!((now[0].packets, now[0].steals, now[1].steals), (0, 0, 0), "{now:?}");
    engine.stop().unwrap();
}
