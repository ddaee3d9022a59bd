//! A worker: one thread that takes bursts from its receive queues, has them classified and sends them on.
//!
//! Run-to-completion, with one burst of overlap: while the lines of a burst just taken are on their way, the burst
//! before it is classified and sent. Between two bursts the worker looks at its mailbox; that is the burst boundary at
//! which everything that control wants happens. On the fast path nothing is allocated, locked or logged, and
//! nobody is waited for.
//!
//! A turn of a receive queue has a budget of work ([`port::work`]). What it does not suffice for is carried over to the
//! queue's later turns (`turns`), and queues share the worker by what they cost it (`account`).

mod account;
mod carried;
mod classify;
mod deliver;
mod rest;
mod staged;
mod stealing;
#[cfg(all(test, not(loom)))]
mod tests;
mod transmit;
mod turns;

pub(crate) use account::Account;
pub(crate) use stealing::Peer;

use crate::command::{Command, Event, QueueKey, Retired, Serial, Weight, Weights};
use crate::config::WorkerConfig;
use crate::counters::WorkerCounters;
use crate::debts::Debts;
use crate::hop::Hops;
use crate::lanes::TxSlot;
use crate::link::Link;
use crate::pipeline::Pipeline;
use crate::sleeper::Sleeper;
use account::Level;
use carried::Carried;
use classify::Classifier;
use mem::copy::Choice;
use mem::ticks;
use port::{Burst, Flush, Now, PortFault, PortId, RxQueue, Spread, Tally};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use transmit::{Transmit, TransmitParts};

/// A receive queue at its place in the round.
struct RxSlot {
    key: QueueKey,
    serial: Serial,
    queue: Box<dyn RxQueue>,
    dirty: bool,
    /// What it has brought. Nobody else's, so that counting costs one addition per burst; control asks for it.
    packets: u64,
    /// What it has used of the worker's time.
    account: Account,
    /// How much of its port's debt was added to that.
    settled: u64,
}

impl RxSlot {
    fn weight(&self) -> Weight {
        Weight { key: self.key, serial: self.serial, packets: self.packets }
    }
}

pub(crate) struct Worker {
    config: WorkerConfig,
    link: Arc<Link>,
    counters: Arc<WorkerCounters>,
    classifier: Classifier,
    out: Transmit,
    ticks_per_ns: f64,
    start: u64,
    now: Now,
    rx: Vec<RxSlot>,
    bursts: [Burst; 2],
    /// The burst that was taken but not yet classified, and its queue's place.
    pending: Option<(usize, usize)>,
    /// The burst to fill next.
    next: usize,
    /// What queues' meters are compared with.
    level: Level,
    /// Where there are hops: what ports owe for work behind them.
    debts: Option<Arc<Debts>>,
    /// Bursts to carry over with, used before.
    spares: Vec<Box<Carried>>,
    sleeper: Sleeper,
    obeyed: u64,
    /// Where queues are shared: those, and with whom.
    shared: stealing::Shared,
    /// Whether nothing is taken for now.
    paused: bool,
    /// Commands that were taken and wait for a hop to be drained, and the number of the last one that was taken.
    deferred: Vec<Command>,
    taken_upto: u64,
    /// While hops to this stage are drained: by receive queue, packets that may still be in it.
    draining: Option<Vec<u64>>,
    /// Where the last round stopped short because a hop was full.
    stopped_at: usize,
}

/// What a worker is made of besides its configuration.
pub(crate) struct Parts {
    pub(crate) link: Arc<Link>,
    pub(crate) counters: Arc<WorkerCounters>,
    pub(crate) pipeline: Box<dyn Pipeline>,
    pub(crate) kernel: Choice,
    pub(crate) ticks_per_ns: f64,
    pub(crate) start: u64,
    pub(crate) max_ports: usize,
    pub(crate) workers: usize,
    pub(crate) spread: Spread,
    pub(crate) sleeper: Sleeper,
    pub(crate) hops: Hops,
    pub(crate) debts: Option<Arc<Debts>>,
}

