//! Address configuration by Router Advertisements, with other hosts that claim its addresses.
//!
//! Invariants: what is removed was added, no limit is exceeded, the MTU is valid, and after each call of the timers the
//! deadline is in the future.

use super::Script;
use crate::slaac::{Action, Slaac};
use crate::{Address, Cidr, Config, Identifier, Limits, Time};
use alloc::vec::Vec;
use core::time::Duration;
use wire::MacAddress;

const MAC: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 1]);
const PREFIXES: u32 = 3;
const ROUTERS: u32 = 2;
/// ICMPv6 types.
const ADVERTISEMENT: u8 = 134;
const SOLICITATION: u8 = 135;

/// Runs a script.
///
/// # Panics
/// If an invariant is violated.
pub fn fuzz_slaac(script: &[u8]) {
    let limits = Limits { prefixes: PREFIXES, routers: ROUTERS, ..Limits::default() };
    let config = Config { limits, ..Config::new([4; 16]) };
    let mut host = Host {
        slaac: Slaac::new(&config, MAC, 1500, Identifier::Opaque, Time(0)),
        now: Time(0),
        probed: Address::UNSPECIFIED,
        addresses: Vec::new(),
        routes: Vec::new(),
        groups: Vec::new(),
    };
    let mut script = Script(script);
    while !script.0.is_empty() {
        match script.byte() % 8 {
            0 => host.wait(host.now.after(Duration::from_secs(u64::from(script.byte()) * 40))),
            1 | 2 => host.wait(host.slaac.deadline()),
            3 => host.claim(script.byte()),
            4 => {
                let (router, len) = (script.byte(), script.byte());
                host.advertise(router, &[&[ADVERTISEMENT], script.bytes(len)].concat());
            }
            _ => {
                let router = script.byte();
                let mut message = [ADVERTISEMENT, 0, 0, 0, 64, 0, script.byte(), script.byte()].to_vec();
                message.resize(16, 0);
                message.extend(prefix(script.bytes(8)));
                host.advertise(router, &message);
            }
        }
        host.check();
    }
}

/// A Prefix Information option: length, flags, number of the prefix, and lifetimes as exponents.
fn prefix(fields: &[u8]) -> Vec<u8> {
    let mut few = [64, 0xc0, 0, 12, 11, 0, 0, 0];
    few[..fields.len()].copy_from_slice(fields);
    let [len, flags, number, valid, preferred, mtu @ ..] = few;
    let lifetime = |exponent: u8| if exponent > 31 { u32::MAX } else { (1 << exponent) - 1 };
    let mut option = [3, 4, len, flags].to_vec();
    option.extend([lifetime(valid).to_be_bytes(), lifetime(preferred).to_be_bytes(), [0; 4]].concat());
    option.extend([0x20, 1, 0x0d, 0xb8, 0, number, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    option.extend([5, 1, 0, 0, 0, mtu[0], mtu[1], mtu[2]]);
    option
}

struct Host {
    slaac: Slaac,
    now: Time,
    /// The address probed last.
    probed: Address,
    addresses: Vec<Cidr>,
    routes: Vec<Cidr>,
    groups: Vec<Address>,
}

impl Host {
    fn wait(&mut self, until: Time) {
        if until == Time::NEVER {
            return;
        }
        self.now = self.now.max(until);
        // Each call can make timers due that were not.
        for _ in 0..4 {
            self.slaac.advance(self.now);
            self.act();
        }
        assert!(self.slaac.deadline() > self.now);
    }

    /// Another host advertises or solicits the address probed last.
    fn claim(&mut self, choice: u8) {
        let source = if choice & 2 == 0 { Address::UNSPECIFIED } else { router(choice) };
        self.slaac.neighbor(source, self.probed, choice & 1 == 0, self.now);
        self.act();
    }

    fn advertise(&mut self, number: u8, message: &[u8]) {
        let hop_limit = if number == 255 { 64 } else { 255 };
        let is_valid = self.slaac.advertise(router(number), hop_limit, message, self.now);
        assert!(!is_valid || hop_limit == 255);
        self.act();
    }

    fn act(&mut self) {
        while let Some(action) = self.slaac.next_action() {
            match action {
                Action::AddAddress(address) => self.addresses.push(address),
                Action::RemoveAddress(gone) => remove(&mut self.addresses, |own| own.address == gone),
                Action::AddRoute { network, .. } => self.routes.push(network),
                Action::RemoveRoute(gone) => remove(&mut self.routes, |route| *route == gone),
                Action::Join(group) => self.groups.push(group),
                Action::Leave(gone) => remove(&mut self.groups, |group| *group == gone),
                Action::SetMtu(mtu) => assert!((1280..=1500).contains(&mtu), "MTU {mtu}"),
                Action::Send(sent) if sent.packet[40] == SOLICITATION => {
                    let target = sent.packet[48..].first_chunk().expect("a target");
                    self.probed = Address::v6(*target);
                }
                Action::Send(_) | Action::SetPreferred(..) | Action::Duplicate(_) => {}
            }
        }
    }

    fn check(&self) {
        let most = PREFIXES as usize + 1;
        assert!(self.addresses.len() <= most && self.groups.len() <= most && self.routes.len() <= most);
    }
}

fn router(number: u8) -> Address {
    Address::v6([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, number])
}

fn remove<T>(from: &mut Vec<T>, is_gone: impl FnMut(&T) -> bool) {
    let at = from.iter().position(is_gone).expect("what is removed was added");
    from.swap_remove(at);
}
