//! The loop of one core: receive, process, send, all on the calling thread.
//!
//! A round takes one burst from each receive queue and runs it to completion: stack, application, transmission. When
//! nothing was due for a while, an adaptive host enables the kicks of its ports, looks again, and sleeps until a kick,
//! a timer of the stack or an event of a port's control. A flag that stops the host is looked at in each round, and at
//! least ten times per second in sleep, because a signal handler can only set a flag.

use crate::clock::Clock;
use crate::frame::Memory;
use crate::inspect::Inspection;
use crate::link::{Interface, Ports};
use crate::split::RemoteLimits;
use crate::spread::{Spread, SpreadCounts, Spreader};
use crate::{Buffer, BufferPool, PoolLimits, Received};
use engine::{LocalPort, Polling, PortShare};
use mem::copy::{Kernel, chosen};
use port::{Flush, Now, PLACES, PortFault, Retainer};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::BorrowedFd;
use stack::ip::{InterfaceConfig, InterfaceId};
use stack::tcp::{ConnectionId, ListenerId};
use stack::{Closed, ConnectError, Counters, Event, ListenError, Stack, Time};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::{Duration, Instant};

mod answer;
mod wait;

/// Minimum number of rounds without work before a sleep.
const IDLE_ROUNDS: u32 = 256;
/// Interval of port control while polling, in nanoseconds.
const CONTROL_INTERVAL: u64 = 1_000_000;
/// Maximum time between two looks at the stop flag.
const MAX_SLEEP: Duration = Duration::from_millis(100);
/// Maximum sleep while frames wait for room of a port, which does not announce it.
const ROOM_INTERVAL: Duration = Duration::from_micros(500);
/// Interval between two looks at ports that are not ready.
const CONNECT_INTERVAL: Duration = Duration::from_millis(2);
/// Maximum number of packets whose heads are retained while their rest stays in a port's memory.
const LENT_PACKETS: u32 = 4096;

/// An application of a host. `S` is the stack, or stands for it on another thread ([`crate::Remote`]).
pub trait App<S = Stack<Buffer>> {
    /// Handles an event of the stack.
    fn event(&mut self, stack: &mut S, event: Event<Buffer>, now: Time);

    /// Does work that no event announces, after the events of each round and before transmission. Must do a bounded
    /// amount of work. Returns whether there was any.
    #[inline]
    fn poll(&mut self, _stack: &mut S, _now: Time) -> bool {
        false
    }

    /// Makes new work signal one of [`App::wake_fds`]. Returns `false` if there is work now. [`App::resume`] follows in
    /// both cases.
    fn prepare_sleep(&mut self) -> bool {
        true
    }

    /// Descriptors that end a sleep when they are readable.
    fn wake_fds(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    /// Ends the preparation for a sleep.
    fn resume(&mut self) {}

    /// Latest time of the next call of [`App::poll`]; [`Time::NEVER`] if nothing is due.
    fn deadline(&self) -> Time {
        Time::NEVER
    }

    /// Handles the loss of a port that carried packets: its name and its state as text. Called between two rounds.
    fn port_lost(&mut self, _name: &str, _state: &str) {}

    /// Handles the failure of [`crate::Calls::connect`] on another thread than the stack's. By default, an event that the
    /// connection was closed.
    fn connect_failed(&mut self, stack: &mut S, connection: ConnectionId, error: ConnectError, now: Time) {
        let reason = match error {
            ConnectError::NoRoute => Closed::Unreachable,
            ConnectError::InUse | ConnectError::TooMany => Closed::Aborted,
        };
        self.event(stack, Event::Closed { connection, reason }, now);
    }

    /// Handles the failure of [`crate::Calls::listen`] on another thread than the stack's.
    fn listen_failed(&mut self, _stack: &mut S, _listener: ListenerId, _error: ListenError, _now: Time) {}
}

/// No application, for a caller that takes the events itself.
struct NoApp;

impl App for NoApp {
    fn event(&mut self, _stack: &mut Stack<Buffer>, _event: Event<Buffer>, _now: Time) {}
}

/// Settings of a host.
#[derive(Clone, Debug)]
pub struct Options {
    /// Settings of the stack.
    pub stack: stack::Config,
    /// Whether an idle host sleeps.
    pub polling: Polling,
    /// Time without work before it sleeps.
    pub idle: Duration,
    /// Memory for received data.
    pub pool: PoolLimits,
    /// Called with one line of text when a port starts or stops carrying packets or its addresses change, between two
    /// rounds.
    pub on_port: fn(&str),
}

impl Options {
    /// Default settings, with a random secret.
    ///
    /// # Errors
    /// If the kernel has no random bytes.
    pub fn new() -> std::io::Result<Self> {
        let mut secret = [0; 16];
        rustix::rand::getrandom(&mut secret[..], rustix::rand::GetRandomFlags::empty())?;
        let (stack, pool) = (stack::Config::new(secret), PoolLimits::default());
        Ok(Self { stack, polling: Polling::Adaptive, idle: Duration::from_micros(50), pool, on_port: |_| () })
    }
}

/// Result of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Counters of the stack.
    pub counters: Counters,
    /// Rounds with and without work, and sleeps.
    pub rounds: (u64, u64, u64),
    /// Frames that the ports accepted and lost.
    pub dropped: u64,
    /// Faults of ports.
    pub faults: u64,
    /// Packets of ports that are shared with other workers.
    pub spread: SpreadCounts,
    /// State of a port as text, if all ports have ended ([`Host::ended`]).
    pub ended: Option<String>,
}

