//! An address of this host: duplicate address detection (RFC 4862 section 5.4) and lifetimes (section 5.5).

use super::identifier::Identifiers;
use super::{Action, LINK_LOCAL, end_of};
use crate::control::Control;
use crate::{Address, Cidr, Time};
use alloc::collections::VecDeque;
use core::time::Duration;
use wire::{PrefixInformation, duplicate_address_probe};

/// Time for which another host can answer the probe (RFC 4861 section 10, `RETRANS_TIMER`).
pub(crate) const ANSWER: Duration = Duration::from_secs(1);
/// Identifiers tried before the prefix is given up (RFC 7217 section 7, `IDGEN_RETRIES`).
const CONFLICTS: u8 = 3;
/// Delay before the next identifier is probed (RFC 7217 section 7, `IDGEN_DELAY`).
const NEXT: Duration = Duration::from_secs(1);
/// Lifetime to which an advertisement cannot shorten a longer one (RFC 4862 section 5.5.3 e).
const TWO_HOURS: Duration = Duration::from_hours(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The probe leaves at this time.
    Waiting(Time),
    /// The address is assigned at this time.
    Probing(Time),
    Assigned,
    /// Another host has the address.
    Failed,
}

/// An address, tentative or assigned.
pub(super) struct Own {
    prefix: [u8; 8],
    address: Address,
    conflicts: u8,
    state: State,
    valid: Time,
    preferred: Time,
    is_preferred: bool,
}

impl Own {
    /// An address to be probed at `at`, without end.
    pub(super) fn new(prefix: [u8; 8], identifiers: &Identifiers, at: Time) -> Self {
        Self {
            prefix,
            address: join(prefix, identifiers.next(prefix, 0)),
            conflicts: 0,
            state: State::Waiting(at),
            valid: Time::NEVER,
            preferred: Time::NEVER,
            is_preferred: true,
        }
    }

    pub(super) fn has_prefix(&self, prefix: [u8; 8]) -> bool {
        self.prefix == prefix
    }

    pub(super) fn is_valid(&self, now: Time) -> bool {
        now < self.valid
    }

    /// Whether it is this address, and may be that of another host.
    pub(super) fn is_tentative(&self, address: Address) -> bool {
        self.address == address && matches!(self.state, State::Waiting(_) | State::Probing(_))
    }

    /// The address, if it is assigned.
    pub(super) fn assigned(&self) -> Option<Address> {
        (self.state == State::Assigned).then_some(self.address)
    }

    #[cfg(test)]
    pub(super) fn address(&self) -> Address {
        self.address
    }

    #[cfg(test)]
    pub(super) fn valid_until(&self) -> Time {
        self.valid
    }

    pub(super) fn deadline(&self) -> Time {
        let state = match self.state {
            State::Waiting(at) | State::Probing(at) => at,
            State::Assigned if self.is_preferred => self.preferred,
            State::Assigned | State::Failed => Time::NEVER,
        };
        state.min(self.valid)
    }

    pub(super) fn advance(&mut self, now: Time, actions: &mut VecDeque<Action>) {
        if !self.is_valid(now) {
            return self.end(actions);
        }
        match self.state {
            State::Waiting(at) if at <= now => {
                self.state = State::Probing(now.after(ANSWER));
                let packet = probe(self.address);
                actions.extend([Action::Join(packet.destination), Action::Send(packet)]);
            }
            State::Probing(at) if at <= now => {
                self.state = State::Assigned;
                let prefix = if self.prefix == LINK_LOCAL { 64 } else { 128 };
                actions.push_back(Action::AddAddress(Cidr { address: self.address, prefix }));
                self.set_preferred(now < self.preferred, actions);
            }
            State::Assigned => self.set_preferred(now < self.preferred, actions),
            State::Waiting(_) | State::Probing(_) | State::Failed => (),
        }
    }

    /// Removes the address at the end of its life.
    fn end(&mut self, actions: &mut VecDeque<Action>) {
        let group = Action::Leave(solicited_node(self.address));
        match self.state {
            State::Assigned => actions.extend([Action::RemoveAddress(self.address), group]),
            State::Probing(_) => actions.push_back(group),
            State::Waiting(_) | State::Failed => (),
        }
    }

    fn set_preferred(&mut self, is_preferred: bool, actions: &mut VecDeque<Action>) {
        if core::mem::replace(&mut self.is_preferred, is_preferred) != is_preferred {
            actions.push_back(Action::SetPreferred(self.address, is_preferred));
        }
    }

    /// Another host has the address: tries another identifier, or gives up.
    pub(super) fn fail(&mut self, identifiers: &Identifiers, now: Time, actions: &mut VecDeque<Action>) {
        if matches!(self.state, State::Probing(_)) {
            actions.push_back(Action::Leave(solicited_node(self.address)));
        }
        actions.push_back(Action::Duplicate(self.address));
        self.state = State::Failed;
        if identifiers.has_alternatives() && self.conflicts < CONFLICTS {
            self.conflicts += 1;
            self.address = join(self.prefix, identifiers.next(self.prefix, self.conflicts));
            self.state = State::Waiting(now.after(NEXT));
        }
    }

    pub(super) fn start_lifetimes(&mut self, information: &PrefixInformation, now: Time) {
        self.valid = end_of(information.valid_seconds, now);
        self.preferred = end_of(information.preferred_seconds, now);
    }

    /// Changes the lifetimes; an advertisement, which may be forged, shortens the valid lifetime to two hours at least.
    pub(super) fn set_lifetimes(
        &mut self,
        information: &PrefixInformation,
        now: Time,
        actions: &mut VecDeque<Action>,
    ) {
        let (received, hours) = (end_of(information.valid_seconds, now), now.after(TWO_HOURS));
        if received > hours || received > self.valid {
            self.valid = received;
        } else if self.valid > hours {
            self.valid = hours;
        }
        self.preferred = end_of(information.preferred_seconds, now);
        if self.state == State::Assigned {
            self.set_preferred(now < self.preferred, actions);
        }
    }
}

/// The solicitation that asks whether another host has the address (RFC 4862 section 5.4.2).
pub(crate) fn probe(address: Address) -> Control {
    let mut message = duplicate_address_probe((*address.octets()).into());
    Control::icmpv6(Address::UNSPECIFIED, solicited_node(address), false, &mut message)
}

fn join(prefix: [u8; 8], identifier: [u8; 8]) -> Address {
    let mut octets = [0; 16];
    octets[..8].copy_from_slice(&prefix);
    octets[8..].copy_from_slice(&identifier);
    Address::v6(octets)
}

/// Solicited-node multicast address (RFC 4291 section 2.7.1).
fn solicited_node(address: Address) -> Address {
    let [_, a, b, c] = address.last4();
    Address::v6([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c])
}