impl Worker {
    pub(crate) fn new(config: WorkerConfig, parts: Parts) -> Self {
        let transmit = TransmitParts {
            link: parts.link.clone(),
            counters: parts.counters.clone(),
            kernel: parts.kernel,
            max_ports: parts.max_ports,
            workers: parts.workers,
            spread: parts.spread,
            hops: parts.hops,
            staged: parts.debts.is_some(),
        };
        Self {
            out: Transmit::new(&config, transmit),
            config,
            link: parts.link,
            counters: parts.counters,
            classifier: Classifier::new(parts.pipeline, parts.kernel, parts.max_ports),
            ticks_per_ns: parts.ticks_per_ns,
            start: parts.start,
            now: Now::default(),
            rx: Vec::new(),
            bursts: [Burst::new(), Burst::new()],
            pending: None,
            next: 0,
            level: Level::NEW,
            debts: parts.debts,
            spares: Vec::new(),
            sleeper: parts.sleeper,
            obeyed: 0,
            shared: stealing::Shared::default(),
            paused: false,
            deferred: Vec::new(),
            taken_upto: 0,
            draining: None,
            stopped_at: 0,
        }
    }

    /// Runs until told to quit.
    pub(crate) fn run(mut self) {
        let (mut last, mut idle_since, mut idle_rounds) = (ticks(), ticks(), 0);
        loop {
            if self.link.mailbox.pending(self.obeyed) && !self.obey() {
                return;
            }
            let worked = self.round();
            let now = ticks();
            let spent = now - std::mem::replace(&mut last, now);
            if worked {
                self.counters.busy_ticks.add(spent);
                (idle_since, idle_rounds) = (now, 0);
            } else {
                self.counters.idle_ticks.add(spent);
                idle_rounds += 1;
                // Where the guest runs on this core's other thread, an eager poll takes its cycles.
                std::hint::spin_loop();
                if self.may_sleep(idle_rounds, now - idle_since) && self.sleep() {
                    // Sleep is neither busy nor idle: the processor was somebody else's.
                    last = ticks();
                    (idle_since, idle_rounds) = (last, 0);
                }
            }
        }
    }

    /// Polls every queue once. Whether there was any packet.
    #[inline]
    pub(crate) fn round(&mut self) -> bool {
        self.now = self.clock();
        if self.out.hops.waits() || self.paused {
            return self.restrained_round();
        }
        let mut worked = false;
        let mut at = 0;
        while at < self.rx.len() {
            worked |= self.poll(at);
            at += 1;
        }
        self.end_round(worked)
    }

    /// Sends a burst that nothing came behind, and tells others what there is for them.
    #[inline(always)]
    fn end_round(&mut self, worked: bool) -> bool {
        let left = self.pending.is_some() && !worked;
        if left {
            self.finish();
        }
        if let Some((_, at)) = self.pending {
            self.rx[at].account.note(&mut self.level);
        }
        self.level.end_round();
        if !self.out.keeping.is_empty() {
            self.out.flush(self.now, Flush::Waited);
        }
        self.notify();
        worked || left
    }

    /// Takes a burst from the queue at `at`, then classifies and sends the burst before it.
    #[inline]
    fn poll(&mut self, at: usize) -> bool {
        self.settle(at);
        if !self.rx[at].account.is_free(&self.level) && !self.begin_turn(at) {
            return true;
        }
        let mut tally = Tally::default();
        let burst = &mut self.bursts[self.next];
        let slot = &mut self.rx[at];
        burst.begin_limited(at, slot.account.limit());
        burst.set_now(self.now);
        let taken = slot.queue.rx(burst, &mut tally);
        let (got, work) = (!burst.is_untouched(), tally.work_of_receiving(burst.len()));
        let port = slot.key.port;
        self.counters.polls.add(1);
        let following = if at + 1 < self.rx.len() { at + 1 } else { 0 };
        self.rx[following].queue.prefetch();
        let filled = self.next;
        let before = self.pending.is_some();
        self.finish();
        if got {
            self.counters.ports[port.0 as usize].count_rx(&tally);
            self.counters.packets.add(tally.packets);
            self.counters.bursts.add(1);
            let slot = &mut self.rx[at];
            slot.packets += tally.packets;
            slot.account.begin(&self.level);
            if work > 0 {
                slot.account.add(work, &mut self.level);
            }
            self.pending = Some((filled, at));
            self.next = 1 - filled;
        } else {
            self.counters.empty_polls.add(1);
        }
        if let Err(fault) = taken {
            self.finish();
            self.lose_rx(at, fault);
        }
        got || before
    }

