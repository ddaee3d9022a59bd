//! A port driven by the thread of its caller, without workers: its control and its queues.
//!
//! The owner calls [`LocalPort::poll_control`] periodically, which runs the port's control between two bursts; so no
//! queue is in use when its port detaches it. A received burst is completed before any other operation. This module
//! reads no clock and must never sleep.

use port::{
    Attach, BURST, Burst, BurstStats, Capabilities, Flush, Now, PortControl, PortFault, PortState, QueueId,
    RxQueue, TxQueue,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::BorrowedFd;
use std::time::Instant;

/// Queues attached by a port, by queue pair.
#[derive(Default)]
pub struct AttachedQueues {
    rx: Vec<(u16, Box<dyn RxQueue>)>,
    tx: Vec<(u16, Box<dyn TxQueue>)>,
    /// Number of transmit queues in use, from the first one on.
    tx_used: usize,
    /// Number of this thread, and of threads that have handles of the same transmit queues.
    share: Option<(u16, u16)>,
    /// Whether any transmit queue may hold back packets.
    keeps_back: bool,
    /// Fault found since the control ran last.
    broken: Option<PortFault>,
    /// The queue that had it.
    faulty: Option<QueueId>,
}

/// A named port with its queues.
pub struct LocalPort {
    name: String,
    /// Dropped before the control, which may report that no queue is in use any more.
    queues: AttachedQueues,
    control: Box<dyn PortControl>,
    received: Burst,
    /// Index of the transmit queue used last.
    turn: usize,
    sent: BurstStats,
    came: BurstStats,
    faults: u64,
}

impl std::fmt::Debug for LocalPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalPort").field("name", &self.name).finish_non_exhaustive()
    }
}

impl AttachedQueues {
    /// The first transmit queue.
    pub fn into_tx(self) -> Option<Box<dyn TxQueue>> {
        self.tx.into_iter().next().map(|(_, queue)| queue)
    }

    /// The first receive queue.
    pub fn into_rx(self) -> Option<Box<dyn RxQueue>> {
        self.rx.into_iter().next().map(|(_, queue)| queue)
    }

    /// The first receive and transmit queue; `None` if either is missing.
    pub fn into_both(self) -> Option<(Box<dyn RxQueue>, Box<dyn TxQueue>)> {
        let (rx, tx) = (self.rx.into_iter().next()?, self.tx.into_iter().next()?);
        Some((rx.1, tx.1))
    }

    /// Whether a receive and a transmit queue are attached.
    pub fn is_ready(&self) -> bool {
        !self.rx.is_empty() && !self.tx.is_empty()
    }

    #[cold]
    fn fail_rx(&mut self, at: usize, fault: PortFault) {
        let (pair, queue) = self.rx.remove(at);
        drop(queue);
        (self.broken, self.faulty) = (Some(fault), Some(QueueId::Rx(pair)));
    }

    #[cold]
    fn fail_tx(&mut self, at: usize, fault: PortFault) {
        let (pair, queue) = self.tx.remove(at);
        drop(queue);
        self.select_tx();
        (self.broken, self.faulty) = (Some(fault), Some(QueueId::Tx(pair)));
    }

    /// Uses the transmit queues of the own pairs only, if any, so that threads do not contend for a queue and replies
    /// of a peer that answers on the same pair come home.
    fn select_tx(&mut self) {
        let is_own = |pair: u16| self.share.is_none_or(|(index, of)| pair % of == index);
        self.tx.sort_by_key(|(pair, _)| !is_own(*pair));
        let own = self.tx.iter().filter(|(pair, _)| is_own(*pair)).count();
        self.tx_used = if own > 0 { own } else { self.tx.len() };
    }
}

impl Attach for AttachedQueues {
    fn start_rx(&mut self, pair: u16, mut queue: Box<dyn RxQueue>) {
        queue.disable_notification();
        self.rx.push((pair, queue));
    }

    fn stop_rx(&mut self, pair: u16) -> Option<Box<dyn RxQueue>> {
        let at = self.rx.iter().position(|(of, _)| *of == pair)?;
        Some(self.rx.remove(at).1)
    }

    fn start_tx(&mut self, pair: u16, queue: Box<dyn TxQueue>) {
        self.keeps_back |= queue.keeps_back();
        self.tx.push((pair, queue));
        self.select_tx();
    }

    fn stop_tx(&mut self, pair: u16) -> Option<Box<dyn TxQueue>> {
        let at = self.tx.iter().position(|(of, _)| *of == pair)?;
        let queue = self.tx.remove(at).1;
        self.select_tx();
        Some(queue)
    }

