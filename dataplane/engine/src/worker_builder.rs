//! Builds stages and starts their threads: parts, CPU pinning, and setup before the first round.

use crate::capture::Running;
use crate::clock::Clock;
use crate::command::Event;
use crate::config::{EngineError, QueueFull, WorkerConfig};
use crate::counters::WorkerCounters;
use crate::debts::WorkDebts;
use crate::handoff::{self, Handoffs, store};
use crate::inline::{Inline, run_inline};
use crate::link::{Doorbell, Link, ResponseLimit};
use crate::model::{HandoffConfig, Order, Role};
use crate::rounds;
use crate::sleeper::Sleeper;
use crate::stage::{CoScheduled, Deliver, Distributor, NewStage};
use crate::worker::{Alone, Parts, Peer, Sharing, Stage as Joined, Worker};
use mem::copy::Choice;
use mem::pool::Pool;
use port::{Pipeline, Rss};
use rustix::thread::{CpuSet, Pid, gettid, sched_setaffinity};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{Builder, JoinHandle};

/// What each worker thread does before its first round.
type Prepare = dyn Fn() -> std::io::Result<()> + Send + Sync;

static PREPARE: OnceLock<Box<Prepare>> = OnceLock::new();

/// Sets what each worker thread of this process does before its first round, such as giving up rights. A worker for
/// which it fails does not start. Only the first call has an effect.
pub fn at_worker_start(prepare: impl Fn() -> std::io::Result<()> + Send + Sync + 'static) {
    let _ = PREPARE.set(Box::new(prepare));
}

/// Parts shared by all stages of an engine.
pub(crate) struct WorkerBuilder {
    pub(crate) events: Mutex<Sender<Event>>,
    pub(crate) doorbell: Doorbell,
    pub(crate) response_limit: ResponseLimit,
    pub(crate) kernel: Choice,
    pub(crate) clock: Clock,
    pub(crate) max_ports: usize,
    pub(crate) rss: Rss,
    pub(crate) handoffs: Option<HandoffConfig>,
    pub(crate) pool: Option<Arc<Pool>>,
    /// Debts of ports for work behind handoff queues; present if there are handoff queues.
    pub(crate) debts: Option<Arc<WorkDebts>>,
    /// Whether idle workers steal bursts.
    pub(crate) steals: bool,
    /// Whether workers run inline, without threads.
    pub(crate) merges: bool,
}

/// One stage, as seen by the engine.
pub(crate) struct Stage {
    /// Of this stage, and of those that had its index before.
    pub(crate) counters: Arc<WorkerCounters>,
    pub(crate) link: Arc<Link>,
    pub(crate) place: (Option<usize>, Role),
    /// Whether the stage has ended. Another one with its role may get the index.
    pub(crate) removed: bool,
}

impl Stage {
    /// Whether it runs the configured pipeline.
    pub(crate) fn classifiers(&self) -> bool {
        matches!(self.place.1, Role::All | Role::Work)
    }
}

/// A thread, and its stages.
pub(crate) struct Thread {
    pub(crate) handle: JoinHandle<()>,
    /// `None` for the auxiliary thread of an inline worker.
    pub(crate) id: Option<Pid>,
    pub(crate) stages: Vec<usize>,
}

/// All stages and threads.
#[derive(Default)]
pub(crate) struct WorkerSet {
    /// By index. A removed stage keeps its index, and the counts of ports that it made.
    pub(crate) stages: Vec<Stage>,
    /// Those that run, oldest first.
    pub(crate) threads: Vec<Thread>,
    /// Handles of inline workers, until they are taken.
    pub(crate) inline: Vec<Inline>,
    pub(crate) captures: Vec<Running>,
}

impl WorkerSet {
    /// Counters of all stages, including removed ones.
    pub(crate) fn counters(&self) -> Vec<Arc<WorkerCounters>> {
        self.stages.iter().map(|stage| stage.counters.clone()).collect()
    }

    /// Stages that run, with their indices.
    pub(crate) fn running(&self) -> impl Iterator<Item = (usize, &Stage)> {
        self.stages.iter().enumerate().filter(|(_, stage)| !stage.removed)
    }

    /// Links of the stages that run the configured pipeline, except `removed`.
    pub(crate) fn classifiers(&self, removed: &[usize]) -> Arc<[Arc<Link>]> {
        let stages = self.without(removed).filter(|stage| stage.classifiers());
        stages.map(|stage| stage.link.clone()).collect()
    }

    /// All stages except `removed`, for workers that share queues.
    pub(crate) fn peers(&self, removed: &[usize]) -> Arc<[Peer]> {
        let peer =
            |Stage { link, counters, .. }: &Stage| Peer { link: link.clone(), counters: counters.clone() };
        self.without(removed).map(peer).collect()
    }

    /// Stages that run, except `removed`.
    fn without(&self, removed: &[usize]) -> impl Iterator<Item = &Stage> {
        self.running().filter(|(index, _)| !removed.contains(index)).map(|(_, stage)| stage)
    }

