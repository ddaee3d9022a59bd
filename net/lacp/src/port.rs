//! The machines of one port: receive (6.4.12), periodic transmission (6.4.13), mux with coupled control (6.4.15) and
//! the limit on transmission (6.4.16). Selection (6.4.14) is in `group`.

use crate::pdu::{Endpoint, Pdu, State};

const SECOND: u64 = 1_000_000_000;
/// Intervals between LACPDUs (6.4.4), and the time after which a partner is late: three of them.
const FAST: u64 = SECOND;
const SLOW: u64 = 30 * SECOND;
const INTERVALS: u64 = 3;
/// Time in which other ports may join before a port is attached.
const AGGREGATE_WAIT: u64 = 2 * SECOND;
/// Maximum number of LACPDUs sent in [`FAST`].
const MAX_SENT: usize = 3;

/// State of the receive machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Receive {
    /// The link is down.
    #[default]
    Disabled,
    /// The partner is late, or was not heard yet.
    Expired,
    /// The partner does not send LACPDUs.
    Defaulted,
    /// The partner is known.
    Current,
}

/// State of the mux machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mux {
    /// Not part of the aggregation.
    #[default]
    Detached,
    /// Selected; attached at this time.
    Waiting(u64),
    /// Part of the aggregation; the partner is not ready.
    Attached,
    /// Frames pass in both directions.
    Distributing,
}

/// LACPDUs of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounts {
    /// Received.
    pub received: u64,
    /// Sent.
    pub sent: u64,
}

/// One port of a [`crate::Group`].
#[derive(Clone, Debug)]
pub struct Port {
    actor: Endpoint,
    partner: Endpoint,
    receive: Receive,
    mux: Mux,
    is_selected: bool,
    /// When the partner is late.
    late_at: u64,
    /// When the next periodic LACPDU is due; `None` if none is sent.
    due: Option<u64>,
    /// Whether an LACPDU has to be sent.
    need_to_transmit: bool,
    /// Times of the latest LACPDUs.
    sent: [Option<u64>; MAX_SENT],
    counts: PortCounts,
}

impl Port {
    pub(crate) fn new(actor: Endpoint) -> Self {
        Self {
            actor,
            partner: Endpoint::default(),
            receive: Receive::default(),
            mux: Mux::default(),
            is_selected: false,
            late_at: 0,
            due: None,
            need_to_transmit: false,
            sent: [None; MAX_SENT],
            counts: PortCounts::default(),
        }
    }

    /// This end.
    pub fn actor(&self) -> &Endpoint {
        &self.actor
    }

    /// The other end; zero if it is not known.
    pub fn partner(&self) -> &Endpoint {
        &self.partner
    }

    /// State of the receive machine.
    pub fn receive_state(&self) -> Receive {
        self.receive
    }

    /// State of the mux machine.
    pub fn mux(&self) -> Mux {
        self.mux
    }

    /// LACPDUs since the port was added.
    pub fn counts(&self) -> PortCounts {
        self.counts
    }

    /// Whether the port carries frames of the aggregation.
    pub fn is_distributing(&self) -> bool {
        self.mux == Mux::Distributing
    }

    /// Whether the port has a partner: it could be selected.
    pub(crate) fn has_partner(&self) -> bool {
        matches!(self.receive, Receive::Expired | Receive::Current) && !self.partner.system.is_zero()
    }

    pub(crate) fn set_selected(&mut self, is_selected: bool) {
        self.is_selected = is_selected;
    }

    /// Changes what this end is and wants. Its state in the aggregation stays.
    pub(crate) fn set_actor(&mut self, wanted: Endpoint) {
        const WANTED: State = State(State::ACTIVITY.0 | State::SHORT_TIMEOUT.0);
        let kept = self.actor.state.masked(State(!WANTED.0));
        let actor = Endpoint { state: State(kept.0 | wanted.state.masked(WANTED).0), ..wanted };
        let was_short = self.actor.state.has(State::SHORT_TIMEOUT);
        if was_short && !actor.state.has(State::SHORT_TIMEOUT) && self.receive == Receive::Current {
            // The partner sends its next LACPDU after the longer interval.
            self.late_at += INTERVALS * (SLOW - FAST);
        }
        self.need_to_transmit |= actor != self.actor;
        self.actor = actor;
    }

    fn set_own(&mut self, state: State, is_set: bool) {
        let new = self.actor.state.with(state, is_set);
        self.need_to_transmit |= new != self.actor.state;
        self.actor.state = new;
    }

    /// The link came up or went down.
    pub(crate) fn set_enabled(&mut self, is_enabled: bool, now: u64) {
        match (is_enabled, self.receive) {
            (true, Receive::Disabled) => self.expire(now),
            (false, _) => {
                self.receive = Receive::Disabled;
                self.partner.state = self.partner.state.with(State::SYNCHRONIZATION, false);
            }
            _ => {}
        }
    }

    fn expire(&mut self, now: u64) {
        self.receive = Receive::Expired;
        let partner = self.partner.state.with(State::SYNCHRONIZATION, false);
        self.partner.state = partner.with(State::SHORT_TIMEOUT, true);
        self.late_at = now + INTERVALS * FAST;
        self.set_own(State::EXPIRED, true);
    }

    fn forget_partner(&mut self) {
        self.receive = Receive::Defaulted;
        self.partner = Endpoint::default();
        self.actor.state = self.actor.state.with(State::EXPIRED, false);
        self.set_own(State::DEFAULTED, true);
    }