    fn refresh(&mut self) {
        let rx = self.rx.iter_mut().map(|(_, queue)| queue.refresh());
        let tx = self.tx.iter_mut().map(|(_, queue)| queue.refresh());
        // Refreshes every queue; the first fault is reported.
        let refused = rx.chain(tx).filter_map(Result::err).fold(None, |first, fault| first.or(Some(fault)));
        self.broken = self.broken.take().or(refused);
    }

    /// An end of the network has no use for frames that inform switches, so they are dropped.
    fn inject(&mut self, _frame: &[u8]) {}

    fn failure(&self) -> Option<PortFault> {
        None
    }

    fn faulty_queue(&self) -> Option<QueueId> {
        self.faulty
    }
}

impl LocalPort {
    /// A port that is not open yet.
    pub fn new(name: &str, control: Box<dyn PortControl>) -> Self {
        let (queues, received) = (AttachedQueues::default(), Burst::new());
        let (sent, came) = (BurstStats::default(), BurstStats::default());
        Self { name: name.to_owned(), control, queues, received, turn: 0, sent, came, faults: 0 }
    }

    /// A share of a port, of thread `index` of `of`, with receive queues that are not the port's.
    pub(crate) fn share(
        name: &str,
        control: Box<dyn PortControl>,
        (index, of): (u16, u16),
        others: impl Iterator<Item = Box<dyn RxQueue>>,
    ) -> Self {
        let mut port = Self::new(name, control);
        port.queues.share = Some((index, of));
        // Numbers that no pair of a port has.
        (0..).zip(others).for_each(|(i, queue)| port.queues.start_rx(u16::MAX - i, queue));
        port
    }

    /// Port name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// State of the port with its last fault and its place, as text.
    pub fn state(&self) -> String {
        let status = self.control.status();
        let state = match &status.state {
            PortState::Waiting(None) => "waiting for a connection".to_owned(),
            PortState::Waiting(Some(reason)) => format!("waiting for a connection: {reason}"),
            PortState::Connected => "connected, without a running queue".to_owned(),
            PortState::Faulted(fault) | PortState::Ended(fault) => fault.to_string(),
            PortState::Closed => "closed".to_owned(),
        };
        format!("{state}, at {}", status.place)
    }

    /// Whether the port never carries packets again ([`PortState::Ended`]).
    pub fn has_ended(&self) -> bool {
        matches!(self.control.status().state, PortState::Ended(_))
    }

    /// Whether a receive and a transmit queue are attached.
    pub fn is_ready(&self) -> bool {
        self.queues.is_ready()
    }

    /// Whether a queue pair of the port itself is attached: the share of a port is ready without one.
    pub fn has_pair(&self) -> bool {
        let has_rx = self.queues.rx.iter().any(|(pair, _)| *pair < port::MAX_QUEUE_PAIRS);
        let (tx, share) = (self.queues.tx.first(), self.queues.share);
        has_rx && tx.is_some_and(|(pair, _)| share.is_none_or(|(index, of)| pair % of == index))
    }

    /// Number of port faults.
    pub fn faults(&self) -> u64 {
        self.faults
    }

    /// Frames that the port accepted and lost.
    pub fn dropped(&self) -> u64 {
        self.sent.lost
    }

    /// Counters of received frames, and of sent ones.
    pub fn stats(&self) -> (&BurstStats, &BurstStats) {
        (&self.came, &self.sent)
    }

    /// Resets the counters of sent and lost frames.
    pub fn forget(&mut self) {
        self.sent = BurstStats::default();
    }

    /// Offloads that every transmit queue accepts; `None` without a queue.
    pub fn capabilities(&self) -> Option<Capabilities> {
        let all = self.queues.tx.iter().map(|(_, queue)| queue.capabilities());
        all.reduce(|one, other| Capabilities(one.0 & other.0))
    }

