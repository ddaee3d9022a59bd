//! Commands of the control thread, handled at burst boundaries.

use super::execution::Execution;
use super::{Account, RxSlot, Worker};
use crate::command::{Command, Generation, Injected, LoadReport, QueueKey, Retired};
use crate::config::QueueFull;
use crate::step::{NO_PORT, Step};
use crate::xps::TxSlot;
use port::{BurstStats, Context, Flush, PortId, RxQueue};

/// State of command handling.
#[derive(Default)]
pub(super) struct Orders {
    /// Number of the last command reported as handled.
    handled: u64,
    /// Commands taken from the mailbox that wait until a handoff queue is drained, and the number of the last command
    /// taken.
    deferred: Vec<Command>,
    taken_upto: u64,
}

impl Orders {
    /// Whether a command is taken but not yet reported as handled.
    pub(super) fn wait(&self) -> bool {
        self.taken_upto != self.handled
    }
}

impl<M: Execution> Worker<M> {
    /// Handles pending commands. Returns `false` if the worker must end.
    #[inline(always)]
    pub(crate) fn handle_commands(&mut self) -> bool {
        if !self.link.mailbox.pending(self.orders.handled) {
            return true;
        }
        let stays = self.handle_pending();
        self.counters.step.leave();
        stays
    }

    /// The burst boundary at which commands take effect. Returns `false` if the worker must end.
    #[cold]
    fn handle_pending(&mut self) -> bool {
        self.finish();
        self.notify();
        if self.out.handoffs.are_dirty() {
            // Packets received so far must reach the next stage first: once this command counts as handled, the
            // control thread drains that stage.
            return true;
        }
        let mut commands = std::mem::take(&mut self.orders.deferred);
        if !self.orders.wait() {
            let Some(upto) = self.link.mailbox.take(&mut commands) else { return true };
            self.orders.taken_upto = upto;
        }
        let (mut stays, mut commands) = (true, commands.into_iter());
        while let Some(command) = commands.next() {
            if matches!(command, Command::Drain) && !M::drain(self) {
                // The other stages on this thread must run before this one can continue.
                self.orders.deferred = std::iter::once(command).chain(commands).collect();
                return stays;
            }
            stays &= self.handle(command);
        }
        self.notify();
        if stays && self.out.handoffs.are_dirty() {
            // As above: packets must be in the next handoff queue before the command counts as handled.
            return true;
        }
        self.unpin();
        self.orders.handled = self.orders.taken_upto;
        self.link.handled(self.orders.handled);
        stays
    }

    pub(crate) fn handle(&mut self, command: Command) -> bool {
        self.counters.step.enter(Step::Commands, NO_PORT);
        match command {
            Command::StartRx(key, generation, queue) => self.start_rx(key, generation, queue),
            Command::StopRx(key) => {
                // Another worker may take over its flows, so packets received so far must be sent first.
                if let Some(at) = self.rx.iter().position(|slot| slot.key == key) {
                    self.end_own(at);
                    self.out.flush(self.now, Flush::All);
                    self.notify();
                    let slot = self.take_rx(at);
                    self.link.retire(Retired::Rx(slot.generation, slot.queue));
                }
            }
            Command::StartTx(key, generation, queue, xps_map) => {
                let capabilities = queue.capabilities();
                self.out.start(key.port, TxSlot { pair: key.pair, generation, queue, capabilities }, xps_map);
            }
            Command::StopTx(key) => {
                if let Some(TxSlot { generation, queue, .. }) = self.out.stop(key, self.now) {
                    self.link.retire(Retired::Tx(generation, queue));
                }
                self.forget_output(key.port);
            }
            Command::SetXpsMap(port, xps_map) => self.out.set_xps_map(port, xps_map),
            Command::SetWorkers(workers) => self.out.workers = workers,
            Command::Configure(config) => {
                self.out.may_wait = config.queue_full == QueueFull::Wait;
                self.config = config;
            }
            Command::ReportLoad => self.link.report_load(self.load()),
            Command::Refresh(port) => self.refresh(port),
            Command::Inject(injected) => self.inject(&injected),
            // Already done by the caller.
            Command::Drain => {}
            Command::SetPipeline(pipeline) => self.classifier.replace(pipeline),
            Command::StartCapture(capture) => self.out.start_capture(*capture),
            Command::StopCapture(id) => self.out.stop_capture(id),
            Command::Quit => return false,
            of_model => M::handle_command(self, of_model),
        }
        true
    }

    fn load(&self) -> LoadReport {
        let queues = self.rx.iter().map(RxSlot::queue_load).collect();
        LoadReport { busy_ticks: self.counters.busy_ticks.get(), queues }
    }

    fn start_rx(&mut self, key: QueueKey, generation: Generation, mut queue: Box<dyn RxQueue>) {
        self.sleeper.watch(queue.kick_fd());
        queue.disable_notification();
        let is_handoff = usize::from(key.port.0) >= self.counters.max_ports();
        let settled = self.model.debt(key.port);
        self.rx.push(RxSlot {
            key,
            generation,
            queue,
            dirty: true,
            packets: 0,
            account: Account::new(is_handoff),
            settled,
        });
        self.counters.queues.set(self.rx.len() as u64);
    }

    /// If the port has no transmit queue left here, discards what carried bursts have left for it: its number may be
    /// reused.
    pub(super) fn forget_output(&mut self, port: PortId) {
        if !self.out.tx[usize::from(port.0)].queues.is_empty() {
            return;
        }
        for slot in &mut self.rx {
            slot.account.all().for_each(|carried| self.out.forget(port, carried));
        }
        M::forget(self, port);
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
        M::refresh(self, port);
        self.out.refresh(port);
    }

    /// Processes a frame created by the switch as if a port had received it. The frame outlives the burst that has it.
    fn inject(&mut self, injected: &Injected) {
        let Injected { port, ref frame, stage, .. } = *injected;
        let from = QueueKey { port, pair: 0 };
        let index = self.next;
        self.bursts[index].begin(self.rx.len());
        if !self.bursts[index].push_lent(frame) {
            return;
        }
        let stats = BurstStats { packets: 1, bytes: frame.len() as u64, ..BurstStats::default() };
        self.counters.port(port).count_rx(&stats);
        self.now = self.clock();
        let burst = &mut self.bursts[index];
        burst.set_now(self.now);
        let context = Context { injected: true, stage, ..Context::received(port, self.now) };
        self.counters.step.enter(Step::Pipeline, port);
        self.classifier.classify(burst, &context);
        if !self.out.send_all(burst, &self.classifier.verdicts, from) {
            self.send_whole(index, from);
        }
        self.notify();
    }
}
