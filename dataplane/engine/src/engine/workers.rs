//! Workers: their threads, and workers that are added, removed or changed while ports stay connected.

use super::Engine;
use crate::command::Command;
use crate::config::{EngineError, WorkerConfig};
use crate::control::{NotChanged, Request};
use crate::handoff::MAX_STAGES;
use crate::model::{Model, Role};
use crate::placement::QueueAffinity;
use crate::stage::{NewStage, StageChange};
use crate::worker_builder::{Thread, pin, run_all_inline};
use port::Pipelines;
use rustix::thread::{sched_getaffinity, sched_setaffinity};
use std::sync::mpsc::channel;
use std::sync::{MutexGuard, PoisonError};

impl Engine {
    /// Adds a worker with its own thread to the running engine, without packet loss: a stage with this role in a
    /// pipeline, otherwise a worker with [`Role::All`]. `rules` replace those for receive queues; `None` if they stay.
    /// Returns the index of the stage, which is that of a removed one if there is any.
    ///
    /// All queues stop for two burst boundaries; queues without a rule may start on the new worker.
    ///
    /// # Errors
    /// Returns an error, with nothing changed, if the model has no such role, workers are inline, the maximum number of
    /// stages is reached, a worker hangs, or the kernel refuses the thread, its CPU or a descriptor.
    pub fn add_worker(
        &self,
        role: Role,
        config: WorkerConfig,
        rules: Option<QueueAffinity>,
        pipelines: &dyn Pipelines,
    ) -> Result<usize, EngineError> {
        let _changing = self.changing();
        let roles: &[Role] = match (&self.model, role) {
            (Model::Pipeline(_), Role::Rx | Role::Work | Role::Tx) => &[role],
            (Model::SoftwareRss(_), Role::All) => &[Role::All, Role::Rx],
            (Model::RunToCompletion | Model::Stealing, Role::All) if !self.worker_builder.merges => {
                &[Role::All]
            }
            _ => {
                return Err(EngineError::Roles(format!(
                    "no worker of this engine has the role `{}`",
                    role.name()
                )));
            }
        };
        let last = self.worker_set().free_indices(roles).into_iter().max();
        if self.model.handoffs().is_some() && last.is_some_and(|last| last >= MAX_STAGES) {
            let reason = format!("there are {MAX_STAGES} stages already, which is the maximum");
            return Err(EngineError::Roles(reason));
        }
        let added = self.start_thread(config, roles, pipelines)?;
        let indices: Vec<_> = added.iter().map(|stage| stage.index).collect();
        if let Err(why) = self.change_stages(added, Vec::new(), rules) {
            self.end_stages(&indices);
            return Err(why);
        }
        Ok(indices[0])
    }

    /// Removes a stage of a pipeline, or a worker of another model, without packet loss: other workers continue its
    /// queues and flows. `rules` replace those for receive queues; `None` if they stay. Ports keep the counts that it
    /// made.
    ///
    /// # Errors
    /// Returns an error, with nothing changed, if there is no such worker, it is the last one of its role, or a worker
    /// hangs.
    pub fn remove_worker(&self, index: usize, rules: Option<QueueAffinity>) -> Result<(), EngineError> {
        let _changing = self.changing();
        let stages = self.removed_with(index)?;
        self.change_stages(Vec::new(), stages.clone(), rules)?;
        self.end_stages(&stages);
        Ok(())
    }

    /// The indices of the stages of each thread that runs, oldest thread first.
    pub fn threads(&self) -> Vec<Vec<usize>> {
        self.worker_set().threads.iter().map(|thread| thread.stages.clone()).collect()
    }

    /// The kernel's number of the thread that runs this stage. Returns `None` if there is no such stage, or another
    /// party runs it.
    pub fn thread_id(&self, index: usize) -> Option<u32> {
        let worker_set = self.worker_set();
        let position = worker_set.thread_of(index)?;
        worker_set.threads[position].id.map(|id| id.as_raw_pid().unsigned_abs())
    }

