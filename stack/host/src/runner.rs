//! The loop of one core: receive, process, send, all on the calling thread.
//!
//! A round takes one burst from each receive queue and runs it to completion: stack, application, transmission. When
//! nothing was due for a while, an adaptive host enables the kicks of its ports, looks again, and sleeps until a kick,
//! a timer of the stack or an event of a port's control. A flag that stops the host is looked at in each round, and at
//! least ten times per second in sleep, because a signal handler can only set a flag.

use crate::clock::Clock;
use crate::distributor::{Distributor, DistributorCounts};
use crate::frame::Memory;
use crate::inspect::Inspection;
use crate::link::{Interface, Ports};
use crate::scale::Meter;
use crate::split::RemoteLimits;
use crate::{Buffer, BufferPool, Received, Share};
use engine::{LocalPort, Polling};
use mem::copy::{Kernel, chosen};
use port::{Flush, Now, PLACES, PortFault, Retainer};
use sleep::MAX_SLEEP;
use stack::ip::{InterfaceConfig, InterfaceId};
use stack::{Handoff, Stack, Time};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::{Duration, Instant};

mod answer;
mod app;
mod control;
mod options;
mod sleep;
mod wait;

pub use app::App;
pub use options::{Options, Report};

/// Minimum number of rounds without work before a sleep.
const IDLE_ROUNDS: u32 = 256;
/// Maximum number of events that an application gets after the end of its host.
const LAST_EVENTS: usize = 65_536;
/// Maximum number of packets whose heads are retained while their rest stays in a port's memory.
const LENT_PACKETS: u32 = 4096;

/// A host: ports, a stack and a clock on one thread.
pub struct Host {
    ports: Ports,
    stack: Stack<Buffer>,
    clock: Clock,
    memory: Memory,
    polling: Polling,
    idle: u64,
    on_port: fn(&str),
    /// Time of the last call of the ports' control.
    controlled: Time,
    /// Whether a port stopped carrying packets and the application does not know yet.
    is_port_lost: bool,
    rounds: (u64, u64, u64),
    /// Questions of other threads.
    inspection: Option<Inspection>,
    /// Present if the number of active workers changes.
    meter: Option<Meter>,
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("ports", &self.ports).finish_non_exhaustive()
    }
}

impl Host {
    /// A host without ports. Selects the fastest copy kernel of this process and calibrates the clock, which takes a
    /// tenth of a second. Must be called before ports are opened.
    ///
    /// # Errors
    /// [`PortFault::NoMemory`] if memory cannot be allocated.
    pub fn new(options: Options) -> Result<Self, PortFault> {
        mem::copy::settle_fastest(mem::ticks);
        let clock = Clock::new();
        let limits = options.pool.with_connections(options.stack.limits.connections);
        Ok(Self {
            ports: Ports::default(),
            stack: Stack::new(options.stack, clock.now()),
            clock,
            memory: Memory { pool: BufferPool::new(limits), retainer: Retainer::new(LENT_PACKETS)? },
            polling: options.polling,
            idle: options.idle.as_nanos() as u64,
            on_port: options.on_port,
            controlled: Time::default(),
            is_port_lost: false,
            rounds: (0, 0, 0),
            inspection: None,
            meter: None,
        })
    }

    /// Adds a port as an interface of the stack, and opens it.
    pub fn add_port(&mut self, mut port: LocalPort, config: InterfaceConfig) -> InterfaceId {
        port.open(Instant::now());
        self.ports.interfaces.push(Interface::new(port));
        self.stack.add_interface(config)
    }

    /// Adds a share of a port as an interface of the stack.
    pub fn add_share(&mut self, share: Share) -> InterfaceId {
        let Share { port, lease, rule, activity, interface: config } = share;
        let (index, now) = (port.exchange.index(), self.clock.now());
        self.meter = activity.clone().map(|activity| Meter::new(activity, index, now));
        let mut interface = Interface::new(port.port);
        interface.distributor = Some(Distributor::new(rule, port.exchange, activity));
        interface.lease = Some(lease);
        self.ports.interfaces.push(interface);
        self.stack.add_interface(config)
    }