impl Report {
    /// Adds the result of another host.
    pub fn add(&mut self, other: &Self) {
        self.counters.add(&other.counters);
        let (one, more) = (&mut self.rounds, other.rounds);
        (one.0, one.1, one.2) = (one.0 + more.0, one.1 + more.1, one.2 + more.2);
        self.dropped += other.dropped;
        self.faults += other.faults;
        self.spread.add(&other.spread);
        self.ended = self.ended.take().or_else(|| other.ended.clone());
    }
}

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
        mem::copy::settle(mem::copy::choose(mem::ticks));
        let clock = Clock::new();
        Ok(Self {
            ports: Ports::default(),
            stack: Stack::new(options.stack, clock.now()),
            clock,
            memory: Memory { pool: BufferPool::new(options.pool), retainer: Retainer::new(LENT_PACKETS)? },
            polling: options.polling,
            idle: options.idle.as_nanos() as u64,
            on_port: options.on_port,
            controlled: Time::default(),
            is_port_lost: false,
            rounds: (0, 0, 0),
            inspection: None,
        })
    }

    /// Adds a port as an interface of the stack, and opens it.
    pub fn add_port(&mut self, mut port: LocalPort, config: InterfaceConfig) -> InterfaceId {
        port.open(Instant::now());
        self.ports.interfaces.push(Interface::new(port, None));
        self.stack.add_interface(config)
    }

    /// Adds a share of a port as an interface of the stack.
    pub fn add_share(&mut self, share: PortShare, rule: Spread, config: InterfaceConfig) -> InterfaceId {
        let spreader = Spreader::new(rule, share.exchange);
        self.ports.interfaces.push(Interface::new(share.port, Some(spreader)));
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

    /// The first port that carries no packets, with its state as text.
    pub fn not_ready(&self) -> Option<(&str, String)> {
        let port =
            self.ports.interfaces.iter().map(|interface| &interface.port).find(|port| !port.is_ready())?;
        Some((port.name(), port.state()))
    }

    /// State of the first port as text, if no port will ever carry packets again, such as one whose grant was revoked.
    pub fn ended(&self) -> Option<String> {
        let has_ended =
            !self.ports.interfaces.is_empty() && self.ports.interfaces.iter().all(|own| own.has_ended);
        let first = self.ports.interfaces.first().filter(|_| has_ended)?;
        Some(first.port.state())
    }

    /// Whether each port has a queue pair on this thread.
    pub(crate) fn has_pairs(&self) -> bool {
        self.ports.interfaces.iter().all(|interface| interface.port.has_pair())
    }

    /// Waits until all ports carry packets. Returns `false` if `stop` was set or all ports have ended before.
    pub fn connect(&mut self, stop: &AtomicBool) -> bool {
        loop {
            self.control(self.clock.now());
            if self.not_ready().is_none() || stop.load(Ordering::Relaxed) || self.ended().is_some() {
                return self.not_ready().is_none();
            }
            std::thread::sleep(CONNECT_INTERVAL);
        }
    }

    /// Runs one round, for a caller with a loop of its own. Returns whether there was any work. The caller runs
    /// [`Host::control`] from time to time.
    pub fn poll(&mut self, app: &mut impl App) -> bool {
        let now = self.clock.now();
        mem::with_kernel!(chosen(), K => self.round::<K>(app, now))
    }

    /// Sleeps until there may be work, at most `limit`, for a caller with a loop of its own; then runs the ports' control.
    /// Returns at once if packets or work of the application are pending, or if the host does not sleep
    /// ([`Polling::Busy`]).
    pub fn rest(&mut self, app: &mut impl App, limit: Duration) {
        if self.polling == Polling::Adaptive && self.sleep(app, limit) {
            self.rounds.2 += 1;
        }
    }

    /// Whether the ports' control is due.
    pub fn is_control_due(&self, now: Time) -> bool {
        now.0 - self.controlled.0 > CONTROL_INTERVAL
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
        let mut spread = SpreadCounts::default();
        let spreaders = self.ports.interfaces.iter().filter_map(|interface| interface.spreader.as_ref());
        spreaders.for_each(|spreader| spread.add(&spreader.counts()));
        let ports = || self.ports.interfaces.iter().map(|interface| &interface.port);
        Report {
            counters: *self.stack.counters(),
            rounds: self.rounds,
            dropped: ports().map(LocalPort::dropped).sum(),
            faults: ports().map(LocalPort::faults).sum(),
            spread,
            ended: self.ended(),
        }
    }

    fn run_with<K: Kernel>(&mut self, app: &mut impl App, stop: &AtomicBool) {
        let (mut idle_rounds, mut worked_at) = (0, self.clock.now());
        while !stop.load(Ordering::Relaxed) {
            let now = self.clock.now();
            if self.is_control_due(now) {
                self.control(now);
                self.report_loss(app, stop);
            }
            if self.round::<K>(app, now) {
                self.rounds.0 += 1;
                (idle_rounds, worked_at) = (0, now);
                continue;
            }
            self.rounds.1 += 1;
            idle_rounds += 1;
            // On SMT, a tight poll loop takes cycles from the sibling thread.
            std::hint::spin_loop();
            let is_idle = idle_rounds > IDLE_ROUNDS && now.0 - worked_at.0 > self.idle;
            if is_idle && self.polling == Polling::Adaptive && self.sleep(app, MAX_SLEEP) {
                self.rounds.2 += 1;
                self.report_loss(app, stop);
                (idle_rounds, worked_at) = (0, self.clock.now());
            }
        }
        self.ports.flush(self.clock.now());
        self.flush_delayed(Flush::All);
        self.notify();
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
            let Interface { port, spreader, .. } = interface;
            came += port.receive(
                1,
                || Now(now.0),
                |burst| {
                    burst.load_heads::<K>();
                    let Some(spreader) = spreader else {
                        if let Some(capture) = capture {
                            capture.received::<K>(burst, &PLACES[..burst.len()]);
                        }
                        for i in 0..burst.len() {
                            stack.receive(number, &mut Received::<K>::new(burst, i, memory), now);
                        }
                        return;
                    };
                    let own = spreader.split(burst);
                    if let Some(capture) = capture {
                        capture.received::<K>(burst, own.as_slice());
                    }
                    for &i in own.as_slice() {
                        stack.receive(number, &mut Received::<K>::new(burst, i.into(), memory), now);
                    }
                    spreader.release(burst);
                },
            );
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
            interface.spreader.iter_mut().for_each(Spreader::notify);
        }
    }

    /// Reports a port that stopped carrying packets since the last call. Sets `stop` if all ports have ended, after the
    /// events of their connections.
    fn report_loss(&mut self, app: &mut impl App, stop: &AtomicBool) {
        if !std::mem::take(&mut self.is_port_lost) {
            return;
        }
        if let Some((name, state)) = self.not_ready() {
            app.port_lost(name, &state);
        }
        if self.ended().is_some() {
            let now = self.clock.now();
            while let Some(event) = self.stack.poll_event() {
                app.event(&mut self.stack, event, now);
            }
            stop.store(true, Ordering::Relaxed);
        }
    }

    /// Runs the control of all ports, and answers a question of an [`crate::Inspector`].
    pub fn control(&mut self, now: Time) {
        self.controlled = now;
        let instant = Instant::now();
        for (number, interface) in (0..).map(InterfaceId).zip(&mut self.ports.interfaces) {
            interface.port.poll_control(instant);
            let ends = interface.ends();
            if ends {
                abort_connections(&mut self.stack, number);
            }
            if interface.update() | ends {
                let port = &interface.port;
                let state = if port.is_ready() { "connected".to_owned() } else { port.state() };
                self.is_port_lost |= !port.is_ready();
                (self.on_port)(&format!("port {}: {state}", port.name()));
            }
        }
        if self.stack.take_address_change() {
            self.report_addresses();
        }
        self.answer_question();
    }

    #[cold]
    fn report_addresses(&self) {
        for (number, interface) in (0..).map(InterfaceId).zip(&self.ports.interfaces) {
            let addresses: Vec<_> = self.stack.addresses(number).map(|own| own.to_string()).collect();
            let text = if addresses.is_empty() { "none".to_owned() } else { addresses.join(", ") };
            (self.on_port)(&format!("port {}: addresses {text}", interface.port.name()));
        }
    }

    /// Sends frames that ports hold back.
    fn flush_delayed(&mut self, due: Flush) {
        let now = Now(self.clock.now().0);
        let interfaces = self.ports.interfaces.iter_mut();
        if interfaces.fold(false, |sent, interface| interface.port.flush(now, due) | sent) {
            self.notify();
        }
    }

    /// Sleeps until there may be work, at most for `limit`. Returns `false`, without sleeping, if packets or work of the
    /// application are pending.
    #[cold]
    fn sleep(&mut self, app: &mut impl App, limit: Duration) -> bool {
        self.flush_delayed(Flush::All);
        let interfaces = self.ports.interfaces.iter_mut();
        let is_quiet = interfaces.fold(true, |all, interface| all & interface.port.enable_notification());
        let may_sleep = app.prepare_sleep() && is_quiet;
        if may_sleep {
            self.sleep_for(self.sleep_limit(app.deadline(), limit), &app.wake_fds());
        }
        app.resume();
        self.ports.interfaces.iter_mut().for_each(|interface| interface.port.disable_notification());
        if may_sleep {
            self.control(self.clock.now());
        }
        may_sleep
    }

    /// Time until the next timer of the application (`deadline`), the stack or a port, at most `limit`.
    fn sleep_limit(&self, deadline: Time, limit: Duration) -> Duration {
        let limit = if self.has_backlog() { limit.min(ROOM_INTERVAL) } else { limit };
        let due = self.stack.deadline().min(deadline);
        let of_stack = Duration::from_nanos(due.0.saturating_sub(self.clock.now().0));
        let deadlines = self.ports.interfaces.iter().filter_map(|interface| interface.port.deadline());
        let instant = Instant::now();
        let of_ports = deadlines.map(|at| at.saturating_duration_since(instant)).min();
        limit.min(of_stack).min(of_ports.unwrap_or(limit))
    }

    /// Waits for a kick or an event of a port's control.
    fn sleep_for(&self, limit: Duration, of_app: &[BorrowedFd<'_>]) {
        let fds = self.ports.interfaces.iter().flat_map(|interface| interface.port.wake_fds());
        let fds = fds.chain(of_app.iter().copied()).chain(self.inspection.iter().map(Inspection::fd));
        let mut fds: Vec<_> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let limit = Timespec { tv_sec: limit.as_secs().cast_signed(), tv_nsec: limit.subsec_nanos().into() };
        // An interrupted sleep counts as a wake-up.
        let _ = poll(&mut fds, Some(&limit));
    }
}

/// Ends the connections of an interface whose port has ended. Their events have the reason.
#[cold]
fn abort_connections(stack: &mut Stack<Buffer>, interface: InterfaceId) {
    let own: Vec<_> = stack.addresses(interface).map(|own| own.address).collect();
    let of_port = stack.connections().filter(|connection| own.contains(&connection.local.address));
    let of_port: Vec<_> = of_port.map(|connection| connection.connection).collect();
    for connection in of_port {
        stack.abort(connection);
    }
}
