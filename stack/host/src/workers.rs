//! Hosts on several threads: one stack for each worker, under the same addresses, on shares of one port.
//!
//! A worker has queue pairs of its own as far as the port has enough, and its own connections, sockets, neighbours and
//! timers. Nothing is shared on the path of a packet; packets that arrive at another worker than their owner go through
//! handoff queues ([`crate::FlowSteering`]). Each worker resolves neighbours for itself, and all of them learn from
//! replies. The first worker obtains an address by DHCP for all.

use crate::distributor::steer;
use crate::lease::SharedLease;
use crate::{Activity, App, FlowSteering, Host, Indirection, Options, Part, Remote, Report, run_split};
use engine::{EngineError, PortShare, SharedPort};
use port::{PortControl, PortFault};
use stack::Affinity;
use stack::ip::{InterfaceConfig, InterfaceId};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Interval between two looks at ports that are not ready.
const CONNECT_INTERVAL: Duration = Duration::from_millis(1);
/// Maximum time from the first ready worker to the start. The port may have fewer queues than there are workers.
const CONNECT_GRACE: Duration = Duration::from_millis(500);

/// Maximum number of workers: each has a handoff queue to each other one.
pub const MAX_WORKERS: usize = 32;

/// How packets of a port reach their workers.
#[derive(Clone, Debug, Default)]
pub struct SteeringOptions {
    /// Owner of connections that peers open.
    pub rule: FlowSteering,
    /// How the port distributes packets, if known: active opens choose ports whose replies arrive at their worker.
    pub arrivals: Option<Arc<Indirection>>,
    /// Which workers receive new connections; `None` for all. Only with [`FlowSteering::Hash`].
    pub activity: Option<Arc<Activity>>,
}

