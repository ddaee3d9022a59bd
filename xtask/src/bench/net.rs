//! `cargo xtask bench net`: one TCP stream between two network namespaces, over our switch with TAP ports and over
//! others in turn. Each reading uses fresh namespaces and a fresh switch, which a script (`net.sh`) creates and
//! removes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::Output;
use super::picture::{self, Bar};
use super::progress::Progress;
use super::report::median;
use crate::{command, packages};

const SCRIPT: &str = include_str!("net.sh");

/// Measurement parameters.
#[derive(Args, Clone, Debug)]
pub(crate) struct NetArguments {
    /// Number of rounds; the result is the median
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Duration of a reading in seconds, after a warm-up
    #[arg(long, default_value_t = 4)]
    seconds: u32,
    /// Switches to compare with [default: all]
    #[arg(long = "peer", value_enum)]
    against: Vec<Peer>,
    /// CPU of our worker
    #[arg(long, default_value_t = 0)]
    host_cpu: usize,
    /// TOML lines for the sections of our ports, such as `io = "calls"`
    #[arg(long, default_value = "", value_name = "TOML")]
    port: String,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    /// Also draw the ratios and their targets into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// The other switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Peer {
    /// Linux bridge with veth interfaces
    Bridge,
    /// Open vSwitch with its user space datapath and TAP ports
    Ovs,
}

impl Peer {
    const ALL: [Peer; 2] = [Peer::Bridge, Peer::Ovs];

    fn name(self) -> &'static str {
        match self {
            Peer::Bridge => "bridge",
            Peer::Ovs => "ovs",
        }
    }

    /// The target ratio.
    fn target(self) -> f64 {
        match self {
            Peer::Bridge => 1.0,
            Peer::Ovs => 5.0,
        }
    }
}

/// A reading of both switches in one round, in bits per second.
#[derive(Clone, Copy, Debug)]
struct Reading {
    ours: f64,
    theirs: f64,
}

/// The results of all rounds with one peer.
struct Row {
    peer: Peer,
    readings: Vec<Reading>,
}

/// Measures all peers and prints each round. At the end, or after an interruption, prints the table of the readings so
/// far.
pub(crate) fn net(arguments: &NetArguments) -> Result<()> {
    if !command::is_root() {
        bail!("network namespaces and TAP interfaces are root's: run it as root");
    }
    let peers = if arguments.against.is_empty() { Peer::ALL.to_vec() } else { arguments.against.clone() };
    packages::ensure(packages::NET)?;
    command::build_linerate()?;
    let progress = Progress::new(peers.len() * arguments.rounds)?;
    let mut rows: Vec<_> = peers.into_iter().map(|peer| Row { peer, readings: Vec::new() }).collect();
    for number in 1..=arguments.rounds {
        for row in &mut rows {
            if progress.is_interrupted() {
                break;
            }
            round(arguments, row, number, &progress)?;
        }
    }
    publish(arguments, &rows)?;
    if progress.is_interrupted() {
        bail!("interrupted after {}: the result is of what was measured by then", progress.done());
    }
    if rows.iter().any(|row| row.readings.is_empty()) {
        bail!("some peers gave no reading");
    }
    Ok(())
}

fn round(arguments: &NetArguments, row: &mut Row, number: usize, progress: &Progress) -> Result<()> {
    let title = format!("{}, round {number}", row.peer.name());
    progress.begin(&title);
    let (ours, theirs) = (reading(arguments, "ours"), reading(arguments, row.peer.name()));
    if progress.is_interrupted() {
        return Ok(());
    }
    let reading = Reading { ours: ours?, theirs: theirs? };
    let Reading { ours, theirs } = reading;
    let gigabits = |bits: f64| bits / 1e9;
    progress.end(&format!(
        "{title}: ours {:.2} Gbit/s, theirs {:.2} Gbit/s, ratio {:.3}",
        gigabits(ours),
        gigabits(theirs),
        ours / theirs
    ));
    row.readings.push(reading);
    Ok(())
}

