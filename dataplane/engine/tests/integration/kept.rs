//! Packets delayed by a coalescing port are sent when its worker is idle, in every model, with and without sleeping
//! workers. Uses the real coalescing wrapper over a null port.

use crate::common::Source;
use engine::{
    Context, EditId, Engine, EngineConfig, HandoffConfig, Model, Pipeline, PipelineConfig, Pipelines,
    Polling, Role, Roles, Rss, Verdicts, WorkerConfig,
};
use port::null::Null;
use port::wrap::{TxCoalesce, Wrappers, wrap};
use port::{BufId, Burst, BurstStats, PortFault, PortId, RxQueue};
use rustix::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// Longer than any test here takes, so that a hang fails.
const PATIENCE: Duration = Duration::from_secs(30);
/// Number of packets sent; fewer than the buffer holds.
const PACKETS: u64 = 5;
const BUFFER: u16 = 32;
/// Their destination: the port that is added first.
const SINK: PortId = PortId(0);

/// A receive queue with a single burst.
struct Once {
    burst: bool,
}

impl RxQueue for Once {
    fn prefetch(&self) {}

    fn rx(&mut self, burst: &mut Burst, stats: &mut BurstStats) -> Result<(), PortFault> {
        if std::mem::take(&mut self.burst) {
            (0..PACKETS).for_each(|_| assert!(burst.push_own(&[2; 60])));
            (stats.packets, stats.bytes) = (PACKETS, 60 * PACKETS);
        }
        Ok(())
    }

    fn complete(&mut self, _: &[BufId]) {}

    fn notify(&mut self) {}

    fn enable_notification(&mut self) -> Result<bool, PortFault> {
        Ok(self.burst)
    }

    fn disable_notification(&mut self) {}

    fn kick_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn refresh(&mut self) -> Result<(), PortFault> {
        Ok(())
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

/// Adds the sink, which delays packets at most for `within`, and then the source.
fn add_ports(engine: &Engine, within: Option<Duration>) {
    let tx_coalesce = Some(TxCoalesce { packets: BUFFER, within });
    let sink = Box::new(Null::new(Instant::now()));
    let sink = wrap(sink, "sink", &Wrappers { tx_coalesce, ..Wrappers::default() }).unwrap();
    assert_eq!(engine.add_port("sink", sink).unwrap(), SINK);
    let until = Instant::now() + PATIENCE;
    while engine.snapshot().ports[0].state != "connected" {
        assert!(Instant::now() < until, "{:?}", engine.snapshot().ports);
        std::thread::yield_now();
    }
    engine.add_port("source", Box::new(Source(Some(Once { burst: true })))).unwrap();
}

/// Waits, calling `turn` repeatedly, until all packets have left the buffer.
fn all_leaves(engine: &Engine, what: &str, mut turn: impl FnMut()) {
    let until = Instant::now() + PATIENCE;
    while engine.snapshot().ports[0].tx_packets < PACKETS {
        assert!(Instant::now() < until, "{what}: {:?}", engine.snapshot().ports);
        turn();
        std::thread::yield_now();
    }
    assert_eq!(engine.snapshot().ports[0].tx_packets, PACKETS);
}

#[test]
fn what_is_kept_back_leaves_whether_its_worker_sleeps_or_not() {
    let roles = vec![Roles { rx: true, work: false, tx: true }, Roles::only(Role::Work)];
    let models = [
        Model::RunToCompletion,
        Model::Stealing,
        Model::Spreading(HandoffConfig::default()),
        Model::Pipeline(PipelineConfig { roles, handoffs: HandoffConfig::default() }),
    ];
    for model in models {
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
fn an_application_that_calls_in_vain_has_what_is_kept_back_sent() {
    let (engine, mut workers) = Engine::start_inline(config(Polling::default()), &ToSink).unwrap();
    add_ports(&engine, None);
    all_leaves(&engine, "merged", || workers.iter_mut().for_each(|worker| _ = worker.forward()));
    drop(workers);
    engine.stop().unwrap();
}