    /// Indices for new stages with these different roles: those of removed stages, as far as there are any.
    pub(crate) fn free_indices(&self, roles: &[Role]) -> Vec<usize> {
        let mut new = self.stages.len()..;
        let removed = |role| self.stages.iter().position(|stage| stage.removed && stage.place.1 == role);
        roles.iter().filter_map(|role| removed(*role).or_else(|| new.next())).collect()
    }

    /// Adds a stage under an index of [`WorkerSet::free_indices`]. It joins the captures that run.
    pub(crate) fn insert(&mut self, index: usize, stage: Stage) -> NewStage {
        self.captures.iter().for_each(|capture| capture.begin_on(&stage));
        let new = NewStage { index, role: stage.place.1, link: stage.link.clone() };
        match self.stages.get_mut(index) {
            Some(place) => *place = stage,
            None => self.stages.push(stage),
        }
        new
    }

    /// Position of the thread that has this stage, among those that run.
    pub(crate) fn thread_of(&self, stage: usize) -> Option<usize> {
        self.threads.iter().position(|thread| thread.stages.contains(&stage))
    }
}

impl WorkerBuilder {
    /// Builds a stage. `classify` creates the configured pipeline for stages that run it. `counters` are those of the
    /// stage that had its index before.
    pub(crate) fn build(
        &self,
        (config, role): (WorkerConfig, Role),
        counters: Option<Arc<WorkerCounters>>,
        classify: impl FnOnce() -> Box<dyn Pipeline>,
    ) -> Result<(Stage, Parts), EngineError> {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let link = Arc::new(Link::new(events, self.doorbell.clone(), self.response_limit.clone())?);
        let counters = counters.unwrap_or_else(|| Arc::new(WorkerCounters::new(self.max_ports)));
        let pipeline: Box<dyn Pipeline> = match role {
            Role::All | Role::Work => classify(),
            // Until the stage is joined, its packets have no handoff queue and are dropped.
            Role::Rx => {
                Box::new(Distributor::new(Order::default(), self.rss, &[handoff::port(self.max_ports, 0)]))
            }
            Role::Tx => Box::new(Deliver),
        };
        let waits =
            role != Role::Tx && self.handoffs.is_some_and(|handoffs| handoffs.full == QueueFull::Wait);
        let numbers = self.max_ports + if self.handoffs.is_some() { handoff::MAX_STAGES } else { 0 };
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
            rss: self.rss,
        };
        Ok((Stage { counters, link, place: (config.cpu, role), removed: false }, parts))
    }

    /// Starts the thread of these stages, which has the number of the first one in its name. Returns once it is
    /// pinned.
    pub(crate) fn start(
        &self,
        stages: Vec<usize>,
        config: WorkerConfig,
        parts: Vec<Parts>,
    ) -> Result<Thread, EngineError> {
        let index = stages.first().copied().unwrap_or_default();
        let (pinned, is_pinned) = channel();
        let over: Vec<_> = parts.iter().map(|parts| EndOnDrop(parts.link.clone())).collect();
        let (connections, steals) = (self.pool.clone().zip(self.debts.clone()), self.steals);
        let body = move || {
            let _over = over;
            let pinned_to = |cpu| pin(index, cpu, None);
            let result = config.cpu.map_or(Ok(()), pinned_to).and_then(|()| prepare()).map(|()| gettid());
            let runs = result.is_ok();
            // Cannot fail: the starter waits for this message.
            let _ = pinned.send(result);
            if runs {
                run(config, parts, connections, steals);
            }
        };
        let handle = Builder::new().name(format!("worker-{index}")).spawn(body)?;
        let id = is_pinned.recv().unwrap_or(Err(EngineError::Stopping))?;
        Ok(Thread { handle, id: Some(id), stages })
    }
}

/// Creates an inline handle and an auxiliary thread for each stage.
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
fn run(
    config: WorkerConfig,
    stages: Vec<Parts>,
    connections: Option<(Arc<Pool>, Arc<WorkDebts>)>,
    steals: bool,
) {
    let stages = stages.into_iter();
    match connections {
        Some((pool, debts)) => {
            store::open(&pool);
            let staged = |parts| Worker::new(config, parts, Joined::new(debts.clone()));
            rounds::run(CoScheduled(stages.map(staged).collect()));
        }
        // Without handoff queues, a thread has exactly one stage.
        None if steals => {
            stages.map(|parts| Worker::new(config, parts, Sharing::default())).for_each(rounds::run);
        }
        None => stages.map(|parts| Worker::new(config, parts, Alone)).for_each(rounds::run),
    }
}

/// Marks the worker as ended when its thread ends, also after a panic.
struct EndOnDrop(Arc<Link>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Prepares the calling thread for packets, and then gives up rights.
fn prepare() -> Result<(), EngineError> {
    port::prepare_thread();
    PREPARE.get().map_or(Ok(()), |prepare| prepare().map_err(EngineError::Start))
}

/// Pins a thread; `None` is the calling one.
pub(crate) fn pin(worker: usize, cpu: usize, thread: Option<Pid>) -> Result<(), EngineError> {
    let mut set = CpuSet::new();
    if cpu < CpuSet::MAX_CPU {
        set.set(cpu);
    }
    sched_setaffinity(thread, &set).map_err(|reason| EngineError::Pin { worker, cpu, reason })
}