    /// Classifies and sends the pending burst and gives its buffers back, unless its turn ends before.
    #[inline]
    fn finish(&mut self) {
        let Some((index, at)) = self.pending.take() else { return };
        let from = self.origin(at, index);
        if self.rx[at].account.carries() {
            return self.with_account(at, |worker, account| worker.carry_behind(index, from, account));
        }
        let burst = &mut self.bursts[index];
        self.out.price = self.rx[at].account.price();
        self.classifier.classify(burst, from.port);
        if !self.out.send_all(burst, &mut self.classifier, from) {
            return self.carry_own(index, at, from);
        }
        let slot = &mut self.rx[at];
        slot.account.charge(self.out.spent, &mut self.level);
        slot.queue.complete(burst);
        slot.dirty = true;
        let beyond = self.out.spent.saturating_sub(self.out.credit.unwrap_or(u64::MAX));
        if slot.account.is_hop && beyond > 0 {
            let packets = burst.len();
            self.owe(from.port, beyond);
            self.set_price(from.port, beyond, packets);
        }
    }

    /// The port that a burst came in by owes `units` for work that was done behind a hop.
    #[cold]
    fn owe(&self, port: PortId, units: u64) {
        if let Some(debts) = &self.debts {
            debts.charge(port, units);
        }
    }

    /// That is what it will owe, or does, for so many packets.
    #[cold]
    fn set_price(&self, port: PortId, units: u64, packets: usize) {
        if let Some(debts) = self.debts.as_ref().filter(|_| units > 0) {
            debts.set_price(port, units, packets);
        }
    }

    /// Charges the queue at `at` with what its port has come to owe.
    #[inline(always)]
    fn settle(&mut self, at: usize) {
        let Some(debts) = &self.debts else { return };
        let owed = debts.of(self.rx[at].key.port);
        if owed != self.rx[at].settled {
            self.settle_for(at, owed, debts.price(self.rx[at].key.port));
        }
    }

    /// The queues that the port has here pay in equal parts.
    #[cold]
    fn settle_for(&mut self, at: usize, owed: u64, price: u64) {
        let port = self.rx[at].key.port;
        let queues = self.rx.iter().filter(|slot| slot.key.port == port).count() as u64;
        let slot = &mut self.rx[at];
        let debt = owed - std::mem::replace(&mut slot.settled, owed);
        slot.account.owe(debt / queues, price, &mut self.level);
    }

    /// Where a burst of the queue at `at` entered the switch.
    #[inline]
    fn origin(&self, at: usize, index: usize) -> QueueKey {
        if self.rx[at].account.is_hop { origin(&self.bursts[index]) } else { self.rx[at].key }
    }

    /// The time that ports and pipelines see, read once a round.
    #[inline(always)]
    fn clock(&self) -> Now {
        Now(((ticks() - self.start) as f64 / self.ticks_per_ns) as u64)
    }

    #[cold]
    fn lose_rx(&mut self, at: usize, fault: PortFault) {
        self.end_own(at);
        self.notify();
        let slot = self.take_rx(at);
        let retired = Some(Retired::Rx(slot.serial, slot.queue));
        self.link.report(Event { port: slot.key.port, serial: slot.serial, fault, retired });
    }