/// Reason why workers did not start.
#[derive(Debug, thiserror::Error)]
pub enum WorkersError {
    /// The port cannot be divided.
    #[error(transparent)]
    Port(#[from] EngineError),
    /// A host has no memory.
    #[error(transparent)]
    Host(#[from] PortFault),
    /// More workers than handoff queues can connect.
    #[error("{0} workers are too many; at most {MAX_WORKERS} share a port")]
    TooMany(usize),
    /// The range of active workers does not end with the number of workers.
    #[error("at most {0} workers are active, and there are {1}")]
    Range(usize, usize),
}

/// One worker's share of a port ([`divide`]), an interface of its host ([`Host::add_share`]).
#[derive(Debug)]
pub struct Share {
    pub(crate) port: PortShare,
    pub(crate) lease: SharedLease,
    pub(crate) rule: FlowSteering,
    pub(crate) activity: Option<Arc<Activity>>,
    pub(crate) interface: InterfaceConfig,
}

/// Hosts without ports for `count` workers, in order. All stacks have the same secret.
///
/// # Errors
/// If there are too many, or memory cannot be allocated.
pub fn hosts(count: usize, options: &Options, steering: &SteeringOptions) -> Result<Vec<Host>, WorkersError> {
    if count > MAX_WORKERS {
        return Err(WorkersError::TooMany(count));
    }
    let host = |index: usize| {
        let mut options = options.clone();
        options.stack.affinity = affinity(index as u16, count as u16, steering);
        Host::new(options)
    };
    Ok((0..count).map(host).collect::<Result<_, _>>()?)
}

/// Opens a port and divides it among `count` workers, for the [`hosts`] of the same number in the same order. Their
/// interfaces on the port must have the same number. The port is dropped after the hosts.
///
/// # Errors
/// If the port cannot be divided.
pub fn divide(
    count: usize,
    (name, control): (&str, Box<dyn PortControl>),
    interface: &InterfaceConfig,
    steering: &SteeringOptions,
) -> Result<(SharedPort, Vec<Share>), WorkersError> {
    let (rule, activity) = (steering.rule, &steering.activity);
    if let Some((_, most)) = activity.as_ref().map(|own| own.range()).filter(|own| own.1 != count) {
        return Err(WorkersError::Range(most, count));
    }
    // A worker that owns flows by their hash must be able to send for all queues that the peer uses.
    let exclusive = rule == FlowSteering::Arrival;
    let leases = SharedLease::sides(count).map_err(EngineError::from)?;
    let (port, shares) = SharedPort::open(name, control, count, exclusive)?;
    let share =
        |(port, lease)| Share { port, lease, rule, activity: activity.clone(), interface: interface.clone() };
    Ok((port, shares.into_iter().zip(leases).map(share).collect()))
}

/// Hosts that share a port. Fields are dropped in order: the port is closed when no host uses its queues.
#[derive(Debug)]
pub struct Workers {
    hosts: Vec<Host>,
    port: SharedPort,
}

impl Workers {
    /// Creates `count` hosts with an interface on the port, and opens it. All stacks have the same secret.
    ///
    /// # Errors
    /// If the port cannot be divided, or memory cannot be allocated.
    pub fn open(
        count: usize,
        options: &Options,
        port: (&str, Box<dyn PortControl>),
        interface: &InterfaceConfig,
        steering: &SteeringOptions,
    ) -> Result<Self, WorkersError> {
        let mut hosts = hosts(count, options, steering)?;
        let (port, shares) = divide(count, port, interface, steering)?;
        for (host, share) in hosts.iter_mut().zip(shares) {
            host.add_share(share);
        }
        Ok(Self { hosts, port })
    }

    /// The hosts, to configure them alike. The interface of the port is [`InterfaceId`] 0.
    pub fn hosts(&mut self) -> &mut [Host] {
        &mut self.hosts
    }

    /// The interface on the shared port.
    pub const fn interface() -> InterfaceId {
        InterfaceId(0)
    }

    /// Waits until each worker has a queue pair; after the first one, at most for half a second, because the port may
    /// have fewer. Returns `false` if `stop` was set, or the port ended, before the first one.
    pub fn connect(&mut self, stop: &AtomicBool) -> bool {
        let mut first: Option<Instant> = None;
        loop {
            self.hosts.iter_mut().for_each(|host| host.control(host.now()));
            let ready = self.hosts.iter().filter(|host| host.not_ready().is_none()).count();
            let all = self.hosts.iter().all(Host::has_pairs);
            if ready > 0 {
                first.get_or_insert_with(Instant::now);
            }
            let has_ended = self.hosts.iter().all(|host| host.ended().is_some());
            let is_over = first.is_some_and(|first| first.elapsed() > CONNECT_GRACE);
            if all || is_over || has_ended || stop.load(Ordering::Relaxed) {
                return ready > 0;
            }
            std::thread::sleep(CONNECT_INTERVAL);
        }
    }

    /// Runs each host with its application on a thread of its own until `stop` is set. `on_start` is called on each
    /// thread first, with the number of the worker, and places the thread.
    ///
    /// # Panics
    /// If an application panics. The other threads end before.
    pub fn run<A: App + Send>(
        &mut self,
        apps: &mut [A],
        on_start: impl Fn(usize, Part) + Sync,
        stop: &AtomicBool,
    ) {
        std::thread::scope(|scope| {
            for (index, (host, app)) in self.hosts.iter_mut().zip(apps).enumerate() {
                let on_start = &on_start;
                scope.spawn(move || {
                    let _guard = StopOnPanic(stop);
                    on_start(index, Part::Stack);
                    host.run(app, stop);
                });
            }
        });
    }

    /// Like [`Workers::run`], with another thread for each application. `yields` is as in [`run_split`].
    ///
    /// # Errors
    /// If the kernel refuses a descriptor.
    ///
    /// # Panics
    /// If an application panics. The other threads end before.
    pub fn run_split<A: App<Remote> + Send>(
        &mut self,
        apps: &mut [A],
        yields: bool,
        on_start: impl Fn(usize, Part) + Sync,
        stop: &Arc<AtomicBool>,
    ) -> std::io::Result<()> {
        let on_start = &on_start;
        std::thread::scope(|scope| {
            let threads = self.hosts.iter_mut().zip(apps).enumerate().map(|(index, (host, app))| {
                scope.spawn(move || {
                    let ended = run_split(host, app, yields, &|part| on_start(index, part), stop);
                    // The flows of a worker that did not start would be lost.
                    ended.inspect_err(|_| stop.store(true, Ordering::Relaxed))
                })
            });
            let threads: Vec<_> = threads.collect();
            let mut ended = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
            ended.try_for_each(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })
    }

    /// Closes the port. Returns the counters of each worker.
    pub fn close(self) -> Vec<Report> {
        let Self { hosts, port } = self;
        let reports = hosts.into_iter().map(Host::close).collect();
        drop(port);
        reports
    }
}

/// Place of a worker's stack.
fn affinity(index: u16, count: u16, steering: &SteeringOptions) -> Affinity {
    let home = steering.arrivals.clone().map(|arrivals| -> Arc<stack::Home> {
        Arc::new(move |local, remote| arrivals.worker(local, remote) == index)
    });
    let owners = match steering.rule {
        FlowSteering::Hash => Some(Arc::new(Indirection::symmetric(count))),
        FlowSteering::Arrival => steering.arrivals.clone(),
    };
    let activity = steering.activity.clone();
    let flows = owners.map(|owners| -> Arc<stack::Flows> {
        Arc::new(move |local, remote| match &activity {
            Some(activity) => steer::owner(owners.flow_hash(local, remote), activity.active()) as u16,
            None => owners.worker(local, remote),
        })
    });
    Affinity::new(index, count, home).with_flows(flows)
}

/// Stops the other threads if this one panics.
pub(crate) struct StopOnPanic<'a>(pub(crate) &'a AtomicBool);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}
