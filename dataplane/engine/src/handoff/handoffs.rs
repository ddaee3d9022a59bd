//! The handoff queues that start at one stage, and the routes to them.

use super::Sender;
use mem::copy::Choice;
use port::{BURST, Burst, BurstStats, PortId, Route};
use std::cmp::Ordering;

/// Marks a port without a route.
const NO_ROUTE: u8 = u8::MAX;

/// Senders of one stage.
pub(crate) struct Handoffs {
    senders: Vec<Sender>,
    kernel: Choice,
    /// By port, including handoff queues: index of the sender for it.
    routes: Vec<u8>,
    /// Whether the stage stops receiving while a handoff queue lacks room.
    waits: bool,
    dirty: bool,
}

impl Handoffs {
    pub(crate) fn new(kernel: Choice, ports: usize, waits: bool) -> Self {
        Self { senders: Vec::new(), kernel, routes: vec![NO_ROUTE; ports], waits, dirty: false }
    }

    /// Adds a sender, with a route for packets addressed to the handoff queue itself.
    pub(crate) fn add(&mut self, port: PortId, sender: Sender) {
        self.routes[usize::from(port.0)] = self.senders.len() as u8;
        self.senders.push(sender);
    }

    /// Removes the sender of the handoff queue `port`, and all routes to it. The queue must be empty.
    pub(crate) fn remove(&mut self, port: PortId) {
        let gone = self.routes[usize::from(port.0)];
        if gone == NO_ROUTE {
            return;
        }
        self.senders.remove(usize::from(gone));
        for at in self.routes.iter_mut().filter(|at| **at != NO_ROUTE) {
            match (*at).cmp(&gone) {
                Ordering::Less => {}
                Ordering::Equal => *at = NO_ROUTE,
                Ordering::Greater => *at -= 1,
            }
        }
    }

    /// Routes packets for `port` to the handoff queue `to`; `None` removes the route.
    pub(crate) fn route(&mut self, port: PortId, to: Option<PortId>) {
        self.routes[usize::from(port.0)] = to.map_or(NO_ROUTE, |to| self.routes[usize::from(to.0)]);
    }

    /// Sends packets towards `route.to`; `work` is the known cost there in units, beyond forwarding. Returns `false`
    /// if there is no route.
    pub(crate) fn send(
        &mut self,
        packets: (&Burst, &[u8]),
        to: (Route, bool),
        work: u64,
        stats: &mut BurstStats,
    ) -> bool {
        self.send_by(to.0, work, |sender, kernel| sender.send(kernel, packets, to, stats))
    }

    /// [`Handoffs::send`], which tells `each` packet before the next stage may have it: its index, and its first
    /// buffer, or `None` if it was dropped.
    #[cold]
    pub(crate) fn send_watched(
        &mut self,
        packets: (&Burst, &[u8]),
        to: (Route, bool),
        work: u64,
        stats: &mut BurstStats,
        each: impl FnMut(u8, Option<usize>),
    ) -> bool {
        self.send_by(to.0, work, |sender, kernel| sender.send_watched(kernel, packets, to, stats, each))
    }

    #[inline(always)]
    fn send_by(&mut self, route: Route, work: u64, send: impl FnOnce(&mut Sender, Choice)) -> bool {
        let at = self.routes[usize::from(route.to.0)];
        let Some(sender) = self.senders.get_mut(usize::from(at)) else { return false };
        send(sender, self.kernel);
        if work > 0 && self.waits {
            sender.add_debt(work);
        }
        self.dirty = true;
        true
    }

    /// Whether the stage checks its handoff queues for room before it receives.
    #[inline(always)]
    pub(crate) fn waits(&self) -> bool {
        self.waits
    }

    /// Whether every handoff queue has room for two bursts (the pending one and the one to be received) and a backlog
    /// of less than one turn.
    pub(crate) fn have_room(&mut self) -> bool {
        self.senders.iter_mut().all(|sender| sender.is_open(2 * BURST))
    }

    /// Whether anything was sent since the last `notify`, or is staged.
    #[inline(always)]
    pub(crate) fn are_dirty(&self) -> bool {
        self.dirty
    }

    /// Publishes staged entries of all senders.
    pub(crate) fn publish(&mut self) {
        self.senders.iter_mut().for_each(Sender::publish);
    }

    /// Notifies sleeping receivers. The caller must have executed a sequentially consistent fence since `publish`.
    pub(crate) fn notify(&mut self) {
        self.dirty = false;
        for sender in &mut self.senders {
            sender.notify();
            self.dirty |= sender.has_staged();
        }
    }
}