    /// A panic has left queues in no state to go on: each port that has some here is told, and control gets them.
    fn fail(&mut self) {
        self.pending = None;
        self.unpin();
        for slot in self.rx.drain(..) {
            self.sleeper.forget(slot.queue.kick_fd());
            let retired = Some(Retired::Rx(slot.serial, slot.queue));
            let (port, serial) = (slot.key.port, slot.serial);
            self.link.report(Event { port, serial, fault: PortFault::WorkerFailed, retired });
        }
        self.counters.queues.set(0);
        self.fail_shared();
        self.out.fail();
    }

    /// Lets go of all maps, but for those of bursts that are carried over.
    fn unpin(&mut self) {
        self.bursts.iter_mut().for_each(Burst::unpin);
    }

    /// One fence for everything published since the last round, then the questions that need it.
    #[inline]
    fn notify(&mut self) {
        if !self.out.is_dirty() && !self.rx.iter().any(|slot| slot.dirty) {
            return;
        }
        if self.out.hops.are_dirty() {
            self.out.hops.publish();
        }
        // Orders our used indices before our loads of the drivers' suppression fields; pairs with the fence that
        // a driver executes between enabling calls and looking at the used index again.
        fence(Ordering::SeqCst);
        for slot in self.rx.iter_mut().filter(|slot| slot.dirty) {
            slot.dirty = false;
            slot.queue.notify();
        }
        self.out.notify();
    }

    fn take_rx(&mut self, at: usize) -> RxSlot {
        let slot = self.rx.remove(at);
        self.sleeper.forget(slot.queue.kick_fd());
        self.counters.queues.set(self.rx.len() as u64);
        self.unpin();
        slot
    }

    /// The burst boundary at which control's commands take effect. `false`: quit.
    #[cold]
    fn obey(&mut self) -> bool {
        self.finish();
        self.notify();
        if self.out.hops.are_dirty() {
            // What was taken is handed on first: whoever is told that this stage obeyed looks for it further on.
            return true;
        }
        let mut commands = std::mem::take(&mut self.deferred);
        if commands.is_empty() {
            let Some(upto) = self.link.mailbox.take(&mut commands) else { return true };
            self.taken_upto = upto;
        }
        let (mut stays, mut commands) = (true, commands.into_iter());
        while let Some(command) = commands.next() {
            if matches!(command, Command::Drain) && !self.drain() {
                // The other stages on this thread have their turn before this one goes on.
                self.deferred = std::iter::once(command).chain(commands).collect();
                return stays;
            }
            stays &= self.obey_one(command);
        }
        self.notify();
        if stays && self.out.hops.are_dirty() {
            // As above: nothing is reported before it can be found further on. The command changes nothing.
            self.deferred.push(Command::Pause(self.paused));
            return true;
        }
        self.unpin();
        self.obeyed = self.taken_upto;
        self.link.obeyed(self.obeyed);
        stays
    }

    pub(crate) fn obey_one(&mut self, command: Command) -> bool {
        match command {
            Command::StartRx(key, serial, queue) => self.start_rx(key, serial, queue),
            Command::StopRx(key) => {
                // Somebody else may go on with its flows, so what they sent so far leaves first.
                if let Some(at) = self.rx.iter().position(|slot| slot.key == key) {
                    self.end_own(at);
                    self.out.flush(self.now, Flush::All);
                    self.notify();
                    let slot = self.take_rx(at);
                    self.link.retire(Retired::Rx(slot.serial, slot.queue));
                }
            }
            Command::StartTx(key, serial, queue, answers) => {
                let capabilities = queue.capabilities();
                self.out.start(key.port, TxSlot { pair: key.pair, serial, queue, capabilities }, answers);
            }
            Command::StopTx(key) => {
                if let Some(TxSlot { serial, queue, .. }) = self.out.stop(key, self.now) {
                    self.link.retire(Retired::Tx(serial, queue));
                }
                self.forget_output(key.port);
            }
            Command::MoveAnswers(port, answers) => self.out.move_answers(port, answers),
            Command::Share(stall) => self.share(stall),
            Command::Unshare(key) => self.unshare(key),
            Command::Meet(me, peers) => self.meet(me, peers),
            Command::LeaveAlone(alone) => self.leave_alone(alone),
            Command::Weigh => self.link.tell(self.weights()),
            Command::Refresh(port) => self.refresh(port),
            Command::Inject(port, frame) => self.inject(port, &frame),
            Command::AddHop(sender) => self.out.hops.add(sender),
            Command::Route(port, at) => {
                self.out.hops.route(port, at);
                if at.is_none() {
                    self.forget_output(port);
                }
            }
            // Done before it comes here.
            Command::Drain => {}
            Command::Pause(paused) => {
                // What was decided goes by the hops of before, so that no flow overtakes itself.
                (0..if paused { self.rx.len() } else { 0 }).for_each(|at| self.deliver_carried(at));
                self.paused = paused;
            }
            Command::Judge(pipeline) => self.classifier.replace(pipeline),
            Command::Quit => return false,
        }
        true
    }

