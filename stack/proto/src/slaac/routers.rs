//! Default routers, and networks on the link (RFC 4861 section 6.3.4).

use super::{Action, end_of};
use crate::{Address, Cidr, Limits, Time};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use wire::PrefixInformation;

const ALL: Cidr = Cidr { address: Address::UNSPECIFIED, prefix: 0 };

/// Parameters that routers advertised. Of several routers, the first one that did is used.
pub(super) struct Routers {
    known: Vec<(Address, Time)>,
    networks: Vec<(Cidr, Time)>,
    /// Router of the default route.
    default: Option<Address>,
    limits: Limits,
}

impl Routers {
    pub(super) fn new(limits: &Limits) -> Self {
        Self { known: Vec::new(), networks: Vec::new(), default: None, limits: limits.clone() }
    }

    /// Time of the first end of a lifetime.
    pub(super) fn deadline(&self) -> Time {
        let ends = self.known.iter().map(|router| router.1);
        ends.chain(self.networks.iter().map(|network| network.1)).min().unwrap_or(Time::NEVER)
    }

    pub(super) fn expire(&mut self, now: Time, actions: &mut VecDeque<Action>) {
        self.known.retain(|router| now < router.1);
        self.select(actions);
        let ended = self.networks.extract_if(.., |network| network.1 <= now);
        actions.extend(ended.map(|network| Action::RemoveRoute(network.0)));
    }

    /// Adds a default router, or changes its lifetime; 0 seconds remove it.
    pub(super) fn add_router(
        &mut self,
        address: Address,
        seconds: u16,
        now: Time,
        actions: &mut VecDeque<Action>,
    ) {
        let end = end_of(seconds.into(), now);
        let has_room = self.known.len() < self.limits.routers as usize;
        match self.known.iter_mut().find(|router| router.0 == address) {
            Some(router) => router.1 = end,
            None if seconds > 0 && has_room => self.known.push((address, end)),
            None => (),
        }
        self.expire(now, actions);
    }

    /// Makes the first router the default one.
    fn select(&mut self, actions: &mut VecDeque<Action>) {
        let first = self.known.first().map(|router| router.0);
        let old = core::mem::replace(&mut self.default, first);
        if old == first {
            return;
        }
        actions.extend(old.map(|_| Action::RemoveRoute(ALL)));
        actions.extend(first.map(|_| Action::AddRoute { network: ALL, via: first }));
    }

    /// Adds a network on the link, or changes its lifetime; 0 seconds remove it.
    pub(super) fn add_network(
        &mut self,
        information: &PrefixInformation,
        now: Time,
        actions: &mut VecDeque<Action>,
    ) {
        let network = network(information);
        let end = end_of(information.valid_seconds, now);
        let has_room = self.networks.len() < self.limits.prefixes as usize;
        match self.networks.iter_mut().find(|known| known.0 == network) {
            Some(known) => known.1 = end,
            None if information.valid_seconds > 0 && has_room => {
                self.networks.push((network, end));
                actions.push_back(Action::AddRoute { network, via: None });
            }
            None => (),
        }
        self.expire(now, actions);
    }
}

/// The prefix with zeros in its other bits.
fn network(information: &PrefixInformation) -> Cidr {
    let mask = u128::MAX.checked_shl(128 - u32::from(information.len)).unwrap_or(0);
    let word = information.prefix.to_bits() & mask;
    Cidr { address: Address::v6(word.to_be_bytes()), prefix: information.len }
}
