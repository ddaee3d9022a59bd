//! Ports between two engines: neither looks at what peers send before the second one has taken the ports over.

use crate::common::TIMEOUT;
use engine::{Context, Engine, EngineConfig, OnFault, Pipeline, Pipelines, Rss, Verdicts, WorkerConfig};
use port::handover::{HandOver, Handover, NotHandedOver};
use port::{Attach, Burst, BurstStats, PortControl, PortFault, PortId, PortState, PortStatus, RxQueue};
use ring::BufId;
use rustix::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A port that is always due: the number of messages that it has handled, and when it was created. It cannot be
/// prepared with a description that has parts, and counts a fault as many messages, and a queue that it takes back when
/// it continues as more.
struct Busy(Arc<AtomicU64>, Instant);

/// Messages for a fault.
const FAULT: u64 = 1_000_000;
/// Messages for a queue that was to start.
const TAKEN_BACK: u64 = 1_000_000_000;

/// A queue that receives nothing.
struct Idle;

impl RxQueue for Idle {
    fn prefetch(&self) {}

    fn rx(&mut self, _: &mut Burst, _: &mut BurstStats) -> Result<(), PortFault> {
        Ok(())
    }

    fn complete(&mut self, _: &[BufId]) {}

    fn notify(&mut self) {}

    fn enable_notification(&mut self) -> Result<bool, PortFault> {
        Ok(false)
    }

    fn disable_notification(&mut self) {}

    fn kick_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn refresh(&mut self) -> Result<(), PortFault> {
        Ok(())
    }
}

impl PortControl for Busy {
    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn deadline(&self) -> Option<Instant> {
        Some(self.1)
    }

    fn handle(&mut self, _: Instant, _: &mut dyn Attach) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn fault(&mut self, _: Instant, _: PortFault, _: &mut dyn Attach) {
        self.0.fetch_add(FAULT, Ordering::Relaxed);
    }

    fn close(&mut self, _: &mut dyn Attach) {}

    fn status(&self) -> PortStatus {
        PortStatus {
            state: PortState::Connected,
            kind: "busy",
            place: String::new(),
            features: Vec::new(),
            queues: Vec::new(),
            connects: 1,
            memory: (0, 0),
        }
    }

    fn as_handover(&mut self) -> Result<&mut dyn HandOver, NotHandedOver> {
        Ok(self)
    }
}

impl HandOver for Busy {
    fn hand_over(&mut self, _: &mut dyn Attach) -> Result<Handover, PortFault> {
        Ok(Handover::default())
    }

    /// As a port that cannot start all of its queues.
    fn resume(&mut self, _: Instant, engine: &mut dyn Attach) {
        engine.start_rx(0, Box::new(Idle));
        if engine.stop_rx(0).is_some() {
            self.0.fetch_add(TAKEN_BACK, Ordering::Relaxed);
        }
    }

    fn prepare(&mut self, description: Handover, _: Instant, _: &mut dyn Attach) -> Result<(), PortFault> {
        if description.parts.is_empty() { Ok(()) } else { Err(PortFault::State("it has parts")) }
    }

    fn release(&mut self, _: &mut dyn Attach) {}

    fn take_over(&mut self, _: Handover, _: Instant, _: &mut dyn Attach) -> Result<(), PortFault> {
        Ok(())
    }
}

struct Nothing;

impl Pipeline for Nothing {
    fn process(&mut self, _: &mut Burst, _: &Context, _: &mut Verdicts) {}
}

impl Pipelines for Nothing {
    fn worker(&self, _: usize) -> Box<dyn Pipeline> {
        Box::new(Nothing)
    }
}

/// An engine with one such port, and its number of messages.
fn engine() -> (Engine, PortId, Arc<AtomicU64>) {
    let config = EngineConfig { workers: vec![WorkerConfig::default()], max_ports: 1, rss: Rss::default() };
    let (engine, handled) = (Engine::start(config, &Nothing).unwrap(), Arc::default());
    let port = engine.add_port("busy", Box::new(Busy(Arc::clone(&handled), Instant::now()))).unwrap();
    (engine, port, handled)
}

fn grows(handled: &AtomicU64) {
    let (before, until) = (handled.load(Ordering::Relaxed), Instant::now() + TIMEOUT);
    while handled.load(Ordering::Relaxed) == before {
        assert!(Instant::now() < until, "no message is handled");
        std::thread::yield_now();
    }
}

fn stays(handled: &AtomicU64) {
    let before = handled.load(Ordering::Relaxed);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(handled.load(Ordering::Relaxed), before);
}

#[test]
fn messages_wait_until_the_ports_are_taken_over() {
    let ((old, _, of_old), (new, port, of_new)) = (engine(), engine());
    grows(&of_old);
    old.describe_ports([]).unwrap();
    stays(&of_old);
    new.prepare_ports(vec![(port, Handover::default())], OnFault::Refuse).unwrap();
    stays(&of_new);
    old.hand_over_ports().unwrap();
    new.take_over_ports(vec![(port, Handover::default())], OnFault::Refuse).unwrap();
    stays(&of_new);
    new.start_ports().unwrap();
    grows(&of_new);
    stays(&of_old);
    old.resume_ports().unwrap();
    grows(&of_old);
    old.stop().unwrap();
    new.stop().unwrap();
}

#[test]
fn a_port_that_cannot_be_continued_refuses_or_has_a_fault() {
    let (engine, port, handled) = engine();
    let invalid = || {
        let mut description = Handover::default();
        description.push(1, Vec::new(), Vec::new());
        vec![(port, description)]
    };
    let refused = engine.prepare_ports(invalid(), OnFault::Refuse).unwrap_err().to_string();
    assert!(refused.contains("busy") && refused.contains("it has parts"), "{refused}");
    assert!(handled.load(Ordering::Relaxed) < FAULT);
    engine.prepare_ports(invalid(), OnFault::Continue).unwrap();
    assert!(handled.load(Ordering::Relaxed) >= FAULT, "the port has no fault");
    engine.stop().unwrap();
}

#[test]
fn a_queue_that_was_to_start_is_taken_back() {
    let (engine, _, handled) = engine();
    engine.describe_ports([]).unwrap();
    engine.hand_over_ports().unwrap();
    engine.resume_ports().unwrap();
    assert!(handled.load(Ordering::Relaxed) >= TAKEN_BACK, "the port has no queue to take back");
    engine.stop().unwrap();
}

#[test]
fn a_port_that_the_other_process_opens_is_not_described() {
    let (engine, port, _) = engine();
    assert!(
        engine.describe_ports([port]).unwrap().is_empty() && engine.hand_over_ports().unwrap().is_empty()
    );
    engine.resume_ports().unwrap();
    assert_eq!(engine.describe_ports([]).unwrap().len(), 1);
    engine.stop().unwrap();
}
