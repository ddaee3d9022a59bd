//! DHCP client for IPv4 (RFC 2131 section 4.4).
//!
//! Messages and the time in; messages, a lease and the time of the next call out. The caller sends ARP probes for the
//! address before its use (RFC 5227), assigns it, and removes it when the lease ends. Must not accept a message that
//! does not answer its last one, and must not send more often than the retransmission times allow.

mod lease;

use crate::control::Control;
use crate::random::Random;
use crate::{Config, Time};
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use core::time::Duration;
pub use lease::Lease;
use wire::{Dhcp as View, DhcpMessage, MacAddress};

/// Port of servers, to which a client sends.
pub(crate) const SERVER_PORT: u16 = 67;
/// Port of clients.
pub(crate) const CLIENT_PORT: u16 = 68;

/// Maximum delay of the first message. RFC 2131 section 4.4.1 proposes 1 to 10 seconds for hosts that start together.
const FIRST: Duration = Duration::from_secs(1);
/// First and maximum time before a retransmission (RFC 2131 section 4.1); varied by a second either way.
const RETRANSMIT: (u64, u64) = (4, 64);
/// Requests for an offered address before the client starts again.
const REQUESTS: u32 = 4;
/// Minimum time between requests for an extension (RFC 2131 section 4.4.5).
const EXTEND: Duration = Duration::from_mins(1);
/// Pause after a conflict was reported (RFC 2131 section 3.1, step 5), and after a refusal.
const PAUSE: Duration = Duration::from_secs(10);

/// Conflicts in a row after which addresses are probed less often, and the pause after each further one (RFC 5227
/// section 1.1, `MAX_CONFLICTS` and `RATE_LIMIT_INTERVAL`).
const MAX_CONFLICTS: u8 = 10;
const CONFLICT_PAUSE: Duration = Duration::from_mins(1);

/// ARP probes of a leased address (RFC 5227 section 1.1, `PROBE_NUM`).
const PROBES: u32 = 3;
/// Minimum time between two probes, and how much longer it is at most (`PROBE_MIN`, `PROBE_MAX`).
const PROBE_INTERVAL: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(1));
/// Time in which another host can answer the last probe (`ANNOUNCE_WAIT`).
const ANNOUNCE_WAIT: Duration = Duration::from_secs(2);

/// State (RFC 2131 figure 5). INIT-REBOOT is not used: no state is kept between runs.
#[derive(Clone, Debug)]
enum State {
    Init,
    Selecting,
    Requesting(Offer),
    /// The address was leased, and is not used before it was probed (RFC 2131 section 3.1, step 5).
    Probing,
    Bound,
    Renewing,
    Rebinding,
}

/// An offered address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Offer {
    address: Ipv4Addr,
    server: Ipv4Addr,
}

/// A client on one interface.
#[derive(Clone, Debug)]
pub(crate) struct Dhcp {
    mac: MacAddress,
    random: Random,
    state: State,
    lease: Option<Lease>,
    /// The lease whose address is probed.
    next: Option<Lease>,
    /// Leased addresses that other hosts had, since the last one that was assigned.
    conflicts: u8,
    has_changed: bool,
    transaction: u32,
    /// Time of the first message of the transaction.
    started: Time,
    /// Seconds since then at the last message other than a request for an offered address, which repeats them (RFC 2131
    /// section 3.1, step 3).
    seconds: u16,
    /// Time from which a lease counts: that of the first request for an offered address (RFC 2131 section 4.4.1), or of
    /// the last request for more time (section 4.4.5).
    requested: Time,
    /// Messages of the state sent.
    sent: u32,
    deadline: Time,
    /// Message declining a lease, to be sent first.
    decline: Option<DhcpMessage>,
}

impl Dhcp {
    pub(crate) fn new(config: &Config, mac: MacAddress, now: Time) -> Self {
        let mut random = Random::new(&config.secret, "dhcp", mac.to_u64());
        let deadline = now.after(random.delay(FIRST));
        Self {
            mac,
            random,
            state: State::Init,
            lease: None,
            next: None,
            conflicts: 0,
            has_changed: false,
            transaction: 0,
            started: now,
            seconds: 0,
            requested: now,
            sent: 0,
            deadline,
            decline: None,
        }
    }

