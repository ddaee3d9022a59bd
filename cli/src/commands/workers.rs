//! Workers of a program: stacks on several threads, on the port of the command line.

use crate::api::stack::StackControl;
use crate::args::end::{EndArgs, SteeringRule, ThreadModel, WorkerArgs};
use crate::commands::end::End;
use crate::commands::{cpu, end};
use console::Diagnostic;
use host::{
    Activity, App, FlowSteering, Host, Indirection, Options, Part, Remote, Report, SteeringOptions, Workers,
};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Workers with their port.
pub(crate) struct WorkerSet {
    workers: Workers,
    /// Name of the port.
    name: String,
    activity: Option<Arc<Activity>>,
    args: WorkerArgs,
    _control: Option<StackControl>,
}

impl WorkerSet {
    /// Validates the arguments and opens the port. See [`end::End::open`].
    fn open(
        args: &EndArgs,
        workers: &WorkerArgs,
        role: &str,
        adjust: impl FnOnce(&mut Options),
    ) -> anyhow::Result<Self> {
        let port = end::port(args, role)?;
        end::routable(args)?;
        validate(args, workers)?;
        let mut options = end::options(args)?;
        adjust(&mut options);
        let rule = match workers.steering {
            SteeringRule::Hash => FlowSteering::Hash,
            SteeringRule::Arrival => FlowSteering::Arrival,
        };
        let config = end::interface(args);
        let control = end::open_port(args, &port)?;
        let rss = control.rss();
        let arrivals = rss.map(|rss| Arc::new(Indirection::of_port(&rss, workers.count() as u16)));
        let steering = SteeringOptions { rule, arrivals, activity: workers.activity() };
        let opened = Workers::open(workers.count(), &options, (&port.name, control), &config, &steering);
        let failed = |error| Diagnostic::failed(format!("port {}", port.name), error, "use fewer --workers");
        let mut opened = opened.map_err(failed)?;
        for host in opened.hosts() {
            end::configure(host, Workers::interface(), args);
        }
        let control = StackControl::open(args.control.as_deref(), opened.hosts())?;
        let (name, activity) = (port.name, steering.activity);
        Ok(Self { workers: opened, name, activity, args: workers.clone(), _control: control })
    }

    /// Waits for the port. Returns `false` if a signal came first.
    fn connect(&mut self, stop: &AtomicBool) -> bool {
        self.workers.hosts().iter().take(1).for_each(end::note_wait);
        self.workers.connect(stop)
    }

    /// Runs a program on each worker until `stop` is set. Returns the reports.
    fn run<A: App + App<Remote> + Send>(
        mut self,
        apps: &mut [A],
        stop: &Arc<AtomicBool>,
    ) -> std::io::Result<Vec<Report>> {
        let yields = match self.args.threads {
            ThreadModel::Unified => return Ok(self.run_unified(apps, stop)),
            ThreadModel::Split => false,
            ThreadModel::Merge => true,
        };
        let args = &self.args;
        self.workers.run_split(apps, yields, |worker, part| place(args, worker, part), stop)?;
        Ok(self.workers.close())
    }

    /// As [`WorkerSet::run`], for programs that run on the thread of the stack only.
    fn run_unified<A: App + Send>(mut self, apps: &mut [A], stop: &Arc<AtomicBool>) -> Vec<Report> {
        let args = &self.args;
        self.workers.run(apps, |worker, part| place(args, worker, part), stop);
        self.workers.close()
    }
}

/// One stack on this thread, or workers.
pub(crate) enum Hosts {
    One(Box<End>),
    Several(Box<WorkerSet>),
}

impl Hosts {
    /// Validates the arguments and opens the port. See [`End::open`].
    pub(crate) fn open(
        args: &EndArgs,
        workers: &WorkerArgs,
        role: &str,
        adjust: impl FnOnce(&mut Options),
    ) -> anyhow::Result<Self> {
        Ok(if workers.is_single() {
            Self::One(Box::new(End::open(&workers.single(args), role, adjust)?))
        } else {
            Self::Several(Box::new(WorkerSet::open(args, workers, role, adjust)?))
        })
    }

    /// Name of the port.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::One(end) => end.name.clone(),
            Self::Several(set) => set.name.clone(),
        }
    }

    /// Which workers receive new connections, if their number follows the load.
    pub(crate) fn activity(&self) -> Option<Arc<Activity>> {
        match self {
            Self::One(_) => None,
            Self::Several(set) => set.activity.clone(),
        }
    }

    /// The hosts, by worker.
    pub(crate) fn hosts(&mut self) -> &mut [Host] {
        match self {
            Self::One(end) => std::slice::from_mut(&mut end.host),
            Self::Several(set) => set.workers.hosts(),
        }
    }

    /// Waits for the port. Returns `false` if a signal came first, or the port has ended.
    pub(crate) fn connect(&mut self, stop: &AtomicBool) -> bool {
        match self {
            Self::One(end) => end.connect(stop),
            Self::Several(set) => set.connect(stop),
        }
    }

    /// Runs a program on each worker until `stop` is set, and closes the port. Returns the reports.
    pub(crate) fn run<A: App + App<Remote> + Send>(
        self,
        apps: &mut [A],
        stop: &Arc<AtomicBool>,
    ) -> std::io::Result<Vec<Report>> {
        match self {
            Self::Several(set) => set.run(apps, stop),
            Self::One(_) => Ok(self.run_unified(apps, stop)),
        }
    }

    /// As [`Hosts::run`], for programs that run on the thread of the stack only.
    pub(crate) fn run_unified<A: App + Send>(self, apps: &mut [A], stop: &Arc<AtomicBool>) -> Vec<Report> {
        match self {
            Self::One(mut end) => {
                for app in apps {
                    end.host.run(app, stop);
                }
                vec![end.host.close()]
            }
            Self::Several(set) => set.run_unified(apps, stop),
        }
    }

    /// Closes the port. Returns the reports.
    pub(crate) fn close(self) -> Vec<Report> {
        match self {
            Self::One(end) => vec![end.host.close()],
            Self::Several(set) => set.workers.close(),
        }
    }
}

/// Pins the thread of a worker to the CPU that the command line names for it.
fn place(args: &WorkerArgs, worker: usize, part: Part) {
    let of_part = usize::from(part == Part::App && args.threads == ThreadModel::Split);
    let at = worker * args.cpus_each() + of_part;
    if let Some(cpu) = args.cpus.get(at % args.cpus.len().max(1)) {
        // The CPU was validated; without affinity the thread still works.
        let _ = cpu::place(*cpu);
    }
}

fn validate(end: &EndArgs, workers: &WorkerArgs) -> Result<(), Diagnostic> {
    if end.cpu.is_some() {
        let reason = "it pins one thread, and there are several";
        return Err(Diagnostic::bad("--cpu", reason, "write --cpus with a list of CPUs"));
    }
    if workers.threads == ThreadModel::Merge && workers.cpus.is_empty() {
        let reason = "both threads of a worker must be on one CPU";
        return Err(Diagnostic::bad("--threads merge", reason, "add --cpus with a CPU for each worker"));
    }
    if workers.steering == SteeringRule::Arrival {
        workers.only_fixed("with --steering arrival, a worker receives what arrives on its queue")?;
    }
    if workers.threads != ThreadModel::Unified {
        workers.only_fixed("the load of a program with a thread of its own is not measured")?;
    }
    workers.cpus.iter().try_for_each(|cpu| cpu::validate("--cpus", *cpu))
}
