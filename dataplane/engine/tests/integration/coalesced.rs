//! Packets delayed by a coalescing port are sent when its worker is idle, in every model, with and without sleeping
//! workers. Uses the real coalescing wrapper over a null port.

use crate::common::{Frames, Queue, Source, TIMEOUT, models, push};
use engine::{
    Context, EditId, Engine, EngineConfig, Pipeline, Pipelines, Polling, Rss, Verdicts, WorkerConfig,
};
use port::null::Null;
use port::wrap::{TxCoalesce, Wrappers, wrap};
use port::{Burst, BurstStats, PortId};
use std::time::{Duration, Instant};

/// Number of packets sent; fewer than the buffer holds.
const PACKETS: u64 = 5;
const BUFFER: u16 = 32;
/// Their destination: the port that is added first.
const SINK: PortId = PortId(0);

/// A single burst.
struct Once {
    burst: bool,
}

impl Frames for Once {
    fn fill(&mut self, burst: &mut Burst, stats: &mut BurstStats) {
        if std::mem::take(&mut self.burst) {
            (0..PACKETS).for_each(|_| push(&[2; 60], burst, stats));
        }
    }

    fn are_left(&self) -> bool {
        self.burst
    }
}

struct ToSink;

impl Pipeline for ToSink {
    fn process(&mut self, burst: &mut Burst, _: &Context, out: &mut Verdicts) {
        out.emit_run(0..burst.len(), SINK, EditId::NONE);
    }
}

impl Pipelines for ToSink {
    fn worker(&self, _: usize) -> Box<dyn Pipeline> {
        Box::new(ToSink)
    }
}

fn config(polling: Polling) -> EngineConfig {
    let workers = vec![WorkerConfig { polling, ..WorkerConfig::default() }; 2];
    EngineConfig { workers, max_ports: 4, rss: Rss::default() }
}

/// Adds the sink, which delays packets at most for `delay`, and then the source.
fn add_ports(engine: &Engine, delay: Option<Duration>) {
    let tx_coalesce = Some(TxCoalesce { frames: BUFFER, delay });
    let sink = Box::new(Null::new(Instant::now()));
    let sink = wrap(sink, "sink", &Wrappers { tx_coalesce, ..Wrappers::default() }).unwrap();
    assert_eq!(engine.add_port("sink", sink).unwrap(), SINK);
    let until = Instant::now() + TIMEOUT;
    while engine.snapshot().ports[0].state != "connected" {
        assert!(Instant::now() < until, "{:?}", engine.snapshot().ports);
        std::thread::yield_now();
    }
    engine.add_port("source", Box::new(Source(Some(Queue(Once { burst: true }))))).unwrap();
}

/// Waits, calling `turn` repeatedly, until all packets have left the buffer.
fn all_leaves(engine: &Engine, what: &str, mut turn: impl FnMut()) {
    let until = Instant::now() + TIMEOUT;
    while engine.snapshot().ports[0].tx_packets < PACKETS {
        assert!(Instant::now() < until, "{what}: {:?}", engine.snapshot().ports);
        turn();
        std::thread::yield_now();
    }
    assert_eq!(engine.snapshot().ports[0].tx_packets, PACKETS);
}

#[test]
fn coalesced_packets_leave_whether_the_worker_sleeps_or_not() {
    for model in models() {
        for polling in [Polling::Busy, Polling::Adaptive] {
            for within in [None, Some(Duration::from_millis(1))] {
                let engine = Engine::start_as(config(polling), model.clone(), &ToSink).unwrap();
                add_ports(&engine, within);
                all_leaves(&engine, &format!("{model:?}, {polling:?}, {within:?}"), || {});
                engine.stop().unwrap();
            }
        }
    }
}

#[test]
fn inline_calls_without_packets_flush_coalesced_packets() {
    let (engine, mut workers) = Engine::start_inline(config(Polling::default()), &ToSink).unwrap();
    add_ports(&engine, None);
    all_leaves(&engine, "merged", || workers.iter_mut().for_each(|worker| _ = worker.forward()));
    drop(workers);
    engine.stop().unwrap();
}
