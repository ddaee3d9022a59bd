//! Options of a benchmark, which are flags and keys of a file.

use super::parse::{advised, key_and_value};
use clap::Args;
use console::Span;
use console::words::one_of;
use generator::Sizes;
use rfc2544::{Plan, Test, Topology};
use serde::de::{DeserializeOwned, Error, IntoDeserializer};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// RFC 2544's sizes and the simple mix; the longest is what an interface with an MTU of 1500 carries.
const SIZES: [u16; 7] = [64, 128, 256, 512, 1024, 1280, 1514];
/// Timeout for ports to become ready.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A fraction, written as a percentage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Percent(pub(crate) f64);

impl FromStr for Percent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
        let part = number.filter(|number| number.is_finite()).map(|number| Percent(number / 100.0));
        part.ok_or_else(|| format!("invalid value `{text}`: expected a percentage such as 0.5%"))
    }
}

impl<'de> Deserialize<'de> for Percent {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0 * 100.0)
    }
}

/// The switch under test, unless `--switch-command` starts one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Own {
    /// This program, as a process of its own.
    #[default]
    Linerate,
    /// A switch that is already running.
    Running,
    /// This program, within the generator's own thread.
    Inline,
}

/// The forwarding guest, unless `--guest-command` starts one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum OwnGuest {
    /// This program, as a process of its own.
    #[default]
    Linerate,
    /// This program, within the generator's own thread.
    Inline,
}

/// The side that creates sockets without a configured path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Listener {
    /// The generator and the guest; the switch connects.
    #[default]
    Ours,
    /// The switch; generator and guest connect.
    Switch,
}

