//! Makes stages and their threads: what each is made of, where it is pinned, what it needs before its first round.

use crate::clock::Clock;
use crate::command::Event;
use crate::config::{EngineError, QueueFull, WorkerConfig};
use crate::counters::WorkerCounters;
use crate::debts::Debts;
use crate::handoff::{self, Handoffs, store};
use crate::inline::{Inline, run_inline};
use crate::link::{Doorbell, Link};
use crate::model::{HandoffConfig, Order, Role};
use crate::rounds;
use crate::sleeper::Sleeper;
use crate::stage::{CoScheduled, Deliver, Spreader};
use crate::worker::{Alone, Parts, Sharing, Stage as Joined, Worker};
use mem::copy::Choice;
use mem::pool::Pool;
use port::{Pipeline, Rss};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::ops::Range;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

/// What all stages of an engine have in common.
pub(crate) struct WorkerBuilder {
    pub(crate) events: Mutex<Sender<Event>>,
    pub(crate) doorbell: Doorbell,
    pub(crate) kernel: Choice,
    pub(crate) clock: Clock,
    pub(crate) max_ports: usize,
    pub(crate) rss: Rss,
    pub(crate) handoffs: Option<HandoffConfig>,
    pub(crate) pool: Option<Arc<Pool>>,
    /// Where there are handoff queues: what ports owe for work behind them.
    pub(crate) debts: Option<Arc<Debts>>,
    /// Workers among which a port's queue pairs are divided.
    pub(crate) xps_queues: usize,
    /// Whether idle workers take bursts of others.
    pub(crate) steals: bool,
    /// Whether workers run when they are called, and not by themselves.
    pub(crate) merges: bool,
}

/// One stage as the engine knows it.
pub(crate) struct Stage {
    pub(crate) counters: Arc<WorkerCounters>,
    pub(crate) link: Arc<Link>,
    pub(crate) place: (Option<usize>, Role),
}

impl Stage {
    /// Whether it runs the real pipeline.
    pub(crate) fn classifiers(&self) -> bool {
        matches!(self.place.1, Role::All | Role::Work)
    }
}

/// All stages, and the threads with the stages that are on each.
#[derive(Default)]
pub(crate) struct WorkerSet {
    pub(crate) stages: Vec<Stage>,
    pub(crate) threads: Vec<(JoinHandle<()>, Range<usize>)>,
    /// The handles for applications, until they are taken.
    pub(crate) inline: Vec<Inline>,
}

impl WorkerSet {
    pub(crate) fn counters(&self) -> Vec<Arc<WorkerCounters>> {
        self.stages.iter().map(|stage| stage.counters.clone()).collect()
    }
}

impl WorkerBuilder {
    /// Makes a stage; `classify` makes the real pipeline where it runs that.
    pub(crate) fn build(
        &self,
        config: WorkerConfig,
        role: Role,
        classify: impl FnOnce() -> Box<dyn Pipeline>,
    ) -> Result<(Stage, Parts), EngineError> {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let link = Arc::new(Link::new(events, self.doorbell.clone())?);
        let counters = Arc::new(WorkerCounters::new(self.max_ports));
        let pipeline: Box<dyn Pipeline> = match role {
            Role::All | Role::Work => classify(),
            // Until it is joined to others, packets are for a handoff queue that is not there.
            Role::Rx => {
                Box::new(Spreader::new(Order::default(), self.rss, &[handoff::port(self.max_ports, 0)]))
            }
            Role::Tx => Box::new(Deliver),
        };
        let waits =
            role != Role::Tx && self.handoffs.is_some_and(|handoffs| handoffs.full == QueueFull::Wait);
        let numbers = self.max_ports + if self.handoffs.is_some() { handoff::MOST_STAGES } else { 0 };
        let parts = Parts {
            sleeper: Sleeper::new(link.doorbell.clone())?,
            handoffs: Handoffs::new(self.kernel, numbers, waits && role != Role::All),
            link: link.clone(),
            counters: counters.clone(),
            pipeline,
            kernel: self.kernel,
            ticks_per_ns: self.clock.ticks_per_ns,
            start: self.clock.start,
            numbers,
            workers: self.xps_queues,
            rss: self.rss,
        };
        Ok((Stage { counters, link, place: (config.cpu, role) }, parts))
    }

    /// Starts the thread of these stages, and returns when it runs where it should.
    pub(crate) fn start(
        &self,
        index: usize,
        config: WorkerConfig,
        stages: Vec<Parts>,
    ) -> Result<JoinHandle<()>, EngineError> {
        let (pinned, is_pinned) = channel();
        let over: Vec<_> = stages.iter().map(|parts| Over(parts.link.clone())).collect();
        let (joints, steals) = (self.pool.clone().zip(self.debts.clone()), self.steals);
        let body = move || {
            let _over = over;
            let result = pin(index, config);
            let runs = result.is_ok();
            // The starter waits for this answer, so it is there to take it.
            let _ = pinned.send(result);
            if runs {
                port::prepare_thread();
                run(config, stages, joints, steals);
            }
        };
        let thread = Builder::new().name(format!("worker-{index}")).spawn(body)?;
        is_pinned.recv().unwrap_or(Err(EngineError::Stopping)).map(|()| thread)
    }
}

/// Makes each of these stages one that runs when it is called: what to call, and the thread that obeys for it.
pub(crate) fn run_all_inline(
    index: usize,
    config: WorkerConfig,
    stages: Vec<Parts>,
) -> Result<Vec<(Inline, JoinHandle<()>)>, EngineError> {
    let one = |parts: Parts| {
        let link = parts.link.clone();
        run_inline(index, Worker::new(config, parts, Alone), link)
    };
    stages.into_iter().map(one).collect()
}

/// Runs until every stage was told to quit.
fn run(config: WorkerConfig, stages: Vec<Parts>, joints: Option<(Arc<Pool>, Arc<Debts>)>, steals: bool) {
    let stages = stages.into_iter();
    match joints {
        Some((pool, debts)) => {
            store::open(&pool);
            let staged = |parts| Worker::new(config, parts, Joined::new(debts.clone()));
            rounds::run(CoScheduled(stages.map(staged).collect()));
        }
        // Without handoff queues there is one stage on a thread.
        None if steals => {
            stages.map(|parts| Worker::new(config, parts, Sharing::default())).for_each(rounds::run);
        }
        None => stages.map(|parts| Worker::new(config, parts, Alone)).for_each(rounds::run),
    }
}

/// Says that a worker's thread is over, even when it panicked.
struct Over(Arc<Link>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.end();
    }
}

fn pin(worker: usize, config: WorkerConfig) -> Result<(), EngineError> {
    let Some(cpu) = config.cpu else { return Ok(()) };
    let mut set = CpuSet::new();
    if cpu < CpuSet::MAX_CPU {
        set.set(cpu);
    }
    sched_setaffinity(None, &set).map_err(|reason| EngineError::Pin { worker, cpu, reason })
}
