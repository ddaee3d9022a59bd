//! `cargo xtask bench net`: one TCP stream, or 64-byte frames, between two network namespaces over our switch and
//! others in turn. Each reading uses fresh namespaces and a fresh switch, which a script (`net.sh`) creates and
//! removes.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use serde_json::Value;

use super::comparison::{Column, Comparison, Goal, Pair};
use super::rounds::Values;
use super::{Options, script};
use crate::command::{self, cargo};
use crate::packages;

const SCRIPT: &str = include_str!("net.sh");
const BUILD: Duration = Duration::from_mins(30);

/// Measurement parameters.
#[derive(Args, Clone, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    options: Options,
    /// Traffic
    #[arg(long, value_enum, default_value_t)]
    load: Load,
    /// TOML lines for the sections of our ports, such as `io = "calls"`
    #[arg(long, default_value = "", value_name = "TOML")]
    port: String,
}

/// The load, which determines the switches and their ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Load {
    /// One TCP stream by iperf3, over TAP ports and the kernel's bridge
    #[default]
    Stream,
    /// Frames of 64 bytes that the kernel sends, over AF_XDP with and without its fast path, and packet sockets on veth
    Frames,
}

const STREAM: [Column; 1] = [Column::new("gbit_per_second", "Gbit/s", 2)];
const FRAMES: [Column; 2] =
    [Column::new("forwarded_kpps", "kpps", 0), Column::new("offered_kpps", "offered kpps", 0)];

impl Load {
    /// The subjects, as names of the script.
    fn subjects(self) -> &'static [&'static str] {
        match self {
            Load::Stream => &["tap", "bridge", "ovs-tap"],
            Load::Frames => &[
                "af_xdp",
                "ovs-afxdp",
                "af_packet",
                "ovs-system",
                "af_xdp-pair",
                "af_xdp-flow",
                "af_xdp-ct",
                "ovs-afxdp-ct",
            ],
        }
    }

    /// Ours, theirs, and the least ratio.
    fn pairs(self) -> &'static [(usize, usize, f64)] {
        match self {
            Load::Stream => &[(0, 1, 1.0), (0, 2, 5.0)],
            Load::Frames => &[(0, 1, 2.0), (2, 3, 2.0), (0, 3, 2.0), (4, 1, 3.0), (5, 1, 3.0), (6, 7, 3.0)],
        }
    }
}

/// Measures all subjects of the load.
pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let options = &arguments.options;
    options.validate()?;
    if !command::is_root() {
        bail!("network namespaces, TAP interfaces and AF_XDP need root: run this as root");
    }
    packages::ensure(packages::NET)?;
    command::build_linerate()?;
    if arguments.load == Load::Frames {
        let flood = ["build", "--release", "--package", "linerate-benches", "--bin", "flood"];
        command::run(&cargo(&flood), BUILD)?;
    }
    let comparison = comparison(arguments.load);
    comparison.run(options, |subject| read(arguments, arguments.load.subjects()[subject]))
}

fn comparison(load: Load) -> Comparison {
    let pair = |&(ours, theirs, least): &(usize, usize, f64)| Pair {
        ours,
        theirs,
        column: 0,
        goal: Some(Goal::AtLeast(least)),
    };
    Comparison {
        title: "linerate between network namespaces: ratios of rates",
        labels: &["switch"],
        columns: if load == Load::Stream { &STREAM } else { &FRAMES },
        subjects: load.subjects().iter().map(|name| vec![(*name).to_owned()]).collect(),
        pairs: load.pairs().iter().map(pair).collect(),
        huge_pages: 0,
    }
}

fn read(arguments: &Arguments, subject: &str) -> Result<Values> {
    // iperf3 takes whole seconds.
    let seconds = arguments.options.duration.as_secs_f64().ceil();
    let options = Options { duration: Duration::from_secs(seconds as u64), ..arguments.options.clone() };
    let flood = command::target().join("release/flood").display().to_string();
    let load = super::word(&arguments.load);
    let variables = [("SUBJECT", subject), ("LOAD", &load), ("PORT", &arguments.port), ("FLOOD", &flood)];
    script::read(&options, SCRIPT, &variables, |said| parse(arguments.load, said))
}

/// Parses the output of the script: the report of iperf3, or the packets per second that arrived and were sent.
fn parse(load: Load, said: &str) -> Option<Values> {
    if load == Load::Stream {
        let report: Value = serde_json::from_str(said).ok()?;
        let rate = report["end"]["sum_received"]["bits_per_second"].as_f64()?;
        return Some(vec![Some(rate / 1e9)]);
    }
    let numbers: Vec<f64> = said.split_whitespace().map(|word| word.parse().ok()).collect::<Option<_>>()?;
    (numbers.len() == 2).then(|| numbers.iter().map(|pps| Some(pps / 1e3)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_is_parsed_and_invalid_text_gives_none() {
        let report = "{\"end\": {\"sum_received\": {\"bits_per_second\": 2.5e9}}}";
        assert_eq!(parse(Load::Stream, report), Some(vec![Some(2.5)]));
        assert_eq!(parse(Load::Frames, "1200 3400\n"), Some(vec![Some(1.2), Some(3.4)]));
        assert!(parse(Load::Stream, "{}").is_none() && parse(Load::Frames, "12").is_none());
    }

    #[test]
    fn our_ports_are_compared_with_those_of_others() {
        let names = |load| {
            let comparison = comparison(load);
            comparison.pairs.iter().map(|pair| comparison.pair_name(pair)).collect::<Vec<_>>()
        };
        assert_eq!(names(Load::Stream), ["tap over bridge", "tap over ovs-tap"]);
        assert_eq!(names(Load::Frames)[1], "af_packet over ovs-system");
        assert_eq!(names(Load::Frames)[5], "af_xdp-ct over ovs-afxdp-ct");
    }
}
