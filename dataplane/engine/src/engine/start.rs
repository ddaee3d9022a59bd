//! Start of an engine: checks, the parts that stages share, the stages, and the control thread.

use super::Engine;
use crate::attachment::Placement;
use crate::clock::Clock;
use crate::command::Event;
use crate::config::{EngineConfig, EngineError};
use crate::control::{Control, Request};
use crate::debts::WorkDebts;
use crate::handoff::{self, MAX_STAGES};
use crate::injector::Classifiers;
use crate::link::{Doorbell, Link, ResponseLimit};
use crate::model::{Model, Role};
use crate::stage::{Joiner, Layout};
use crate::worker_builder::WorkerBuilder;
use mem::pool::Pool;
use mem::ticks;
use port::Pipelines;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// Size of the port number space. Handoff queues use the numbers from `max_ports` on.
const NUMBERS: usize = 1 << 16;

impl Engine {
    /// Starts all threads. With `merges`, workers run inline. The clock begins at `age`.
    pub(super) fn build(
        config: EngineConfig,
        model: Model,
        (merges, age): (bool, Duration),
        pipelines: &dyn Pipelines,
    ) -> Result<Self, EngineError> {
        if config.workers.is_empty() {
            return Err(EngineError::NoWorkers);
        }
        let roles = model.roles(config.workers.len());
        check(&model, &roles, config.max_ports)?;
        let layout = Layout::new(&model, &roles.concat());
        let pool = pool(&config, &model, &layout)?;
        let joiner = model.handoffs().zip(pool.clone()).map(|(handoffs, pool)| Joiner {
            pool,
            handoffs,
            rss: config.rss,
            max_ports: config.max_ports,
        });
        let (started, doorbell) = (Instant::now(), Doorbell::new()?);
        let started = started.checked_sub(age).unwrap_or(started);
        let (event_tx, events) = channel();
        let (requests, request_rx) = channel();
        let mut worker_builder =
            worker_builder(&config, &model, &layout, (event_tx, doorbell.clone(), pool, merges));
        worker_builder.clock = worker_builder.clock.advanced(age);
        let mut engine = Self {
            model,
            started,
            worker_builder,
            worker_set: Mutex::default(),
            classifiers: Classifiers::default(),
            changing: Mutex::default(),
            registry: Arc::default(),
            requests,
            doorbell,
            control: None,
            latest: Arc::default(),
            config,
        };
        for (thread, roles) in roles.iter().enumerate() {
            engine.start_thread(engine.config.workers[thread], roles, pipelines)?;
        }
        engine.start_control(layout, joiner, (events, request_rx), pipelines)?;
        Ok(engine)
    }

    /// Connects the stages and starts the control thread.
    fn start_control(
        &mut self,
        layout: Layout,
        joiner: Option<Joiner>,
        (events, requests): (Receiver<Event>, Receiver<Request>),
        pipelines: &dyn Pipelines,
    ) -> Result<(), EngineError> {
        let links: Vec<Arc<Link>> = self.worker_set().stages.iter().map(|stage| stage.link.clone()).collect();
        if let Some(joiner) = &joiner {
            joiner.join(&links, &Layout::default(), &layout)?;
        }
        let placement = Placement::new(links, layout, self.worker_builder.clock);
        placement.tell_workers(&self.worker_set().peers(&[]));
        self.classifiers.set(self.worker_set().classifiers(&[]));
        let control = Control {
            placement,
            ports: BTreeMap::new(),
            requests,
            events,
            doorbell: self.doorbell.clone(),
            registry: self.registry.clone(),
            joiner,
            balancing: None,
            latest: self.latest.clone(),
            up: BTreeSet::new(),
            observer: pipelines.observer(),
            is_handed_over: false,
            not_handed_over: BTreeSet::new(),
        };
        self.control = Some(Builder::new().name("control".into()).spawn(move || control.run())?);
        Ok(())
    }
}

/// Buffers behind handoff queues; `None` if the model has no handoff queues.
fn pool(config: &EngineConfig, model: &Model, layout: &Layout) -> Result<Option<Arc<Pool>>, EngineError> {
    // Twice the number at start, so that stages can be added.
    let (connections, threads) = (2 * layout.connections().count(), 2 * config.workers.len());
    let pool = model.handoffs().map(|handoffs| handoff::pool(&handoffs, connections, threads));
    pool.transpose()
}

fn worker_builder(
    config: &EngineConfig,
    model: &Model,
    layout: &Layout,
    (events, doorbell, pool, merges): (Sender<Event>, Doorbell, Option<Arc<Pool>>, bool),
) -> WorkerBuilder {
    let handoffs = model.handoffs();
    WorkerBuilder {
        events: Mutex::new(events),
        doorbell,
        response_limit: ResponseLimit::default(),
        kernel: mem::copy::settle_fastest(ticks),
        clock: Clock::start(),
        max_ports: config.max_ports,
        rss: config.rss,
        handoffs,
        pool,
        debts: handoffs.map(|_| Arc::new(WorkDebts::new(config.max_ports))),
        steals: layout.steals,
        merges,
    }
}

/// Checks the number of stages and ports; for a pipeline also that every role has a thread and every thread a role.
fn check(model: &Model, roles: &[Vec<Role>], max_ports: usize) -> Result<(), EngineError> {
    let wrong = |reason: String| Err(EngineError::Roles(reason));
    let all = roles.concat();
    let handoffs = if model.handoffs().is_some() { MAX_STAGES } else { 0 };
    if max_ports + handoffs > NUMBERS {
        let most = NUMBERS - handoffs;
        return wrong(format!("{max_ports} ports are too many; at most {most} are supported"));
    }
    if handoffs > 0 && all.len() > MAX_STAGES {
        return wrong(format!(
            "there are at most {MAX_STAGES} stages, and these are {}; use fewer workers",
            all.len()
        ));
    }
    let Model::Pipeline(_) = model else { return Ok(()) };
    if let Some(thread) = roles.iter().position(Vec::is_empty) {
        return wrong(format!("worker {thread} has no role in the pipeline; give it one, or leave it out"));
    }
    match [Role::Rx, Role::Work, Role::Tx].into_iter().find(|role| !all.contains(role)) {
        Some(role) => wrong(format!("no worker has the role `{}`, so no packet would pass", role.name())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::HandoffConfig;

    #[test]
    fn too_many_stages_or_ports_are_rejected() {
        let software_rss = Model::SoftwareRss(HandoffConfig::default());
        let refused = |model: &Model, threads, ports| check(model, &model.roles(threads), ports).is_err();
        assert!(!refused(&software_rss, MAX_STAGES / 2, NUMBERS - MAX_STAGES));
        assert!(refused(&software_rss, MAX_STAGES / 2 + 1, 2), "each thread has two stages");
        assert!(refused(&software_rss, 1, NUMBERS - MAX_STAGES + 1));
        assert!(!refused(&Model::RunToCompletion, 1000, NUMBERS));
        assert!(refused(&Model::RunToCompletion, 1, NUMBERS + 1));
    }
}