    /// Runs the port's control if it has work. Never blocks.
    pub fn poll_control(&mut self, now: Instant) {
        if let Some(fault) = self.queues.broken.take() {
            self.faults += 1;
            self.received.unpin();
            self.control.fault(now, fault, &mut self.queues);
            self.queues.faulty = None;
        }
        let due = self.control.deadline().is_some_and(|at| at <= now);
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let readable = self.control.poll_fd().is_some_and(|fd| {
            // An interrupted poll counts as no event; the next call polls again.
            poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&at_once)).unwrap_or(0) > 0
        });
        if due || readable {
            self.received.unpin();
            self.control.handle(now, &mut self.queues);
        }
    }

    /// Latest time of the next call of [`LocalPort::poll_control`].
    pub fn deadline(&self) -> Option<Instant> {
        self.control.deadline()
    }

    /// Starts the port's control.
    pub fn open(&mut self, now: Instant) {
        self.control.handle(now, &mut self.queues);
    }

    /// Closes the port.
    pub fn close(&mut self) {
        self.received.unpin();
        self.control.close(&mut self.queues);
    }

    /// Offers these places of the burst to the next transmit queue in rotation. Returns the number of places it has
    /// processed.
    #[inline]
    pub fn send(&mut self, burst: &Burst, indices: &[u8]) -> usize {
        let queues = self.queues.tx_used;
        if queues == 0 || indices.is_empty() {
            return 0;
        }
        self.turn = if self.turn + 1 < queues { self.turn + 1 } else { 0 };
        match self.queues.tx[self.turn].1.tx(burst, indices, &mut self.sent) {
            Ok(done) => done,
            Err(fault) => {
                self.queues.fail_tx(self.turn, fault);
                0
            }
        }
    }

    /// Flushes the transmit queues, as far as `due` at `now`. Returns whether anything was sent.
    #[inline]
    pub fn flush(&mut self, now: Now, due: Flush) -> bool {
        let (mut sent, mut at) = (false, 0);
        while self.queues.keeps_back && at < self.queues.tx.len() {
            match self.queues.tx[at].1.flush(now, due, &mut self.sent) {
                Ok(some) => {
                    sent |= some;
                    at += 1;
                }
                Err(fault) => self.queues.fail_tx(at, fault),
            }
        }
        sent
    }

    /// Passes up to `most` bursts of each receive queue to `each`; heads are not loaded. Returns the number of frames.
    #[inline]
    pub fn receive(
        &mut self,
        most: usize,
        clock: impl Fn() -> Now,
        mut each: impl FnMut(&mut Burst),
    ) -> usize {
        let (mut came, mut at) = (0, 0);
        while at < self.queues.rx.len() {
            let mut bursts = 0;
            let taken = loop {
                let (burst, taken) = self.receive_burst(at, clock(), &mut each);
                came += burst;
                bursts += 1;
                if burst < BURST || bursts >= most || taken.is_err() {
                    break taken;
                }
            };
            if let Err(fault) = taken {
                self.queues.fail_rx(at, fault);
                continue;
            }
            at += 1;
        }
        came
    }

    /// Receives one burst from the queue at `at`. Returns the number of frames.
    #[inline]
    fn receive_burst(
        &mut self,
        at: usize,
        now: Now,
        each: &mut impl FnMut(&mut Burst),
    ) -> (usize, Result<(), PortFault>) {
        let queue = &mut self.queues.rx[at].1;
        self.received.begin(at);
        self.received.set_now(now);
        let taken = queue.rx(&mut self.received, &mut self.came);
        if self.received.is_untouched() {
            return (0, taken);
        }
        each(&mut self.received);
        queue.complete(self.received.buf_ids());
        (self.received.len(), taken)
    }

    /// Prefetches the lines that the next poll reads first.
    #[inline]
    pub fn prefetch(&self) {
        if let Some((_, queue)) = self.queues.rx.first() {
            queue.prefetch();
        }
    }

    /// Notifies the peer if it requests that. The caller must have executed a full fence since the last publish.
    #[inline]
    pub fn notify(&mut self) {
        self.queues.tx.iter_mut().for_each(|(_, queue)| queue.notify());
        self.queues.rx.iter_mut().for_each(|(_, queue)| queue.notify());
    }

    /// Enables the kicks of all receive queues. Returns `false` if the caller must not sleep: packets are available, or
    /// a queue has no kick.
    pub fn enable_notification(&mut self) -> bool {
        let mut may_sleep = self.queues.broken.is_none();
        for (_, queue) in &mut self.queues.rx {
            match queue.enable_notification() {
                Ok(is_pending) => may_sleep &= !is_pending && queue.kick_fd().is_some(),
                Err(fault) => {
                    self.queues.broken.get_or_insert(fault);
                    may_sleep = false;
                }
            }
        }
        may_sleep
    }

    /// Disables the kicks of all receive queues.
    pub fn disable_notification(&mut self) {
        self.queues.rx.iter_mut().for_each(|(_, queue)| queue.disable_notification());
    }

    /// Descriptors that become readable when the port has work: kicks, and that of its control.
    pub fn wake_fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let kicks = self.queues.rx.iter().filter_map(|(_, queue)| queue.kick_fd());
        kicks.chain(self.control.poll_fd())
    }
}