    /// Number of ports.
    pub fn interfaces(&self) -> usize {
        self.ports.interfaces.len()
    }

    /// The stack.
    pub fn stack(&mut self) -> &mut Stack<Buffer> {
        &mut self.stack
    }

    /// Clock, and the time without work before a sleep in nanoseconds; `None` if the host does not sleep.
    pub(crate) fn pace(&self) -> (Clock, Option<u64>) {
        (self.clock, (self.polling == Polling::Adaptive).then_some(self.idle))
    }

    /// Limits of the stack for an application on another thread.
    pub(crate) fn remote_limits(&self) -> RemoteLimits {
        let limits = &self.stack.config().limits;
        let (send_buffer, connections) = (limits.send_buffer as usize, limits.connections as usize);
        RemoteLimits { send_buffer, connections }
    }

    /// Current time.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Runs one round, for a caller with a loop of its own. Returns whether there was any work. The caller runs
    /// [`Host::control`] from time to time.
    pub fn poll(&mut self, app: &mut impl App) -> bool {
        let now = self.clock.now();
        mem::with_kernel!(chosen(), K => self.round::<K>(app, now))
    }

    /// Sleeps until there may be work, at most `limit`, for a caller with a loop of its own; then runs the ports'
    /// control. Returns at once if packets or work of the application are pending, or if the host does not sleep
    /// ([`Polling::Busy`]).
    pub fn rest(&mut self, app: &mut impl App, limit: Duration) {
        if self.polling == Polling::Adaptive && self.sleep(app, limit) {
            self.rounds.2 += 1;
        }
    }

    /// Runs until `stop` is set, which it sets itself when all ports have ended.
    pub fn run(&mut self, app: &mut impl App, stop: &AtomicBool) {
        port::prepare_thread();
        mem::with_kernel!(chosen(), K => self.run_with::<K>(app, stop));
    }

    /// Gives leased addresses back, closes all ports and returns the counters.
    pub fn close(mut self) -> Report {
        let (now, ended) = (self.clock.now(), self.ended());
        self.stack.release_leases(now);
        self.share_leases(now);
        self.ports.now = now;
        self.stack.transmit(&mut self.ports, now);
        self.ports.flush(now);
        self.flush_delayed(Flush::All);
        self.notify();
        self.ports.interfaces.iter_mut().for_each(|interface| interface.port.close());
        Report { ended, ..self.report() }
    }

    /// Counters so far.
    fn report(&self) -> Report {
        let mut distributor_counts = DistributorCounts::default();
        let distributors =
            self.ports.interfaces.iter().filter_map(|interface| interface.distributor.as_ref());
        distributors.for_each(|distributor| distributor_counts.add(&distributor.counts()));
        self.meter.iter().for_each(|meter| distributor_counts.add(&meter.counts()));
        let ports = || self.ports.interfaces.iter().map(|interface| &interface.port);
        Report {
            counters: *self.stack.counters(),
            rounds: self.rounds,
            dropped: ports().map(LocalPort::dropped).sum(),
            faults: ports().map(LocalPort::faults).sum(),
            distributor: distributor_counts,
            ended: self.ended(),
        }
    }

    fn run_with<K: Kernel>(&mut self, app: &mut impl App, stop: &AtomicBool) {
        let (mut idle_rounds, mut worked_at) = (0, self.clock.now());
        while !stop.load(Ordering::Relaxed) {
            let now = self.clock.now();
            self.meter.iter_mut().for_each(|meter| meter.begin(now));
            if self.is_control_due(now) {
                self.control(now);
                self.report_loss(app, stop);
            }
            if self.round::<K>(app, now) {
                self.rounds.0 += 1;
                self.meter.iter_mut().for_each(|meter| meter.worked(now));
                (idle_rounds, worked_at) = (0, now);
                continue;
            }
            self.rounds.1 += 1;
            idle_rounds += 1;
            // On SMT, a tight poll loop takes cycles from the sibling thread.
            std::hint::spin_loop();
            let is_idle = idle_rounds > IDLE_ROUNDS && now.0 - worked_at.0 > self.idle;
            if is_idle && self.may_sleep() && self.sleep(app, MAX_SLEEP) {
                self.rounds.2 += 1;
                self.report_loss(app, stop);
                (idle_rounds, worked_at) = (0, self.clock.now());
            }
        }
        self.last_events(app);
        self.ports.flush(self.clock.now());
        self.flush_delayed(Flush::All);
        self.notify();
    }

