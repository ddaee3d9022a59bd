//! The handoff queues that begin at one stage, and which of them a packet takes.

use super::Sender;
use mem::copy::Choice;
use port::{BURST, Burst, BurstStats, PortId, Route};

/// A port that no handoff queue leads to.
const NOWHERE: u8 = u8::MAX;

/// What a stage may send to other stages.
pub(crate) struct Handoffs {
    senders: Vec<Sender>,
    kernel: Choice,
    /// By port, handoff queues included, the handoff queue to it: its place among the senders.
    routes: Vec<u8>,
    /// Whether nothing is taken while a handoff queue is short of room.
    waits: bool,
    dirty: bool,
}

impl Handoffs {
    pub(crate) fn new(kernel: Choice, ports: usize, waits: bool) -> Self {
        Self { senders: Vec::new(), kernel, routes: vec![NOWHERE; ports], waits, dirty: false }
    }

    /// One handoff queue more, behind the others, for packets that are for the handoff queue itself.
    pub(crate) fn add(&mut self, port: PortId, sender: Sender) {
        self.route(port, Some(self.senders.len() as u8));
        self.senders.push(sender);
    }

    /// Packets for `port` go by handoff queue `at` from now on, or nowhere.
    pub(crate) fn route(&mut self, port: PortId, at: Option<u8>) {
        self.routes[usize::from(port.0)] = at.unwrap_or(NOWHERE);
    }

    /// Sends packets on to where `to` is reached; `work` units are to be done there, beyond handing them on, as far as is
    /// known. `false` where no handoff queue leads there.
    pub(crate) fn send(
        &mut self,
        (burst, indices): (&Burst, &[u8]),
        (route, alone): (Route, bool),
        work: u64,
        stats: &mut BurstStats,
    ) -> bool {
        let at = self.routes[usize::from(route.to.0)];
        let Some(sender) = self.senders.get_mut(usize::from(at)) else { return false };
        sender.send(self.kernel, (burst, indices), (route, alone), stats);
        if work > 0 && self.waits {
            sender.owes(work);
        }
        self.dirty = true;
        true
    }

    /// Whether the stage looks at its handoff queues before it takes anything.
    #[inline(always)]
    pub(crate) fn waits(&self) -> bool {
        self.waits
    }

    /// Whether every handoff queue has room for two bursts, the one that waits to be judged and the one that would be taken, and holds
    /// less work than a turn is.
    pub(crate) fn have_room(&mut self) -> bool {
        self.senders.iter_mut().all(|sender| sender.is_open(2 * BURST))
    }

    /// Whether anything was sent since the last `notify`, or has found no room yet.
    #[inline(always)]
    pub(crate) fn are_dirty(&self) -> bool {
        self.dirty
    }

    /// Shows receivers what there is for them.
    pub(crate) fn publish(&mut self) {
        self.senders.iter_mut().for_each(Sender::publish);
    }

    /// Rings receivers that sleep. The caller has executed a sequentially consistent fence since `publish`.
    pub(crate) fn notify(&mut self) {
        self.dirty = false;
        for sender in &mut self.senders {
            sender.notify();
            self.dirty |= sender.has_staged();
        }
    }
}