    /// Changes CPU, polling and the handling of full queues of the thread that has this stage; its queues keep running.
    ///
    /// # Errors
    /// Returns an error, with nothing changed, if there is no such worker, or the kernel refuses the CPU.
    pub fn set_worker(&self, index: usize, config: WorkerConfig) -> Result<(), EngineError> {
        let _changing = self.changing();
        let mut worker_set = self.worker_set();
        let position = worker_set.thread_of(index).ok_or(EngineError::NoSuchWorker(index))?;
        let Thread { id: Some(id), stages, .. } = &worker_set.threads[position] else {
            return Err(EngineError::Roles("a worker without a thread has no CPU and no polling".into()));
        };
        if let Some(cpu) = config.cpu {
            pin(index, cpu, Some(*id))?;
        } else {
            let any = sched_getaffinity(None).and_then(|cpus| sched_setaffinity(Some(*id), &cpus));
            any.map_err(|why| EngineError::Start(why.into()))?;
        }
        for stage in stages.clone() {
            let stage = &mut worker_set.stages[stage];
            stage.place.0 = config.cpu;
            stage.link.post(Command::Configure(config));
        }
        Ok(())
    }

    /// Starts a thread with these roles, whose stages have no queues yet.
    pub(super) fn start_thread(
        &self,
        config: WorkerConfig,
        roles: &[Role],
        pipelines: &dyn Pipelines,
    ) -> Result<Vec<NewStage>, EngineError> {
        let mut worker_set = self.worker_set();
        let indices = worker_set.free_indices(roles);
        let (mut stages, mut parts) = (Vec::new(), Vec::new());
        for (&index, &role) in indices.iter().zip(roles) {
            let before = worker_set.stages.get(index).map(|stage| stage.counters.clone());
            let earlier = worker_set.stages.iter().take(index).filter(|stage| stage.classifiers()).count();
            let (stage, part) =
                self.worker_builder.build((config, role), before, || pipelines.worker(earlier))?;
            stages.push(stage);
            parts.push(part);
        }
        if self.worker_builder.merges {
            for (&stage, (inline, handle)) in indices.iter().zip(run_all_inline(indices[0], config, parts)?) {
                worker_set.inline.push(inline);
                worker_set.threads.push(Thread { handle, id: None, stages: vec![stage] });
            }
        } else {
            let thread = self.worker_builder.start(indices.clone(), config, parts)?;
            worker_set.threads.push(thread);
        }
        let places = indices.into_iter().zip(stages);
        Ok(places.map(|(index, stage)| worker_set.insert(index, stage)).collect())
    }

    /// The stages that are removed with this one: those of its thread, or in a pipeline itself alone.
    fn removed_with(&self, index: usize) -> Result<Vec<usize>, EngineError> {
        let worker_set = self.worker_set();
        let position = worker_set.thread_of(index).ok_or(EngineError::NoSuchWorker(index))?;
        let role = worker_set.stages[index].place.1;
        if worker_set.running().filter(|(_, stage)| stage.place.1 == role).count() == 1 {
            return Err(EngineError::LastWorker(index, role.name()));
        }
        Ok(match self.model {
            Model::Pipeline(_) => vec![index],
            _ => worker_set.threads[position].stages.clone(),
        })
    }

    /// Has the control thread change the stages.
    fn change_stages(
        &self,
        added: Vec<NewStage>,
        removed: Vec<usize>,
        rules: Option<QueueAffinity>,
    ) -> Result<(), EngineError> {
        let (peers, classifiers) = {
            let worker_set = self.worker_set();
            (worker_set.peers(&removed), worker_set.classifiers(&removed))
        };
        self.classifiers.set(classifiers);
        let (reply, changed) = channel();
        self.request(Request::ChangeStages(StageChange { added, removed, peers, rules }, reply))?;
        let changed = changed.recv().map_err(|_| EngineError::Stopping)?;
        if changed.is_err() {
            self.classifiers.set(self.worker_set().classifiers(&[]));
        }
        changed.map_err(|why| match why {
            NotChanged::NotStopped(failed) => self.not_done(failed),
            NotChanged::NotJoined(why) => EngineError::Start(why),
        })
    }

    /// Ends stages without queues, and their thread if it has no others. A stage that hangs ends when it continues.
    fn end_stages(&self, stages: &[usize]) {
        let mut worker_set = self.worker_set();
        let mut is_hung = false;
        for &index in stages {
            let stage = &mut worker_set.stages[index];
            stage.removed = true;
            is_hung |= !stage.link.wait(stage.link.post(Command::Quit));
            stage.link.end();
        }
        for thread in &mut worker_set.threads {
            thread.stages.retain(|stage| !stages.contains(stage));
        }
        let (gone, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut worker_set.threads)
            .into_iter()
            .partition(|thread: &Thread| thread.stages.is_empty());
        worker_set.threads = rest;
        for thread in gone.into_iter().filter(|_| !is_hung) {
            drop(thread.handle.join());
        }
    }

    fn changing(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