/// Options of a benchmark; an option that is `None` has its default, or the value of the file.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct BenchOptions {
    /// Path of frames: vm-vm (from one port to another), phy-vm-phy (in by one port, through a forwarding
    /// guest, and out by another) or loop (out and back by one port) [default: vm-vm]
    #[arg(long, value_parser = word::<Topology>, value_name = "NAME")]
    pub(crate) topology: Option<Topology>,
    /// Switch under test: linerate (this program as a separate process), inline (this program in the
    /// generator's thread, on its CPU) or running (a switch that is already running, at the addresses of the
    /// ports) [default: linerate]
    #[arg(long, value_parser = word::<Own>, value_name = "NAME", conflicts_with = "switch_command")]
    pub(crate) switch: Option<Own>,
    /// Command that runs another switch until it is terminated. `{a}` and `{b}` are replaced by the sockets
    /// or interfaces of the generator's ports, `{c}` and `{d}` by those of the guest, `{cpu}` by
    /// `--switch-cpu`
    #[arg(long, value_name = "COMMAND")]
    pub(crate) switch_command: Option<String>,
    /// Version of the other switch, recorded in the result
    #[arg(long, value_name = "TEXT")]
    pub(crate) switch_version: Option<String>,
    /// Built-in guest: linerate (this program as a separate process) or inline (this program in the
    /// generator's thread, if no CPU is left for a process) [default: linerate]
    #[arg(long, value_parser = word::<OwnGuest>, value_name = "NAME", conflicts_with = "guest_command")]
    pub(crate) guest: Option<OwnGuest>,
    /// Command that runs another guest instead of the built-in one, at `{c}` and `{d}` (loop: `{c}`); `{cpu}`
    /// is replaced by `--guest-cpu`
    #[arg(long, value_name = "COMMAND")]
    pub(crate) guest_command: Option<String>,
    /// Side that creates sockets without a `--port`: ours (generator and guest; the switch connects) or
    /// switch [default: ours]
    #[arg(long, value_parser = word::<Listener>, value_name = "NAME")]
    pub(crate) sockets: Option<Listener>,
    /// Port of the generator, as in `gen`; the first one sends, the second one receives [default: virtio-user
    /// ports on temporary sockets]
    #[arg(long = "port", value_name = "KEY=VALUE,...")]
    #[serde(skip)]
    pub(crate) port_flags: Vec<String>,
    #[arg(skip)]
    #[serde(rename = "port")]
    pub(crate) ports: Vec<Map<String, Value>>,
    /// Port of the built-in switch opposite to each `--port`, such as `kind=af_xdp,interface=veth1` [default:
    /// vhost-user for virtio-user, memif for memif]
    #[arg(long = "switch-port", value_name = "KEY=VALUE,...")]
    #[serde(skip)]
    pub(crate) switch_port_flags: Vec<String>,
    #[arg(skip)]
    #[serde(rename = "switch_port")]
    pub(crate) switch_ports: Vec<Map<String, Value>>,
    /// Tests to run: throughput, latency, loss, back-to-back [default: all]
    #[arg(long, value_delimiter = ',', value_parser = word::<Test>, value_name = "NAMES")]
    pub(crate) tests: Vec<Test>,
    /// Frame sizes in bytes without checksum, or imix [default: 64,128,256,512,1024,1280,1514,imix]
    #[arg(long, value_delimiter = ',', value_parser = advised::<Sizes>, value_name = "SIZES")]
    pub(crate) sizes: Vec<Sizes>,
    /// Frame loss ratio of the partial drop rate (PDR) [default: 0.5%]
    #[arg(long, value_name = "PERCENT")]
    pub(crate) loss: Option<Percent>,
    /// Precision of a rate search: final distance of its bounds, relative to the upper bound [default: 1%]
    #[arg(long, value_name = "PERCENT")]
    pub(crate) precision: Option<Percent>,
    /// Duration of a trial; RFC 2544 requires 60s [default: 2s]
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<Span>,
    /// Maximum number of trials per load, and number of trials per latency measurement [default: 3]
    #[arg(long, value_name = "N")]
    pub(crate) tries: Option<u32>,
    /// A load passes if more than this share of its trials pass. Set less than 50% if other processes or
    /// virtual machines disturb single trials; a switch that is too slow fails all of them [default: 50%]
    #[arg(long, value_name = "PERCENT")]
    pub(crate) agree: Option<Percent>,
    /// Number of rounds, each with all tests; `bench compare` needs six for confidence intervals [default: 1]
    #[arg(long, value_name = "N")]
    pub(crate) rounds: Option<u32>,
    /// Loads at which latency is measured, in percent of NDR [default: 10,20,30,40,50,60,70,80,90,100]
    #[arg(long, value_delimiter = ',', value_name = "PERCENT")]
    pub(crate) loads: Vec<f64>,
    /// Highest rate, taken as 100 percent: 10Mpps, "100% of 10GbE" and so on [default: rate of the generator
    /// over its loopback baseline]
    #[arg(long, value_name = "RATE")]
    pub(crate) ceiling: Option<String>,
    /// Number of flows
    #[arg(long, value_name = "N")]
    pub(crate) flows: Option<u32>,
    /// Any other key of a `[[stream]]` section of `gen`, such as `vlan=[5]`. May be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_and_value)]
    #[serde(skip)]
    pub(crate) set: Vec<(String, String)>,
    /// Keys of the section `[stream]`.
    #[arg(skip)]
    pub(crate) stream: BTreeMap<String, Value>,
    /// CPU of the generator
    #[arg(long, value_name = "CPU")]
    pub(crate) cpu: Option<usize>,
    /// CPU of the built-in switch
    #[arg(long, value_name = "CPU")]
    pub(crate) switch_cpu: Option<usize>,
    /// File with the `[worker]`, `[[worker]]` and `[placement]` sections of the built-in switch [default: one
    /// worker on `--switch-cpu`]
    #[arg(long, value_name = "FILE.toml")]
    pub(crate) switch_workers: Option<PathBuf>,
    /// CPU of the built-in guest
    #[arg(long, value_name = "CPU")]
    pub(crate) guest_cpu: Option<usize>,
    /// Timeout for forwarded frames, at the start and whenever none arrive [default: 20s]
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<Span>,
}

