//! Starting and stopping: threads, pinning, and the way in for ports.

use crate::attachment::Placement;
use crate::clock::Clock;
use crate::command::Command;
use crate::config::{EngineConfig, EngineError, Pipelines, WorkerConfig};
use crate::control::{Control, Request};
use crate::counters::WorkerCounters;
use crate::link::{Bell, Link};
use crate::sleeper::Sleeper;
use crate::snapshot::{Registry, Snapshot, worker_snapshot};
use crate::worker::{Parts, Worker};
use mem::copy::Choice;
use mem::ticks;
use port::{PortControl, PortId};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// How long the ticks are compared with the clock at the start.
const CALIBRATION: Duration = Duration::from_millis(5);

/// A running engine.
pub struct Engine {
    config: EngineConfig,
    started: Instant,
    start_ticks: u64,
    kernel: Choice,
    counters: Vec<Arc<WorkerCounters>>,
    links: Vec<Arc<Link>>,
    registry: Arc<Registry>,
    requests: Sender<Request>,
    bell: Bell,
    control: Option<JoinHandle<()>>,
    workers: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Engine {
    /// Starts the workers and the control thread. No port exists yet.
    pub fn start(config: EngineConfig, pipelines: &dyn Pipelines) -> Result<Self, EngineError> {
        if config.workers.is_empty() {
            return Err(EngineError::NoWorkers);
        }
        let kernel = mem::copy::settle(mem::copy::choose(ticks));
        let (started, start_ticks) = (Instant::now(), ticks());
        std::thread::sleep(CALIBRATION);
        let ticks_per_ns = (ticks() - start_ticks) as f64 / started.elapsed().as_nanos() as f64;
        let bell = Bell::new()?;
        let (event_tx, events) = channel();
        let (requests, request_rx) = channel();
        let mut engine = Self {
            started,
            start_ticks,
            kernel,
            counters: Vec::new(),
            links: Vec::new(),
            registry: Arc::default(),
            requests,
            bell: bell.clone(),
            control: None,
            workers: Vec::new(),
            config,
        };
        for index in 0..engine.config.workers.len() {
            let link = Arc::new(Link::new(event_tx.clone(), bell.clone())?);
            engine.start_worker(index, link, pipelines.worker(index), ticks_per_ns)?;
        }
        let control = Control {
            placement: Placement::new(engine.links.clone(), Clock { start: start_ticks, ticks_per_ns }),
            ports: BTreeMap::new(),
            requests: request_rx,
            events,
            bell,
            registry: engine.registry.clone(),
        };
        engine.control = Some(Builder::new().name("control".into()).spawn(move || control.run())?);
        Ok(engine)
    }

    fn start_worker(
        &mut self,
        index: usize,
        link: Arc<Link>,
        pipeline: Box<dyn crate::Pipeline>,
        ticks_per_ns: f64,
    ) -> Result<(), EngineError> {
        let config = self.config.workers[index];
        let counters = Arc::new(WorkerCounters::new(self.config.max_ports));
        self.counters.push(counters.clone());
        self.links.push(link.clone());
        let sleeper = Sleeper::new(link.bell.clone())?;
        let parts = Parts {
            link,
            counters,
            pipeline,
            kernel: self.kernel,
            ticks_per_ns,
            start: self.start_ticks,
            max_ports: self.config.max_ports,
            workers: self.config.workers.len(),
            spread: self.config.spread,
            sleeper,
        };
        let (pinned, is_pinned) = channel();
        let over = Over(parts.link.clone());
        let body = move || {
            let _over = over;
            let result = pin(index, config);
            let runs = result.is_ok();
            // The starter waits for this answer, so it is there to take it.
            let _ = pinned.send(result);
            if runs {
                port::prepare_thread();
                Worker::new(config, parts).run();
            }
        };
        self.workers.push(Builder::new().name(format!("worker-{index}")).spawn(body)?);
        is_pinned.recv().unwrap_or(Err(EngineError::Stopping))
    }

    /// Hands a port to the control thread, which brings it to life.
    pub fn add_port(&self, name: &str, control: Box<dyn PortControl>) -> Result<PortId, EngineError> {
        let id = self.reserve(name)?;
        self.add_reserved(id, control)?;
        Ok(id)
    }

    /// Takes a number for a port named `name`, so that pipelines can learn of it before its first packet.
    pub fn reserve(&self, name: &str) -> Result<PortId, EngineError> {
        self.registry.reserve(name, self.config.max_ports, &self.counters)
    }

    /// Hands the port with a reserved number to the control thread.
    pub fn add_reserved(&self, id: PortId, control: Box<dyn PortControl>) -> Result<(), EngineError> {
        self.registry.update(id, control.status(), control.details());
        self.request(Request::Add(id, control))
    }

    /// Closes a port: its queues stop, its memory and its sockets go.
    ///
    /// # Errors
    /// With [`EngineError::WorkerHung`] the port is closed, but a worker may still use its rings and memory, which
    /// are kept until it answers. Its number stays taken so long and is the engine's to free: there is no port with
    /// that number until it is given to another one.
    pub fn remove_port(&self, id: PortId) -> Result<(), EngineError> {
        if !self.registry.contains(id) {
            return Err(EngineError::NoSuchPort(id.0));
        }
        let (reply, closed) = channel();
        self.request(Request::Remove(id, reply))?;
        match closed.recv().map_err(|_| EngineError::Stopping)? {
            Some(worker) => Err(EngineError::WorkerHung(worker)),
            None => Ok(()),
        }
    }

    fn request(&self, request: Request) -> Result<(), EngineError> {
        self.requests.send(request).map_err(|_| EngineError::Stopping)?;
        self.bell.ring();
        Ok(())
    }

    /// The state of everything, now.
    pub fn snapshot(&self) -> Snapshot {
        let uptime = self.started.elapsed();
        let workers = self.counters.iter().zip(&self.config.workers).enumerate();
        let (ports, removed) = self.registry.ports(&self.counters);
        Snapshot {
            uptime_ns: uptime.as_nanos() as u64,
            cycles_per_second: (ticks() - self.start_ticks) as f64 / uptime.as_secs_f64(),
            kernel: self.kernel.name().to_owned(),
            workers: workers.map(|(i, (c, config))| worker_snapshot(i, config.cpu, c)).collect(),
            ports,
            removed,
        }
    }

    /// Closes every port and ends every thread.
    ///
    /// # Errors
    /// With [`EngineError::WorkerHung`] everything has ended but that worker, which keeps what it holds.
    pub fn stop(mut self) -> Result<(), EngineError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), EngineError> {
        // Errors mean that the thread has ended already, which is what is wanted.
        let _ = self.request(Request::Quit);
        if let Some(control) = self.control.take() {
            let _ = control.join();
        }
        let quits: Vec<_> = self.links.iter().map(|link| link.post(Command::Quit)).collect();
        let mut ended = Ok(());
        for (index, worker) in self.workers.drain(..).enumerate() {
            if self.links[index].wait(quits[index]) {
                let _ = worker.join();
            } else {
                ended = Err(EngineError::WorkerHung(index));
            }
        }
        ended
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Nobody is left to be told of a worker that hangs.
        let _ = self.end();
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