    /// Passes the events of the last round on, so that the application has counted every connection whose end was sent.
    /// Their number is bounded, because an application may cause an event for each.
    fn last_events(&mut self, app: &mut impl App) {
        let now = self.clock.now();
        for _ in 0..LAST_EVENTS {
            let Some(event) = self.stack.poll_event() else { break };
            app.event(&mut self.stack, event, now);
        }
    }

    /// Whether an idle host sleeps: always, if it is a worker that is not active.
    fn may_sleep(&self) -> bool {
        self.polling == Polling::Adaptive || self.meter.as_ref().is_some_and(Meter::is_drained)
    }

    /// Runs one round. Returns whether there was any work.
    #[inline]
    fn round<K: Kernel>(&mut self, app: &mut impl App, now: Time) -> bool {
        let came = self.receive::<K>(now);
        let mut worked = came > 0;
        while let Some(event) = self.stack.poll_event() {
            app.event(&mut self.stack, event, now);
            worked = true;
        }
        worked |= app.poll(&mut self.stack, now);
        if let Some(meter) = &mut self.meter {
            meter.hold(self.stack.connection_count() > 0);
        }
        if worked || self.has_output(now) {
            worked |= self.send(now);
        }
        worked
    }

    /// Whether a timer is due or frames wait to be sent.
    #[inline]
    fn has_output(&self, now: Time) -> bool {
        self.stack.deadline() <= now || self.has_backlog()
    }

    /// Runs timers and sends what is due. Returns whether a port took frames.
    #[inline]
    fn send(&mut self, now: Time) -> bool {
        self.stack.advance(now);
        self.ports.now = now;
        self.stack.transmit(&mut self.ports, now);
        self.ports.flush(now);
        let interfaces = self.ports.interfaces.iter_mut();
        let sent = interfaces.fold(false, |sent, interface| interface.take_published() | sent);
        self.notify();
        sent
    }

    /// Passes one burst of each receive queue to the stack. Returns the number of frames.
    #[inline]
    fn receive<K: Kernel>(&mut self, now: Time) -> usize {
        let Self { ports, stack, memory, .. } = self;
        let Ports { interfaces, capture, .. } = ports;
        let mut came = 0;
        for (number, interface) in (0..).map(InterfaceId).zip(interfaces) {
            let Interface { port, distributor, .. } = interface;
            came += port.receive(
                1,
                || Now(now.0),
                |burst| {
                    burst.load_heads::<K>();
                    let Some(distributor) = distributor else {
                        if let Some(capture) = capture {
                            capture.received::<K>(burst, &PLACES[..burst.len()]);
                        }
                        for i in 0..burst.len() {
                            stack.receive(number, &mut Received::<K>::new(burst, i, memory), now);
                        }
                        return;
                    };
                    let own = distributor.split(burst, stack, now);
                    if let Some(capture) = capture {
                        capture.received::<K>(burst, own.as_slice());
                    }
                    for &i in own.as_slice() {
                        stack.receive(number, &mut Received::<K>::new(burst, i.into(), memory), now);
                    }
                    distributor.release(burst);
                },
            );
            while let Some(Handoff { to, frame }) = stack.take_handoff() {
                // Without a distributor, no other stack has the interface.
                interface
                    .distributor
                    .iter_mut()
                    .for_each(|distributor| distributor.hand_over(&frame, to.into()));
            }
            interface.port.prefetch();
        }
        came
    }

    fn has_backlog(&self) -> bool {
        self.ports.interfaces.iter().any(|interface| interface.backlog() > 0)
    }

    fn notify(&mut self) {
        // Orders published entries before the loads of the peers' suppression fields.
        fence(Ordering::SeqCst);
        for interface in &mut self.ports.interfaces {
            interface.port.notify();
            interface.distributor.iter_mut().for_each(Distributor::notify);
        }
    }
}
