//! A worker: one thread that takes bursts from its receive queues, has them judged and sends them on.
//!
//! Run-to-completion, with one burst of overlap: while the lines of a burst just taken are on their way, the burst
//! before it is judged and sent. Between two bursts the worker looks at its mailbox; that is the burst boundary at
//! which everything that control wants happens. On the fast path nothing is allocated, locked or logged, and
//! nobody is waited for.

mod rest;
mod send;
mod staged;
mod stealing;

pub(crate) use stealing::Peer;

use crate::command::{Command, Event, QueueKey, Retired, Serial, Weight, Weights};
use crate::config::WorkerConfig;
use crate::counters::WorkerCounters;
use crate::hop::Hops;
use crate::lanes::{TxSlot, TxSlots};
use crate::link::Link;
use crate::pipeline::{Outputs, Pipeline};
use crate::sleeper::Sleeper;
use mem::copy::Choice;
use mem::ticks;
use port::{Burst, Flush, Now, PortFault, PortId, RxQueue, Spread, Steering, Tally};
use std::sync::Arc;

/// How long a full queue is waited for, in nanoseconds, where waiting is configured.
const PATIENCE: u64 = 1_000_000;

/// A receive queue at its place in the round.
struct RxSlot {
    key: QueueKey,
    serial: Serial,
    queue: Box<dyn RxQueue>,
    dirty: bool,
    /// What it has brought. Nobody else's, so that counting costs one addition per burst; control asks for it.
    packets: u64,
    /// Whether it is the end of a hop, so that bursts say themselves where they came from.
    is_hop: bool,
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
    pipeline: Box<dyn Pipeline>,
    /// Whether the pipeline looks at packets.
    looks: bool,
    outputs: Outputs,
    kernel: Choice,
    ticks_per_ns: f64,
    start: u64,
    now: Now,
    rx: Vec<RxSlot>,
    tx: Vec<TxSlots>,
    dirty_tx: Vec<PortId>,
    /// Ports of which a queue may keep packets back.
    keeping: Vec<PortId>,
    bursts: [Burst; 2],
    /// What packets with work left become for outputs that do not do it.
    made: Burst,
    /// The burst that was taken but not yet judged, and its queue's place.
    pending: Option<(usize, usize)>,
    /// The burst to fill next.
    next: usize,
    sleeper: Sleeper,
    obeyed: u64,
    picks: [u8; port::BURST],
    steering: Steering,
    workers: usize,
    /// Where this is one stage of several: the next ones.
    hops: Hops,
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
    /// By pick: the place of the queue that it takes, where an output has several.
    places: [u8; port::BURST],
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
}

