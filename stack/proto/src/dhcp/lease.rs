//! Leases.

use crate::random::Random;
use crate::{Address, Cidr, Time};
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use core::time::Duration;
use wire::Dhcp as View;

/// Maximum number of name servers taken from a lease.
const NAME_SERVERS: usize = 4;
/// Minimum MTU that every IPv4 host accepts (RFC 791 section 3.1), in bytes; smaller ones are ignored.
const MIN_MTU: u16 = 576;
/// A lease without end, in seconds.
const INFINITE: u32 = u32::MAX;

/// An address that a DHCP server has leased, with the settings of its network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Address and prefix length.
    pub network: Cidr,
    /// Default router.
    pub router: Option<Address>,
    /// Name servers, in order of preference.
    pub name_servers: Vec<Address>,
    /// MTU of the network in bytes.
    pub mtu: Option<u16>,
    /// End of the lease; [`Time::NEVER`] if it has none.
    pub expires: Time,
    pub(super) server: Ipv4Addr,
    /// T1.
    pub(super) renew: Time,
    /// T2.
    pub(super) rebind: Time,
}

impl Lease {
    /// The lease of an offer or acknowledgement that counts from `from`. Returns `None` if the address is not unicast,
    /// or the lease time is missing or zero.
    pub(super) fn new(view: &View<'_>, server: Ipv4Addr, from: Time, random: &mut Random) -> Option<Self> {
        let address = view.your_address();
        let seconds = view.lease_seconds().filter(|seconds| *seconds > 0)?;
        if !is_unicast(address) || !is_unicast(server) {
            return None;
        }
        let prefix = view.prefix().unwrap_or_else(|| class_prefix(address));
        let (renew, rebind) = times(view, seconds);
        let after = |time: Duration| if seconds == INFINITE { Time::NEVER } else { from.after(time) };
        // T1 and T2 have "some random fuzz" (RFC 2131 section 4.4.5): up to a fiftieth earlier.
        let fuzzed =
            |time: Duration, random: &mut Random| after(time.saturating_sub(random.delay(time / 50)));
        Some(Self {
            network: Cidr::new(address.into(), prefix)?,
            router: view.routers().find(|router| is_unicast(*router)).map(Into::into),
            name_servers: view
                .name_servers()
                .filter(|name| is_unicast(*name))
                .take(NAME_SERVERS)
                .map(Into::into)
                .collect(),
            mtu: view.mtu().filter(|mtu| *mtu >= MIN_MTU),
            expires: after(Duration::from_secs(seconds.into())),
            server,
            renew: fuzzed(renew, random),
            rebind: after(rebind),
        })
    }

    pub(super) fn address(&self) -> Ipv4Addr {
        self.network.address.last4().into()
    }
}

/// T1 and T2: each that of the message, or else a half and seven eighths of the lease time (RFC 2131 section 4.4.5).
/// The latter also if they are not in order.
fn times(view: &View<'_>, seconds: u32) -> (Duration, Duration) {
    let lease = Duration::from_secs(seconds.into());
    let given = |seconds: Option<u32>| seconds.map(|seconds| Duration::from_secs(seconds.into()));
    let defaults = (lease / 2, lease / 8 * 7);
    let renew = given(view.renewal_seconds()).unwrap_or(defaults.0);
    let rebind = given(view.rebinding_seconds()).unwrap_or(defaults.1);
    let is_in_order = !renew.is_zero() && renew < rebind && rebind < lease;
    if is_in_order { (renew, rebind) } else { defaults }
}

fn is_unicast(address: Ipv4Addr) -> bool {
    // Class E is reserved; 0.0.0.0/8 is "this network" (RFC 1122 section 3.2.1.3).
    !(address.is_multicast() || address.is_loopback() || matches!(address.octets(), [0 | 240.., ..]))
}

/// Prefix length of an address without mask, by its class. Servers send the mask, because the client requests it.
fn class_prefix(address: Ipv4Addr) -> u8 {
    match address.octets() {
        [0..128, ..] => 8,
        [128..192, ..] => 16,
        _ => 24,
    }
}
