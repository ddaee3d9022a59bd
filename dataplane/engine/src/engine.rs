//! Starts and stops the engine: threads, CPU pinning, and the public interface to ports.

mod handover;
mod start;
mod workers;

use crate::balance::{Balance, QueueLoad, Rebalancing, Sample, balance};
use crate::command::{Command, QueueKey};
use crate::config::{EngineConfig, EngineError};
use crate::control::{Latest, Request};
use crate::injector::{Classifiers, Injector};
use crate::inline::Inline;
use crate::link::Doorbell;
use crate::model::Model;
use crate::placement::QueueAffinity;
use crate::snapshot::{Registry, Snapshot, worker_snapshot};
use crate::worker_builder::{WorkerBuilder, WorkerSet};
use mem::ticks;
use port::{Now, Pipelines, PortControl, PortId};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A running engine.
pub struct Engine {
    config: EngineConfig,
    model: Model,
    started: Instant,
    worker_builder: WorkerBuilder,
    worker_set: Mutex<WorkerSet>,
    classifiers: Classifiers,
    /// Held while workers are added, removed or changed.
    changing: Mutex<()>,
    registry: Arc<Registry>,
    requests: Sender<Request>,
    doorbell: Doorbell,
    control: Option<JoinHandle<()>>,
    latest: Arc<Latest>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Engine {
    /// Starts run-to-completion workers and the control thread, without ports.
    pub fn start(config: EngineConfig, pipelines: &dyn Pipelines) -> Result<Self, EngineError> {
        Self::start_as(config, Model::RunToCompletion, pipelines)
    }

    /// [`Engine::start`] with the execution model `model`.
    pub fn start_as(
        config: EngineConfig,
        model: Model,
        pipelines: &dyn Pipelines,
    ) -> Result<Self, EngineError> {
        Self::build(config, model, (false, Duration::ZERO), pipelines)
    }

    /// [`Engine::start_as`] for an engine that continues another one: its clock is `age` ahead.
    pub fn continue_as(
        config: EngineConfig,
        model: Model,
        pipelines: &dyn Pipelines,
        age: Duration,
    ) -> Result<Self, EngineError> {
        Self::build(config, model, (false, age), pipelines)
    }

    /// Starts workers without threads. A worker forwards when its [`Inline`] is called, in the context of the caller;
    /// [`crate::WorkerConfig::cpu`] and `polling` are ignored. [`Engine::set_queue_affinity`] assigns queues to
    /// workers; by default a port goes to the worker with the fewest receive queues.
    pub fn start_inline(
        config: EngineConfig,
        pipelines: &dyn Pipelines,
    ) -> Result<(Self, Vec<Inline>), EngineError> {
        let engine = Self::build(config, Model::RunToCompletion, (true, Duration::ZERO), pipelines)?;
        let inline = std::mem::take(&mut engine.worker_set().inline);
        Ok((engine, inline))
    }

    /// Ignores poisoning: a panic leaves the lists valid.
    pub(crate) fn worker_set(&self) -> MutexGuard<'_, WorkerSet> {
        self.worker_set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a port: passes it to the control thread, which starts it.
    pub fn add_port(&self, name: &str, control: Box<dyn PortControl>) -> Result<PortId, EngineError> {
        let id = self.reserve(name)?;
        self.add_reserved(id, control)?;
        Ok(id)
    }

    /// Reserves a number for a port named `name`, so that pipelines can be configured before its first packet.
    pub fn reserve(&self, name: &str) -> Result<PortId, EngineError> {
        self.registry.reserve(name, self.config.max_ports, &self.worker_set().counters())
    }

    /// Passes the port with a reserved number to the control thread.
    pub fn add_reserved(&self, id: PortId, control: Box<dyn PortControl>) -> Result<(), EngineError> {
        self.registry.update(id, control.status(), control.details());
        self.request(Request::Add(id, control))
    }

    /// [`Engine::add_reserved`] with software RSS: each packet is handed to the worker of its flow, independent of the
    /// worker that serves the queue. Requires [`Model::SoftwareRss`]. A pipeline does this for every port; in the other
    /// models it is the same as [`Engine::add_reserved`].
    pub fn add_rss_port(&self, id: PortId, control: Box<dyn PortControl>) -> Result<(), EngineError> {
        self.registry.update(id, control.status(), control.details());
        self.request(Request::AddRssPort(id, control))
    }

    /// Removes a port: stops its queues and closes its memory and sockets.
    ///
    /// # Errors
    /// Returns [`EngineError::WorkerHung`] if a worker may still use the rings and memory of the closed port. They
    /// are kept until that worker answers. The engine frees the port number then; until it is reused, no port has
    /// that number.
    pub fn remove_port(&self, id: PortId) -> Result<(), EngineError> {
        if !self.registry.contains(id) {
            return Err(EngineError::NoSuchPort(id.0));
        }
        let (reply, closed) = channel();
        self.request(Request::Remove(id, reply))?;
        match closed.recv().map_err(|_| EngineError::Stopping)? {
            Some(worker) => Err(self.hung(worker)),
            None => Ok(()),
        }
    }

    /// Sets the time after which a worker that does not respond is treated as hung; the default is 5 s.
    pub fn set_response_limit(&self, limit: Duration) {
        self.worker_builder.response_limit.set(limit);
    }

    fn hung(&self, worker: usize) -> EngineError {
        EngineError::WorkerHung { worker, limit: self.worker_builder.response_limit.get() }
    }

    /// Sets the rules that assign receive queues to workers. They apply to queues that start from now on.
    pub fn set_queue_affinity(&self, affinity: QueueAffinity) -> Result<(), EngineError> {
        self.request(Request::SetQueueAffinity(affinity))
    }

    /// Enables load monitoring and, if configured, moving of receive queues; `None` disables it.
    pub fn watch_load(&self, wanted: Option<Rebalancing>) -> Result<(), EngineError> {
        self.request(Request::Rebalance(wanted))
    }

    /// Last result of load monitoring.
    pub fn latest_balance(&self) -> Option<Balance> {
        self.latest.get()
    }

    /// Every receive queue with its worker and its packet count since it was started there.
    pub fn queues(&self) -> Result<Vec<QueueLoad>, EngineError> {
        let sample = self.load_sample()?;
        let (found, _) =
            balance((&Sample::default(), &sample), 1.0, |_| true, |port| self.registry.name(port));
        Ok(found.queues.into_iter().map(|queue| QueueLoad { load: 0.0, ..queue }).collect())
    }

    /// Measures load for `over`, blocking, and proposes moves of receive queues that reduce the load of the busiest
    /// worker by at least `threshold` (share of a core). With `moves`, executes them without packet loss.
    pub fn rebalance(&self, over: Duration, threshold: f64, moves: bool) -> Result<Balance, EngineError> {
        let before = self.load_sample()?;
        std::thread::sleep(over);
        let now = self.load_sample()?;
        let (mut found, steps) =
            balance((&before, &now), threshold, |_| false, |port| self.registry.name(port));
        if moves && !steps.is_empty() {
            let (reply, failures) = channel();
            self.request(Request::Move(steps, reply))?;
            let failures = failures.recv().map_err(|_| EngineError::Stopping)?;
            found.moves.iter_mut().zip(failures).for_each(|(step, failure)| step.failure = failure);
            found.done = true;
        }
        Ok(found)
    }

    fn load_sample(&self) -> Result<Sample, EngineError> {
        let (reply, sample) = channel();
        self.request(Request::ReportLoad(reply))?;
        sample.recv().map_err(|_| EngineError::Stopping)
    }

    /// Moves the receive queue of one pair to worker `to` (index among the workers that receive packets).
    ///
    /// # Errors
    /// Returns the reason if the move failed; the queue stays on its worker.
    pub fn move_queue(&self, id: PortId, pair: u16, to: usize) -> Result<(), EngineError> {
        let (reply, failures) = channel();
        self.request(Request::Move(vec![(QueueKey { port: id, pair }, to)], reply))?;
        let failure = failures.recv().map_err(|_| EngineError::Stopping)?.pop().flatten();
        failure.map_or(Ok(()), |why| Err(EngineError::NotMoved(why)))
    }

    fn request(&self, request: Request) -> Result<(), EngineError> {
        self.requests.send(request).map_err(|_| EngineError::Stopping)?;
        self.doorbell.ring();
        Ok(())
    }

    /// Injects frames into the pipelines of workers.
    pub fn injector(&self) -> Injector {
        Injector::new(self.classifiers.clone(), self.config.max_ports)
    }

    /// Zero of [`Engine::now`], in nanoseconds since the Unix epoch.
    pub(crate) fn epoch(&self) -> u64 {
        self.worker_builder.clock.epoch()
    }

    /// Ticks of [`mem::ticks`] per nanosecond.
    pub(crate) fn ticks_per_ns(&self) -> f64 {
        self.worker_builder.clock.ticks_per_ns
    }

    /// Current time, as in a burst begun now.
    pub fn now(&self) -> Now {
        self.worker_builder.clock.now()
    }

    /// A snapshot of the current state.
    pub fn snapshot(&self) -> Snapshot {
        let uptime = self.started.elapsed();
        let worker_set = self.worker_set();
        let (ports, removed) = self.registry.ports(&worker_set.counters());
        Snapshot {
            budget: crate::snapshot::BudgetSnapshot::default(),
            uptime_ns: uptime.as_nanos() as u64,
            cycles_per_second: (ticks() - self.worker_builder.clock.start) as f64 / uptime.as_secs_f64(),
            kernel: self.worker_builder.kernel.name().to_owned(),
            workers: worker_set
                .running()
                .map(|(i, stage)| worker_snapshot(i, stage.place, &stage.counters))
                .collect(),
            ports,
            removed,
        }
    }

    /// Closes every port and joins every thread.
    ///
    /// # Errors
    /// Returns [`EngineError::WorkerHung`] if a worker does not end; it keeps the resources that it holds, all others
    /// have ended.
    pub fn stop(mut self) -> Result<(), EngineError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), EngineError> {
        // An error means that the control thread has already ended.
        let _ = self.request(Request::Quit);
        if let Some(control) = self.control.take() {
            let _ = control.join();
        }
        let mut worker_set = self.worker_set();
        let quits: Vec<_> = worker_set.stages.iter().map(|stage| stage.link.post(Command::Quit)).collect();
        let mut ended = Ok(());
        for thread in std::mem::take(&mut worker_set.threads) {
            let hangs = |stage: &usize| !worker_set.stages[*stage].link.wait(quits[*stage]);
            match thread.stages.into_iter().find(hangs) {
                None => drop(thread.handle.join()),
                Some(stage) => ended = Err(self.hung(stage)),
            }
        }
        ended
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // A hung worker cannot be reported from here.
        let _ = self.end();
    }
}