impl Worker {
    pub(crate) fn new(config: WorkerConfig, parts: Parts) -> Self {
        Self {
            config,
            link: parts.link,
            counters: parts.counters,
            looks: parts.pipeline.looks(),
            pipeline: parts.pipeline,
            outputs: Outputs::new(parts.max_ports),
            kernel: parts.kernel,
            ticks_per_ns: parts.ticks_per_ns,
            start: parts.start,
            now: Now::default(),
            rx: Vec::new(),
            tx: (0..parts.max_ports).map(|_| TxSlots::default()).collect(),
            dirty_tx: Vec::with_capacity(parts.max_ports),
            keeping: Vec::new(),
            bursts: [Burst::new(), Burst::new()],
            made: Burst::new(),
            pending: None,
            next: 0,
            sleeper: parts.sleeper,
            obeyed: 0,
            picks: [0; port::BURST],
            steering: Steering::new(parts.spread),
            workers: parts.workers,
            hops: parts.hops,
            shared: stealing::Shared::default(),
            paused: false,
            deferred: Vec::new(),
            taken_upto: 0,
            draining: None,
            stopped_at: 0,
            places: [0; port::BURST],
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
        if self.hops.waits() || self.paused {
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

    /// Judges a burst that nothing came behind, and tells others what there is for them.
    #[inline(always)]
    fn end_round(&mut self, worked: bool) -> bool {
        let left = self.pending.is_some() && !worked;
        if left {
            self.finish();
        }
        if !self.keeping.is_empty() {
            self.flush(Flush::Waited);
        }
        self.notify();
        worked || left
    }

    /// Takes a burst from the queue at `at`, then judges and sends the burst before it.
    #[inline]
    fn poll(&mut self, at: usize) -> bool {
        let mut tally = Tally::default();
        let burst = &mut self.bursts[self.next];
        burst.begin(at);
        burst.set_now(self.now);
        let slot = &mut self.rx[at];
        let taken = slot.queue.rx(burst, &mut tally);
        let got = !burst.is_untouched();
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
            self.rx[at].packets += tally.packets;
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

    /// Judges and sends the pending burst and gives its buffers back.
    #[inline]
    fn finish(&mut self) {
        let Some((index, at)) = self.pending.take() else { return };
        let slot = &self.rx[at];
        let from = if slot.is_hop { origin(&self.bursts[index]) } else { slot.key };
        self.judge(index, from.port);
        self.send_all(index, from);
        let slot = &mut self.rx[at];
        slot.queue.complete(&self.bursts[index]);
        slot.dirty = true;
    }

    /// The time that ports and pipelines see, read once a round.
    #[inline(always)]
    fn clock(&self) -> Now {
        Now(((ticks() - self.start) as f64 / self.ticks_per_ns) as u64)
    }

    #[inline]
    fn judge(&mut self, index: usize, from: PortId) {
        let burst = &mut self.bursts[index];
        // What is left to be done to a packet is done by its head.
        if self.looks || burst.has_offloads() {
            mem::with_kernel!(self.kernel, K => burst.load_heads::<K>());
        } else {
            burst.leave_heads();
        }
        self.outputs.clear();
        self.pipeline.process(burst, from, burst.now(), &mut self.outputs);
    }

    #[cold]
    fn lose_rx(&mut self, at: usize, fault: PortFault) {
        let slot = self.take_rx(at);
        let retired = Some(Retired::Rx(slot.serial, slot.queue));
        self.link.report(Event { port: slot.key.port, serial: slot.serial, fault, retired });
    }

    #[cold]
    fn lose_tx(&mut self, to: PortId, at: usize, fault: PortFault) {
        let slot = self.tx[to.0 as usize].take(at);
        self.keeps_no_more(to, slot.queue.as_ref());
        let retired = Some(Retired::Tx(slot.serial, slot.queue));
        self.link.report(Event { port: to, serial: slot.serial, fault, retired });
    }

    /// Lets go of all maps: of a burst that was made of another, too.
    fn unpin(&mut self) {
        self.bursts.iter_mut().chain([&mut self.made]).for_each(Burst::unpin);
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
        if self.hops.are_dirty() {
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
                self.flush(Flush::All);
                if let Some(at) = self.rx.iter().position(|slot| slot.key == key) {
                    let slot = self.take_rx(at);
                    self.link.retire(Retired::Rx(slot.serial, slot.queue));
                }
            }
            Command::StartTx(key, serial, queue, answers) => {
                let capabilities = queue.capabilities();
                if queue.keeps_back() {
                    self.keeping.push(key.port);
                }
                let slot = TxSlot { pair: key.pair, serial, queue, capabilities };
                self.tx[key.port.0 as usize].add(slot, answers, self.workers);
            }
            Command::StopTx(key) => {
                let slots = &mut self.tx[key.port.0 as usize];
                if let Some(at) = slots.queues.iter().position(|slot| slot.pair == key.pair) {
                    let TxSlot { serial, mut queue, .. } = slots.take(at);
                    self.empty(key.port, queue.as_mut());
                    self.link.retire(Retired::Tx(serial, queue));
                }
            }
            Command::MoveAnswers(port, answers) => {
                self.tx[port.0 as usize].move_answers(answers, self.workers);
            }
            Command::Share(stall) => self.share(stall),
            Command::Unshare(key) => self.unshare(key),
            Command::Meet(me, peers) => self.meet(me, peers),
            Command::LeaveAlone(alone) => self.leave_alone(alone),
            Command::Weigh => self.link.tell(self.weights()),
            Command::Refresh(port) => self.refresh(port),
            Command::Inject(port, frame) => self.inject(port, &frame),
            Command::AddHop(sender) => self.hops.add(sender),
            Command::Route(port, at) => self.hops.route(port, at),
            // Done before it comes here.
            Command::Drain => {}
            Command::Pause(paused) => self.paused = paused,
            Command::Judge(pipeline) => (self.looks, self.pipeline) = (pipeline.looks(), pipeline),
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
        self.rx.push(RxSlot { key, serial, queue, dirty: true, packets: 0, is_hop });
        self.counters.queues.set(self.rx.len() as u64);
    }

    fn refresh(&mut self, port: PortId) {
        let mut at = 0;
        while at < self.rx.len() {
            let slot = &mut self.rx[at];
            let refreshed = if slot.key.port == port { slot.queue.refresh() } else { Ok(()) };
            match refreshed {
                Ok(()) => at += 1,
                Err(fault) => self.lose_rx(at, fault),
            }
        }
        let mut pair = 0;
        while let Some(slot) = self.tx[port.0 as usize].queues.get_mut(pair) {
            match slot.queue.refresh() {
                Ok(()) => pair += 1,
                Err(fault) => self.lose_tx(port, pair, fault),
            }
        }
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
        let now = self.clock();
        self.outputs.clear();
        self.pipeline.inject(&mut self.bursts[index], port, now, &mut self.outputs);
        self.send_all(index, from);
        self.notify();
    }
}

/// Where a burst that came by a hop entered the switch.
#[inline]
fn origin(burst: &Burst) -> QueueKey {
    let route = burst.route();
    QueueKey { port: route.from, pair: route.pair }
}
