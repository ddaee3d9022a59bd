//! Arguments of commands that are an end of the network: a port, and the addresses of a TCP/IP stack on it.

use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use stack::Cidr;
use std::net::IpAddr;
use wire::MacAddress;

/// How an idle stack waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Wait {
    /// Polls for 50 us, then sleeps until something arrives
    #[default]
    Adaptive,
    /// Polls continuously and uses its CPU fully
    Busy,
}

impl EndArgs {
    /// Whether the stack has, or may obtain, addresses of an IP version.
    pub(crate) fn uses(&self, is_v4: bool) -> bool {
        let obtains = if is_v4 { self.dhcp } else { self.slaac };
        obtains || self.addresses.iter().any(|own| own.address.is_v4() == is_v4)
    }
}

/// Port, addresses and thread of a stack.
#[derive(Args, Clone, Debug)]
pub(crate) struct EndArgs {
    /// Port with the keys of a `[[port]]` section, separated by commas, such as `kind=tap,interface=web0` or
    /// `kind=vhost-user,socket=/run/web.sock`
    #[arg(long, value_name = "KEY=VALUE,...")]
    pub(crate) port: String,
    /// IPv4 or IPv6 address with its prefix length, such as 10.9.0.2/24. May be repeated
    #[arg(long = "address", required_unless_present_any = ["dhcp", "slaac"], value_name = "ADDRESS/PREFIX")]
    pub(crate) addresses: Vec<Cidr>,
    /// Obtain IPv4 address, router and MTU by DHCP
    #[arg(long)]
    pub(crate) dhcp: bool,
    /// Form IPv6 addresses from the prefixes that routers advertise (SLAAC) and the Ethernet address
    #[arg(long)]
    pub(crate) slaac: bool,
    /// VLAN of all packets [default: untagged]
    #[arg(long, value_name = "ID", value_parser = RangedU64ValueParser::<u16>::new().range(1..=4094))]
    pub(crate) vlan: Option<u16>,
    /// Router for all other destinations of its IP version. May be repeated
    #[arg(long = "gateway", value_name = "ADDRESS")]
    pub(crate) gateways: Vec<IpAddr>,
    /// Ethernet address [default: random, locally administered]
    #[arg(long, value_name = "MAC")]
    pub(crate) mac: Option<MacAddress>,
    /// Maximum length of an IP packet in bytes
    #[arg(long, default_value_t = 1500, value_name = "BYTES",
          value_parser = RangedU64ValueParser::<u16>::new().range(1280..=65_535))]
    pub(crate) mtu: u16,
    /// Wait for a Unix socket of the port if it connects and there is no listener yet
    #[arg(long)]
    pub(crate) wait: bool,
    /// CPU to pin the thread to
    #[arg(long)]
    pub(crate) cpu: Option<usize>,
    /// How an idle stack waits
    #[arg(long, value_enum, default_value_t)]
    pub(crate) polling: Wait,
}