/// Received bits per second through one switch.
fn reading(arguments: &NetArguments, switch: &str) -> Result<f64> {
    let logs = tempfile::tempdir().context("no temporary folder")?;
    let file = logs.path().join("net.sh");
    fs::write(&file, SCRIPT).with_context(|| format!("cannot write {}", file.display()))?;
    let mut script = Command::new("bash");
    script.arg(&file).env("SWITCH", switch).env("LOGS", logs.path());
    script.env("LINERATE", command::linerate()).env("PORT", &arguments.port);
    script.env("CPU", arguments.host_cpu.to_string()).env("SECONDS_LONG", arguments.seconds.to_string());
    let said = command::output(&mut script).with_context(|| logs_of(logs.path()))?;
    let report: Value = serde_json::from_str(&said).with_context(|| format!("iperf3 said {said}"))?;
    let rate = report["end"]["sum_received"]["bits_per_second"].as_f64();
    rate.with_context(|| format!("iperf3 reports no rate: {report}"))
}

/// The logs of a failed reading.
fn logs_of(folder: &Path) -> String {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let logs = files.filter(|path| path.extension().is_some_and(|ending| ending == "log"));
    let shown =
        logs.map(|path| format!("{}:\n{}", path.display(), fs::read_to_string(&path).unwrap_or_default()));
    shown.collect()
}

fn publish(arguments: &NetArguments, rows: &[Row]) -> Result<()> {
    match arguments.output {
        Output::Table => print!("{}", table(rows)),
        Output::Json => println!("{:#}", Value::Array(rows.iter().map(Row::json).collect())),
    }
    let Some(file) = &arguments.svg else { return Ok(()) };
    let bars: Vec<_> = rows.iter().map(Row::bar).collect();
    let text = picture::svg("linerate between network namespaces: ratio of TCP rates", &bars);
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

fn table(rows: &[Row]) -> String {
    let heading = ["peer", "rounds", "ours Gbit/s", "theirs Gbit/s", "ratio", "target", "result"];
    let lines = std::iter::once(heading.map(str::to_owned)).chain(rows.iter().map(Row::cells));
    let line = |[peer, rest @ ..]: [String; 7]| {
        let cells = rest.map(|cell| format!("{cell:>14}")).concat();
        format!("{peer:<8}{cells}\n")
    };
    lines.map(line).collect::<Vec<_>>().concat()
}

impl Row {
    fn over(&self, field: fn(&Reading) -> f64) -> Option<f64> {
        median(self.readings.iter().map(field).collect())
    }

    /// The median of the rounds' ratios.
    fn ratio(&self) -> Option<f64> {
        self.over(|reading| reading.ours / reading.theirs)
    }

    fn is_met(&self) -> Option<bool> {
        Some(self.ratio()? >= self.peer.target())
    }

    fn cells(&self) -> [String; 7] {
        let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.2}"));
        [
            self.peer.name().to_owned(),
            self.readings.len().to_string(),
            number(self.over(|reading| reading.ours / 1e9)),
            number(self.over(|reading| reading.theirs / 1e9)),
            number(self.ratio()),
            number(Some(self.peer.target())),
            self.is_met().map_or("-", |met| if met { "met" } else { "missed" }).to_owned(),
        ]
    }

    fn json(&self) -> Value {
        json!({
            "peer": self.peer.name(),
            "rounds": self.readings.len(),
            "ours_bits_per_second": self.over(|reading| reading.ours),
            "theirs_bits_per_second": self.over(|reading| reading.theirs),
            "ratio": self.ratio(),
            "ratios": self.readings.iter().map(|reading| reading.ours / reading.theirs).collect::<Vec<_>>(),
            "target": self.peer.target(),
            "met": self.is_met(),
        })
    }

    fn bar(&self) -> Bar {
        Bar { name: self.peer.name().to_owned(), ratio: self.ratio(), target: Some(self.peer.target()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_the_ratios_counts_and_is_held_against_the_promise() {
        let readings = [(3.0, 1.0), (1.0, 2.0), (2.0, 2.0)].map(|(ours, theirs)| Reading { ours, theirs });
        let row = Row { peer: Peer::Bridge, readings: readings.to_vec() };
        assert_eq!((row.ratio(), row.is_met()), (Some(1.0), Some(true)));
        let ovs = Row { peer: Peer::Ovs, ..row };
        assert_eq!(ovs.json()["met"], false);
        assert!(table(&[ovs]).lines().nth(1).unwrap().ends_with("missed"));
    }

    #[test]
    fn without_a_reading_nothing_is_judged() {
        let row = Row { peer: Peer::Ovs, readings: Vec::new() };
        assert_eq!(row.is_met(), None);
        assert!(row.json()["ratio"].is_null());
    }
}