    /// An LACPDU arrived. Returns whether the partner is another one than before.
    pub(crate) fn received(&mut self, pdu: &Pdu, now: u64) -> bool {
        if self.receive == Receive::Disabled {
            return false;
        }
        self.counts.received += 1;
        let is_other = !pdu.actor.is_same(&self.partner);
        self.need_to_transmit |= self.differs(&pdu.partner);
        self.partner = pdu.actor;
        let synchronized = self.is_in_sync(pdu);
        self.partner.state = self.partner.state.with(State::SYNCHRONIZATION, synchronized);
        self.actor.state = self.actor.state.with(State::EXPIRED, false).with(State::DEFAULTED, false);
        self.receive = Receive::Current;
        let is_short = self.actor.state.has(State::SHORT_TIMEOUT);
        self.late_at = now + INTERVALS * if is_short { FAST } else { SLOW };
        is_other
    }

    /// Whether the partner has an outdated view of this end (`update_NTT`).
    fn differs(&self, seen: &Endpoint) -> bool {
        const SHOWN: State = State(
            State::ACTIVITY.0 | State::SHORT_TIMEOUT.0 | State::SYNCHRONIZATION.0 | State::AGGREGATION.0,
        );
        !self.actor.is_same(seen) || seen.state.masked(SHOWN) != self.actor.state.masked(SHOWN)
    }

    /// Whether the partner is synchronized (`recordPDU`): it knows this end, or its link is not aggregated, and one of
    /// both sends LACPDUs, so that a failure is detected.
    fn is_in_sync(&self, pdu: &Pdu) -> bool {
        let is_active = (pdu.actor.state.0 | self.actor.state.0) & State::ACTIVITY.0 != 0;
        let knows_us = self.actor.is_same(&pdu.partner) || !pdu.actor.state.has(State::AGGREGATION);
        is_active && knows_us && pdu.actor.state.has(State::SYNCHRONIZATION)
    }

    /// Runs the timers of the receive machine.
    pub(crate) fn check_partner(&mut self, now: u64) {
        if now < self.late_at {
            return;
        }
        match self.receive {
            Receive::Current => self.expire(now),
            Receive::Expired => self.forget_partner(),
            Receive::Disabled | Receive::Defaulted => {}
        }
    }

    /// Runs the mux machine; a port passes several states at once.
    pub(crate) fn run_mux(&mut self, now: u64) {
        let in_sync = self.partner.state.has(State::SYNCHRONIZATION);
        loop {
            let next = match self.mux {
                Mux::Detached if self.is_selected => Mux::Waiting(now + AGGREGATE_WAIT),
                Mux::Waiting(_) | Mux::Attached | Mux::Distributing if !self.is_selected => Mux::Detached,
                Mux::Waiting(until) if now >= until => Mux::Attached,
                Mux::Attached if in_sync => Mux::Distributing,
                Mux::Distributing if !in_sync => Mux::Attached,
                _ => break,
            };
            self.mux = next;
        }
        let distributes = self.mux == Mux::Distributing;
        self.set_own(State::SYNCHRONIZATION, distributes || self.mux == Mux::Attached);
        self.set_own(State::COLLECTING, distributes);
        self.set_own(State::DISTRIBUTING, distributes);
    }

    /// The partner of this selected port changed: it is detached, so that frames for the old one do not reach the new.
    pub(crate) fn detach(&mut self, now: u64) {
        let is_selected = std::mem::take(&mut self.is_selected);
        self.run_mux(now);
        self.is_selected = is_selected;
    }

    /// Returns whether an LACPDU is to be sent now, and counts it as sent.
    pub(crate) fn transmit(&mut self, now: u64) -> bool {
        let is_active = (self.partner.state.0 | self.actor.state.0) & State::ACTIVITY.0 != 0;
        if self.receive == Receive::Disabled || !is_active {
            (self.due, self.need_to_transmit) = (None, false);
            return false;
        }
        let interval = if self.partner.state.has(State::SHORT_TIMEOUT) { FAST } else { SLOW };
        // A partner that changes to the short timeout gets the next LACPDU within a second.
        let due = self.due.map_or(now, |due| due.min(now + interval));
        self.due = Some(due);
        if now < due && !self.need_to_transmit || self.sent_until(now).is_some() {
            return false;
        }
        self.due = Some(now + interval);
        self.need_to_transmit = false;
        self.sent.rotate_left(1);
        self.sent[MAX_SENT - 1] = Some(now);
        self.counts.sent += 1;
        true
    }

    /// Until when nothing may be sent, because of the limit; `None` if something may.
    fn sent_until(&self, now: u64) -> Option<u64> {
        self.sent[0].map(|oldest| oldest + FAST).filter(|until| *until > now)
    }

    /// Content of an LACPDU.
    pub(crate) fn pdu(&self) -> Pdu {
        Pdu { actor: self.actor, partner: self.partner }
    }

    /// When the next timer of a running machine is due.
    pub(crate) fn deadline(&self, now: u64) -> Option<u64> {
        let late = matches!(self.receive, Receive::Current | Receive::Expired).then_some(self.late_at);
        let attached = if let Mux::Waiting(until) = self.mux { Some(until) } else { None };
        let wanted = if self.need_to_transmit { Some(now) } else { self.due };
        let transmit = wanted.map(|due| due.max(self.sent_until(now).unwrap_or(0)));
        [late, attached, transmit].into_iter().flatten().min()
    }
}