    /// The lease in force.
    pub(crate) fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }

    /// Whether the lease began, changed or ended since the last call.
    pub(crate) fn take_change(&mut self) -> bool {
        core::mem::take(&mut self.has_changed)
    }

    /// Time of the next call of [`Dhcp::poll`].
    pub(crate) fn deadline(&self) -> Time {
        if self.decline.is_some() { Time(0) } else { self.deadline }
    }

    /// Processes the payload of a datagram to [`CLIENT_PORT`]. Invalid and unexpected messages have no effect.
    pub(crate) fn receive(&mut self, payload: &[u8], now: Time) {
        let Some(view) = View::new(payload) else { return };
        let is_answer = view.operation() == View::REPLY
            && view.transaction() == self.transaction
            && view.client_mac() == self.mac;
        if !is_answer {
            return;
        }
        match view.message_type() {
            Some(View::OFFER) => self.offer(&view, now),
            Some(View::ACK) => self.acknowledge(&view, now),
            Some(View::NAK) if self.expects(&view) => self.restart(now.after(PAUSE)),
            _ => (),
        }
    }

    /// Takes the first valid offer.
    fn offer(&mut self, view: &View<'_>, now: Time) {
        let Some(server) = view.server() else { return };
        let is_valid = Lease::new(view, server, now, &mut self.random).is_some();
        if is_valid && matches!(self.state, State::Selecting) {
            self.enter(State::Requesting(Offer { address: view.your_address(), server }), now);
        }
    }

    /// Whether the message comes from the server that was asked; any server may answer a broadcast request for an
    /// extension.
    fn expects(&self, view: &View<'_>) -> bool {
        match (&self.state, view.server()) {
            (State::Requesting(offer), server) => server == Some(offer.server),
            (State::Renewing, server) => server == self.lease.as_ref().map(|lease| lease.server),
            (State::Rebinding, server) => server.is_some(),
            _ => false,
        }
    }

    fn acknowledge(&mut self, view: &View<'_>, now: Time) {
        let asked = match &self.state {
            State::Requesting(offer) => Some(offer.address),
            _ => self.lease.as_ref().map(Lease::address),
        };
        if !self.expects(view) || asked != Some(view.your_address()) {
            return;
        }
        let lease =
            view.server().and_then(|server| Lease::new(view, server, self.requested, &mut self.random));
        let Some(lease) = lease.filter(|lease| now < lease.expires) else { return };
        if self.lease.is_none() {
            self.next = Some(lease);
            self.enter(State::Probing, now);
        } else {
            self.bind(lease, now);
        }
    }

    fn bind(&mut self, lease: Lease, now: Time) {
        self.enter(State::Bound, lease.renew.max(now));
        self.has_changed |= self.lease.as_ref() != Some(&lease);
        self.lease = Some(lease);
    }

    /// The address for which ARP probes are sent.
    pub(crate) fn probing(&self) -> Option<Ipv4Addr> {
        self.next.as_ref().map(Lease::address)
    }

    /// The address for which an ARP probe is due (RFC 5227 section 2.1.1). The lease begins some time after the last
    /// one. The initial delay of the RFC is that of the first message.
    pub(crate) fn probe(&mut self, now: Time) -> Option<Ipv4Addr> {
        let address = self.probing().filter(|_| self.deadline <= now)?;
        if self.sent < PROBES {
            self.sent += 1;
            let (least, more) = PROBE_INTERVAL;
            let pause = if self.sent < PROBES { least + self.random.delay(more) } else { ANNOUNCE_WAIT };
            self.deadline = now.after(pause);
            return Some(address);
        }
        match self.next.take().filter(|lease| now < lease.expires) {
            Some(lease) => {
                self.conflicts = 0;
                self.bind(lease, now);
            }
            None => self.restart(now),
        }
        None
    }

    /// Reports that another host has the leased address (RFC 2131 section 3.1, step 5): the lease ends and is declined.
    pub(crate) fn conflict(&mut self, now: Time) {
        let Some(lease) = self.next.as_ref().or(self.lease.as_ref()) else { return };
        self.decline = Some(DhcpMessage {
            requested: Some(lease.address()),
            server: Some(lease.server),
            seconds: 0,
            broadcast: false,
            ..self.message(View::DECLINE)
        });
        self.conflicts = self.conflicts.saturating_add(1);
        let pause = if self.conflicts < MAX_CONFLICTS { PAUSE } else { CONFLICT_PAUSE };
        self.restart(now.after(pause));
    }

    /// Stops the client. Returns the message that gives the address back to its server, if there is a lease (RFC 2131
    /// section 4.4.6).
    pub(crate) fn release(&mut self) -> Option<Control> {
        self.transaction = self.random.next() as u32;
        let message = self.lease.as_ref().map(|lease| DhcpMessage {
            seconds: 0,
            client_address: lease.address(),
            server: Some(lease.server),
            ..self.message(View::RELEASE)
        });
        self.restart(Time::NEVER);
        message.map(|message| {
            let server = message.server.unwrap_or(Ipv4Addr::BROADCAST);
            control(message.client_address, server, &message)
        })
    }

    /// Ends the lease, and begins again at `at`.
    fn restart(&mut self, at: Time) {
        self.has_changed |= self.lease.take().is_some();
        self.next = None;
        self.enter(State::Init, at);
    }

    fn enter(&mut self, state: State, deadline: Time) {
        (self.state, self.sent, self.deadline) = (state, 0, deadline);
    }

    /// The message that is due, if any.
    pub(crate) fn poll(&mut self, now: Time) -> Option<Control> {
        if let Some(message) = self.decline.take() {
            return Some(broadcast(&message));
        }
        if now < self.deadline || self.next.is_some() {
            return None;
        }
        self.change_state(now);
        self.sent = self.sent.saturating_add(1);
        let is_repeated = matches!(self.state, State::Requesting(_)) && self.sent > 1;
        self.requested = if is_repeated { self.requested } else { now };
        if !matches!(self.state, State::Requesting(_)) {
            self.seconds = u16::try_from(now.micros_since(self.started) / 1_000_000).unwrap_or(u16::MAX);
        }
        self.deadline = now.after(self.wait(now));
        Some(match &self.state {
            State::Requesting(offer) => broadcast(&DhcpMessage {
                requested: Some(offer.address),
                server: Some(offer.server),
                ..self.message(View::REQUEST_ADDRESS)
            }),
            State::Probing | State::Bound | State::Renewing | State::Rebinding => self.extend(),
            State::Init | State::Selecting => broadcast(&self.message(View::DISCOVER)),
        })
    }

    /// Changes the state that the time ends.
    fn change_state(&mut self, now: Time) {
        if self.lease.as_ref().is_some_and(|lease| lease.expires <= now) {
            self.restart(now);
        }
        let tired = matches!(self.state, State::Requesting(_)) && self.sent >= REQUESTS;
        let next = match (&self.state, &self.lease) {
            (State::Init, _) => State::Selecting,
            _ if tired => State::Selecting,
            (State::Bound | State::Renewing, Some(lease)) if lease.rebind <= now => State::Rebinding,
            (State::Bound, Some(_)) => State::Renewing,
            _ => return,
        };
        if matches!(next, State::Selecting) || matches!(self.state, State::Bound) {
            (self.transaction, self.started) = (self.random.next() as u32, now);
        }
        self.enter(next, now);
    }

    /// Time before the next message, or the next change of state.
    fn wait(&mut self, now: Time) -> Duration {
        let until = |time: Time| Duration::from_micros(time.micros_since(now).max(1));
        // Half of the time that remains (RFC 2131 section 4.4.5).
        let half = |time: Time| (until(time) / 2).max(EXTEND).min(until(time));
        match (&self.state, &self.lease) {
            (State::Renewing, Some(lease)) => half(lease.rebind),
            (State::Rebinding, Some(lease)) => half(lease.expires),
            _ => self.back_off(),
        }
    }

    fn back_off(&mut self) -> Duration {
        let (first, longest) = RETRANSMIT;
        let seconds = (first << self.sent.saturating_sub(1).min(4)).min(longest);
        Duration::from_secs(seconds - 1) + self.random.delay(Duration::from_secs(2))
    }

    fn message(&self, kind: u8) -> DhcpMessage {
        DhcpMessage {
            kind,
            transaction: self.transaction,
            seconds: self.seconds,
            // Without an address, the IP layer accepts no unicast packets.
            broadcast: self.lease.is_none(),
            client_address: Ipv4Addr::UNSPECIFIED,
            mac: self.mac,
            requested: None,
            server: None,
        }
    }

    /// A request for more time: to the server of the lease, and after T2 to all.
    fn extend(&self) -> Control {
        let address = self.lease.as_ref().map_or(Ipv4Addr::UNSPECIFIED, Lease::address);
        let server = self.lease.as_ref().filter(|_| matches!(self.state, State::Renewing));
        let message = DhcpMessage { client_address: address, ..self.message(View::REQUEST_ADDRESS) };
        let to = server.map_or(Ipv4Addr::BROADCAST, |lease| lease.server);
        control(address, to, &message)
    }
}

fn broadcast(message: &DhcpMessage) -> Control {
    control(Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST, message)
}

fn control(source: Ipv4Addr, destination: Ipv4Addr, message: &DhcpMessage) -> Control {
    let payload: Vec<u8> = message.to_bytes();
    Control::udp4(source.into(), destination.into(), (CLIENT_PORT, SERVER_PORT), &payload)
}

#[cfg(test)]
mod tests;
