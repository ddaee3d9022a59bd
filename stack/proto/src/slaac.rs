//! Stateless address configuration of an IPv6 interface (RFC 4862): link-local address, router discovery (RFC 4861
//! section 6.3), addresses from prefixes, and duplicate address detection.
//!
//! Messages and the time in; actions and the time of the next call out. Must not use an address before no other host
//! was found to have it, and must not hold more prefixes and routers than the limits allow.

mod address;
mod identifier;
mod routers;

use crate::control::Control;
use crate::random::Random;
use crate::{Address, Cidr, Config, Limits, Time};
use address::Own;
pub(crate) use address::{ANSWER, probe};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;
pub use identifier::Identifier;
use identifier::Identifiers;
use routers::Routers;
use wire::{MacAddress, PrefixInformation, RouterAdvertisement, router_solicitation};

const LINK_LOCAL: [u8; 8] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0];
const ALL_ROUTERS: Address = Address::v6([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
/// Minimum MTU of IPv6 (RFC 8200 section 5), in bytes.
const MIN_MTU: u32 = 1280;
/// Maximum delay before the first solicitation or probe (RFC 4861 section 10, `MAX_RTR_SOLICITATION_DELAY`).
pub(crate) const DELAY: Duration = Duration::from_secs(1);
/// First and maximum interval of solicitations, in seconds (RFC 7559 section 2, `IRT` and `MRT`).
const SOLICIT: (u64, u64) = (4, 3600);

/// Actions that the caller must take, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Send a packet.
    Send(Control),
    /// Receive packets to a multicast group, and report the membership.
    Join(Address),
    /// Undo [`Action::Join`].
    Leave(Address),
    /// Assign an address. The prefix has 128 bits unless its network is on the link.
    AddAddress(Cidr),
    /// Remove an address.
    RemoveAddress(Address),
    /// Whether new connections use the address as their source, if there is another (RFC 4862 section 5.5.4).
    SetPreferred(Address, bool),
    /// Another host has the address: it is not used.
    Duplicate(Address),
    /// Add a route: over a router, or to a network on the link.
    AddRoute { network: Cidr, via: Option<Address> },
    /// Remove the route to a network.
    RemoveRoute(Cidr),
    /// The MTU of the link in bytes.
    SetMtu(u16),
}

/// Address configuration of one interface.
pub(crate) struct Slaac {
    mac: MacAddress,
    /// Maximum MTU of the interface, and the one in use.
    mtu: (u16, u16),
    identifiers: Identifiers,
    random: Random,
    /// The link-local address first.
    addresses: Vec<Own>,
    routers: Routers,
    /// Solicitations sent, and time of the next one.
    solicited: u32,
    solicit_at: Time,
    actions: VecDeque<Action>,
    limits: Limits,
}

impl Slaac {
    pub(crate) fn new(config: &Config, mac: MacAddress, mtu: u16, kind: Identifier, now: Time) -> Self {
        let mut random = Random::new(&config.secret, "slaac", mac.to_u64());
        let identifiers = Identifiers::new(&config.secret, mac, kind);
        let link_local = Own::new(LINK_LOCAL, &identifiers, now.after(random.delay(DELAY)));
        Self {
            mac,
            mtu: (mtu, mtu),
            identifiers,
            addresses: Vec::from([link_local]),
            routers: Routers::new(&config.limits),
            solicited: 0,
            solicit_at: now.after(random.delay(DELAY)),
            random,
            actions: VecDeque::new(),
            limits: config.limits.clone(),
        }
    }

    /// Next action.
    pub(crate) fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Time of the next call of [`Slaac::advance`]; zero if actions are pending.
    pub(crate) fn deadline(&self) -> Time {
        if !self.actions.is_empty() {
            return Time(0);
        }
        let addresses = self.addresses.iter().map(Own::deadline).min().unwrap_or(Time::NEVER);
        addresses.min(self.routers.deadline()).min(self.solicit_at)
    }

    /// Runs timers: probes, lifetimes and solicitations.
    pub(crate) fn advance(&mut self, now: Time) {
        for own in &mut self.addresses {
            own.advance(now, &mut self.actions);
        }
        self.addresses.retain(|own| own.is_valid(now));
        self.routers.expire(now, &mut self.actions);
        if self.solicit_at <= now {
            self.solicit(now);
        }
    }

    /// Sends a Router Solicitation, and schedules the next one with exponential back-off.
    fn solicit(&mut self, now: Time) {
        let source = self.addresses.first().and_then(Own::assigned);
        let mut message = router_solicitation(source.map(|_| self.mac));
        let source = source.unwrap_or(Address::UNSPECIFIED);
        self.actions.push_back(Action::Send(Control::icmpv6(source, ALL_ROUTERS, false, &mut message)));
        let (first, longest) = SOLICIT;
        let seconds = (first << self.solicited.min(16)).min(longest);
        self.solicited = self.solicited.saturating_add(1);
        // Varied by a tenth either way (RFC 7559 section 2).
        let wait = Duration::from_secs(seconds) * 9 / 10;
        self.solicit_at = now.after(wait + self.random.delay(Duration::from_secs(seconds) / 5));
    }

    /// Processes a Router Advertisement, which starts at the ICMPv6 type; its checksum is valid. Returns whether it is
    /// valid (RFC 4861 section 6.1.2).
    pub(crate) fn advertise(&mut self, source: Address, hop_limit: u8, message: &[u8], now: Time) -> bool {
        let view = RouterAdvertisement::new(message).filter(|_| hop_limit == 255 && is_link_local(source));
        let Some(view) = view else { return false };
        // One solicitation is sent anyway: its answer may say more (RFC 4861 section 6.3.7).
        if view.router_seconds() > 0 && self.solicited > 0 {
            self.solicit_at = Time::NEVER;
        }
        self.routers.add_router(source, view.router_seconds(), now, &mut self.actions);
        if let Some(mtu) = view.mtu().filter(|mtu| (MIN_MTU..=u32::from(self.mtu.0)).contains(mtu)) {
            self.set_mtu(mtu as u16);
        }
        for prefix in view.prefixes().filter(is_usable) {
            if prefix.on_link {
                self.routers.add_network(&prefix, now, &mut self.actions);
            }
            if prefix.autonomous && prefix.preferred_seconds <= prefix.valid_seconds {
                self.configure(&prefix, now);
            }
        }
        true
    }

    /// A neighbour stopped to be a router (RFC 4861 section 7.2.5).
    pub(crate) fn remove_router(&mut self, address: Address, now: Time) {
        self.routers.add_router(address, 0, now, &mut self.actions);
    }

    fn set_mtu(&mut self, mtu: u16) {
        if core::mem::replace(&mut self.mtu.1, mtu) != mtu {
            self.actions.push_back(Action::SetMtu(mtu));
        }
    }

    /// Forms an address of a prefix, or changes its lifetimes (RFC 4862 section 5.5.3).
    fn configure(&mut self, information: &PrefixInformation, now: Time) {
        let Some(prefix) = information.prefix.octets().first_chunk::<8>().copied() else { return };
        if information.len != 64 {
            return;
        }
        if let Some(own) = self.addresses.iter_mut().find(|own| own.has_prefix(prefix)) {
            return own.set_lifetimes(information, now, &mut self.actions);
        }
        // The link-local address does not count.
        if information.valid_seconds > 0 && self.addresses.len() <= self.limits.prefixes as usize {
            let mut own = Own::new(prefix, &self.identifiers, now.after(self.random.delay(DELAY)));
            own.start_lifetimes(information, now);
            self.addresses.push(own);
        }
    }

    /// Processes a Neighbor Solicitation or Advertisement for `target`. Another host has, or is about to take, the
    /// address if it advertises it, or solicits it from the unspecified address (RFC 4862 sections 5.4.3 and 5.4.4).
    pub(crate) fn neighbor(&mut self, source: Address, target: Address, is_advertisement: bool, now: Time) {
        let is_claim = is_advertisement || source.is_unspecified();
        if let Some(own) = self.addresses.iter_mut().find(|own| is_claim && own.is_tentative(target)) {
            own.fail(&self.identifiers, now, &mut self.actions);
        }
    }

    /// Whether the address is being probed. It is added to the IP layer after that.
    #[cfg(test)]
    pub(crate) fn is_tentative(&self, address: Address) -> bool {
        self.addresses.iter().any(|own| own.is_tentative(address))
    }
}

fn is_link_local(address: Address) -> bool {
    matches!(address.octets(), [0xfe, 0x80..=0xbf, ..])
}

/// Link-local prefixes are ignored (RFC 4861 section 6.3.4), and so are those of no network.
fn is_usable(information: &PrefixInformation) -> bool {
    !is_link_local(information.prefix.into()) && !information.prefix.is_multicast() && information.len > 0
}

/// End of a lifetime of so many seconds.
fn end_of(seconds: u32, now: Time) -> Time {
    if seconds == u32::MAX { Time::NEVER } else { now.after(Duration::from_secs(seconds.into())) }
}

#[cfg(test)]
mod tests;