    fn weights(&self) -> Weights {
        let queues = self.rx.iter().map(RxSlot::weight).collect();
        Weights { busy_ticks: self.counters.busy_ticks.get(), queues }
    }

    fn start_rx(&mut self, key: QueueKey, serial: Serial, mut queue: Box<dyn RxQueue>) {
        self.sleeper.watch(queue.kick_fd());
        queue.disarm();
        let is_hop = usize::from(key.port.0) == self.counters.max_ports();
        // A debt under the port's number may be another's, from before.
        let settled = self.debts.as_ref().map_or(0, |debts| debts.of(key.port));
        self.rx.push(RxSlot {
            key,
            serial,
            queue,
            dirty: true,
            packets: 0,
            account: Account::new(is_hop),
            settled,
        });
        self.counters.queues.set(self.rx.len() as u64);
    }

    /// Nothing is left for a port without queues here: its number may soon be another's.
    fn forget_output(&mut self, port: PortId) {
        if !self.out.tx[usize::from(port.0)].queues.is_empty() {
            return;
        }
        for slot in &mut self.rx {
            slot.account.all().for_each(|carried| self.out.forget(port, &mut carried.delivery));
        }
        self.forget_shared(port);
    }

    fn refresh(&mut self, port: PortId) {
        let mut at = 0;
        while at < self.rx.len() {
            let is_of_port = self.rx[at].key.port == port;
            if is_of_port {
                self.end_own(at);
            }
            let refreshed = if is_of_port { self.rx[at].queue.refresh() } else { Ok(()) };
            match refreshed {
                Ok(()) => at += 1,
                Err(fault) => self.lose_rx(at, fault),
            }
        }
        self.refresh_shared(port);
        self.out.refresh(port);
    }

    /// A frame of our own making goes through the pipeline as if `port` had sent it.
    fn inject(&mut self, port: PortId, frame: &[u8]) {
        let from = QueueKey { port, pair: 0 };
        let index = self.next;
        self.bursts[index].begin(self.rx.len());
        if !self.bursts[index].push_own(frame) {
            return;
        }
        let tally = Tally { packets: 1, bytes: frame.len() as u64, ..Tally::default() };
        self.counters.ports[port.0 as usize].count_rx(&tally);
        self.now = self.clock();
        let burst = &mut self.bursts[index];
        self.classifier.inject(burst, port, self.now);
        if !self.out.send_all(burst, &mut self.classifier, from) {
            self.send_whole(index, from);
        }
        self.notify();
    }
}

impl Drop for Worker {
    /// The end of a thread that panicked: no port ends without a reason.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.fail();
        }
    }
}

/// A worker in the hands of a caller that may panic, and catch that.
pub(crate) struct Guarded<'a>(pub(crate) &'a mut Worker);

impl Drop for Guarded<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail();
        }
    }
}

/// Where a burst that came by a hop entered the switch.
#[inline]
fn origin(burst: &Burst) -> QueueKey {
    let route = burst.route();
    QueueKey { port: route.from, pair: route.pair }
}
