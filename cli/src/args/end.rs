//! Arguments of commands that are an end of the network: a port, and the addresses of a TCP/IP stack on it.

use super::parse;
use super::tcp::TcpArgs;
use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use console::Diagnostic;
use host::Activity;
use stack::Cidr;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
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
    /// Network behind a router, such as 10.8.0.0/16=10.9.0.1. May be repeated
    #[arg(long = "route", value_name = "NETWORK=ROUTER", value_parser = parse::pair::<Cidr, IpAddr>)]
    pub(crate) routes: Vec<(Cidr, IpAddr)>,
    /// Neighbour whose Ethernet address is not resolved, such as 10.9.0.1=52:54:00:00:00:01. May be repeated
    #[arg(long = "neighbour", value_name = "ADDRESS=MAC", value_parser = parse::pair::<IpAddr, MacAddress>)]
    pub(crate) neighbours: Vec<(IpAddr, MacAddress)>,
    /// Ethernet address [default: random, locally administered]
    #[arg(long, value_name = "MAC")]
    pub(crate) mac: Option<MacAddress>,
    /// Maximum length of an IP packet in bytes
    #[arg(long, default_value_t = 1500, value_name = "BYTES",
          value_parser = RangedU64ValueParser::<u16>::new().range(1280..=65_535))]
    pub(crate) mtu: u16,
    #[command(flatten)]
    pub(crate) tcp: TcpArgs,
    /// Wait for a Unix socket of the port if it connects and there is no listener yet; ask again for a port of kind
    /// grant, also after it was revoked
    #[arg(long)]
    pub(crate) wait: bool,
    /// CPU to pin the thread to
    #[arg(long)]
    pub(crate) cpu: Option<usize>,
    /// How an idle stack waits
    #[arg(long, value_enum, default_value_t)]
    pub(crate) polling: Wait,
    /// Control socket to open: that of the command line, but not of the environment, which is that of a switch.
    #[arg(skip)]
    pub(crate) control: Option<PathBuf>,
}

/// Threads of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ThreadModel {
    /// One thread for stack and program, run to completion
    #[default]
    Unified,
    /// Two threads on different CPUs, connected by rings
    Split,
    /// Two threads on one CPU, which yield to each other
    Merge,
}

/// Which worker has a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum SteeringRule {
    /// The worker that the hash of its flow selects. For every port
    #[default]
    Hash,
    /// The worker on whose queue it arrives. For network cards with receive-side scaling, which keep a flow on one
    /// queue
    Arrival,
}

/// Number of workers: the least and the greatest one, if it follows the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WorkerRange {
    least: usize,
    most: usize,
}

impl FromStr for WorkerRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| {
            let number = text.parse::<usize>().map_err(|_| "expected a number, or a range such as 1..4")?;
            let is_valid = (1..=host::MAX_WORKERS).contains(&number);
            is_valid.then_some(number).ok_or_else(|| format!("{number} is not in 1..={}", host::MAX_WORKERS))
        };
        let (least, most) = text.split_once("..").unwrap_or((text, text));
        let (least, most) = (number(least)?, number(most)?);
        if least > most {
            return Err("the first number of a range is the lower one".to_owned());
        }
        Ok(Self { least, most })
    }
}

/// Workers of a program.
#[derive(Args, Clone, Debug)]
pub(crate) struct WorkerArgs {
    /// Number of workers, each with a stack and connections of its own [default: as many as --cpus allows, or 1]. With
    /// a range such as 1..4, the load decides how many of them receive new connections
    #[arg(long, value_name = "N|N..M")]
    pub(crate) workers: Option<WorkerRange>,
    /// CPUs to pin the threads to, in order, separated by commas
    #[arg(long, value_name = "CPU,...", value_delimiter = ',', conflicts_with = "cpu")]
    pub(crate) cpus: Vec<usize>,
    /// Threads of each worker
    #[arg(long, value_enum, default_value_t)]
    pub(crate) threads: ThreadModel,
    /// Which worker serves a connection
    #[arg(long, value_enum, default_value_t)]
    pub(crate) steering: SteeringRule,
}

impl WorkerArgs {
    /// Number of CPUs that a worker uses.
    pub(crate) fn cpus_each(&self) -> usize {
        if self.threads == ThreadModel::Split { 2 } else { 1 }
    }

    /// Number of workers.
    pub(crate) fn count(&self) -> usize {
        self.workers.map_or_else(|| (self.cpus.len() / self.cpus_each()).max(1), |workers| workers.most)
    }

    /// Which workers receive new connections, if their number follows the load.
    pub(crate) fn activity(&self) -> Option<Arc<Activity>> {
        let range = self.range()?;
        Some(Arc::new(Activity::new(range.least..=range.most, Some(Activity::INTERVAL))))
    }

    fn range(&self) -> Option<WorkerRange> {
        self.workers.filter(|workers| workers.least < workers.most)
    }

    /// Returns an error if the number of workers follows the load, with the reason why it must not.
    pub(crate) fn only_fixed(&self, reason: &str) -> Result<(), Diagnostic> {
        let Some(WorkerRange { least, most }) = self.range() else { return Ok(()) };
        let place = format!("--workers {least}..{most}");
        Err(Diagnostic::bad(place, reason, format!("write --workers {most}")))
    }

    /// Whether one thread runs everything.
    pub(crate) fn is_single(&self) -> bool {
        self.count() == 1 && self.threads == ThreadModel::Unified
    }

    /// The end of a program with one thread, on the first of these CPUs.
    pub(crate) fn single(&self, end: &EndArgs) -> EndArgs {
        EndArgs { cpu: end.cpu.or_else(|| self.cpus.first().copied()), ..end.clone() }
    }

    /// The number of several workers, for the end of a sentence.
    pub(crate) fn text(&self) -> String {
        match (self.range(), self.count()) {
            (Some(WorkerRange { least, most }), _) => format!(" with {least} to {most} workers"),
            (None, 1) => String::new(),
            (None, count) => format!(" with {count} workers"),
        }
    }

    /// Returns an error for thread models that `serve sockets` does not support.
    pub(crate) fn only_unified(&self) -> Result<(), Diagnostic> {
        if self.threads == ThreadModel::Unified {
            return Ok(());
        }
        let reason = "the programs of `serve sockets` are its clients, which have threads of their own";
        Err(Diagnostic::bad("--threads", reason, "leave --threads out"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_a_number_or_a_range() {
        let parsed = |text: &str| text.parse().map(|WorkerRange { least, most }| (least, most));
        assert_eq!([parsed("4"), parsed("1..4"), parsed("2..2")], [Ok((4, 4)), Ok((1, 4)), Ok((2, 2))]);
        for (text, reason) in [
            ("", "expected a number"),
            ("1..", "expected a number"),
            ("1-4", "expected a number"),
            ("0..4", "0 is not in 1..=32"),
            ("1..33", "33 is not in 1..=32"),
            ("4..1", "the lower one"),
        ] {
            assert!(parsed(text).is_err_and(|error| error.contains(reason)), "{text}");
        }
    }
}