/// An invalid name on the command line; its text follows "invalid value".
#[derive(Debug)]
struct InvalidWord(String);

impl fmt::Display for InvalidWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidWord {}

impl Error for InvalidWord {
    fn custom<T: fmt::Display>(error: T) -> Self {
        Self(error.to_string())
    }

    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Self {
        Self(format!("expected {}", one_of(expected)))
    }
}

/// Parses a name as in a file.
fn word<T: DeserializeOwned>(text: &str) -> Result<T, InvalidWord> {
    T::deserialize(text.into_deserializer())
}

fn or_file<T>(flags: Vec<T>, file: Vec<T>) -> Vec<T> {
    if flags.is_empty() { file } else { flags }
}

impl BenchOptions {
    /// Returns these options, completed by those of the file.
    pub(crate) fn over(self, file: BenchOptions) -> BenchOptions {
        // A switch that the flags name is not one that the file starts by a command.
        let switch_command =
            if self.switch.is_some() { None } else { self.switch_command.clone().or(file.switch_command) };
        let switch = if self.switch_command.is_some() { None } else { self.switch.or(file.switch) };
        // Nor is a guest that they name.
        let guest_command =
            if self.guest.is_some() { None } else { self.guest_command.clone().or(file.guest_command) };
        let guest = if self.guest_command.is_some() { None } else { self.guest.or(file.guest) };
        BenchOptions {
            topology: self.topology.or(file.topology),
            switch,
            switch_command,
            switch_version: self.switch_version.or(file.switch_version),
            guest,
            guest_command,
            sockets: self.sockets.or(file.sockets),
            ports: file.ports,
            switch_ports: file.switch_ports,
            tests: or_file(self.tests, file.tests),
            sizes: or_file(self.sizes, file.sizes),
            loss: self.loss.or(file.loss),
            precision: self.precision.or(file.precision),
            duration: self.duration.or(file.duration),
            tries: self.tries.or(file.tries),
            agree: self.agree.or(file.agree),
            rounds: self.rounds.or(file.rounds),
            loads: or_file(self.loads, file.loads),
            ceiling: self.ceiling.or(file.ceiling),
            flows: self.flows.or(file.flows),
            stream: file.stream,
            cpu: self.cpu.or(file.cpu),
            switch_cpu: self.switch_cpu.or(file.switch_cpu),
            switch_workers: self.switch_workers.or(file.switch_workers),
            guest_cpu: self.guest_cpu.or(file.guest_cpu),
            timeout: self.timeout.or(file.timeout),
            ..self
        }
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout.map_or(TIMEOUT, |span| span.0)
    }

    /// Returns the plan of the benchmark, with defaults for options that are not set.
    pub(crate) fn plan(&self) -> Plan {
        let all = [Test::Throughput, Test::Latency, Test::Loss, Test::BackToBack];
        let sizes = SIZES.map(Sizes::Fixed).into_iter().chain([Sizes::Named("imix".to_owned())]);
        let named = |size: &Sizes| match size {
            // A number in quotes is that number.
            Sizes::Named(name) => name.parse().unwrap_or_else(|_| size.clone()),
            other => other.clone(),
        };
        Plan {
            tests: if self.tests.is_empty() { all.into() } else { self.tests.clone() },
            sizes: if self.sizes.is_empty() {
                sizes.collect()
            } else {
                self.sizes.iter().map(named).collect()
            },
            loss: self.loss.map_or(0.005, |loss| loss.0),
            precision: self.precision.map_or(0.01, |precision| precision.0),
            trial: self.duration.map_or(2.0, |trial| trial.0.as_secs_f64()),
            tries: self.tries.unwrap_or(3),
            agree: self.agree.map_or(0.5, |agree| agree.0),
            rounds: self.rounds.unwrap_or(1),
            loads: if self.loads.is_empty() {
                (1..=10).map(|tenth| f64::from(tenth) * 10.0).collect()
            } else {
                self.loads.clone()
            },
            ceiling: self.ceiling.clone(),
        }
    }
}
