//! `cargo xtask bench stack`: requests and replies over TCP between two CPUs, by our stack, iip and the kernel, as client
//! and as server. Ours and iip speak over a vhost-user socket, without offloads; the kernel over a veth pair. A script
//! (`stack.sh`) takes one reading.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use serde_json::Value;

use super::comparison::{Column, Comparison, Goal, Pair};
use super::rounds::Values;
use super::{Options, Ring, script, word};
use crate::command::{self, cargo};
use crate::packages;

const SCRIPT: &str = include_str!("stack.sh");
const IIP: &str = include_str!("iip.sh");
const BUILD: Duration = Duration::from_mins(30);
const HUGE_PAGES: u64 = 512;
const COLUMNS: [Column; 3] = [
    Column::new("requests_per_second", "requests/s", 0),
    Column::new("p50_us", "p50 us", 2),
    Column::new("p99_us", "p99 us", 2),
];
/// Bytes of a request and of a reply.
const SIZE: &str = "64";
/// Client and server.
const ENDS: [(&str, &str); 5] = [
    ("linerate", "linerate"),
    ("iip", "linerate"),
    ("linerate", "iip"),
    ("iip", "iip"),
    ("kernel", "kernel"),
];
/// Numbers in [`ENDS`].
const OURS: usize = 0;
const BOTH_IIP: usize = 3;
const KERNEL: usize = 4;

/// Measurement parameters.
#[derive(Args, Clone, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    options: Options,
    /// Rings of the client [default: split and packed-inorder]
    #[arg(long = "ring", value_enum)]
    rings: Vec<Ring>,
    /// Numbers of connections [default: 1, 16, 64 and 256]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=500))]
    connections: Vec<u32>,
    /// What a connection is used for
    #[arg(long, value_enum, default_value_t)]
    load: Load,
    /// Folder with the sources of iip, iip-dpdk and bench-iip; fetched if they are missing [default: below target]
    #[arg(long, value_name = "FOLDER")]
    iip: Option<PathBuf>,
}

/// Use of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Load {
    /// One request after the other on each connection
    #[default]
    Echo,
    /// One request on each connection, beside the kernel only
    Short,
}

/// A subject: number in [`ENDS`], ring and connections.
struct Subject {
    ends: usize,
    ring: String,
    connections: u32,
}

/// Measures all combinations of ends, rings and connections.
pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let options = &arguments.options;
    options.validate()?;
    packages::ensure(packages::STACK)?;
    command::build_linerate()?;
    let sockets = ["build", "--release", "--package", "linerate-benches", "--bin", "sockets"];
    command::run(&cargo(&sockets), BUILD)?;
    let iip = if arguments.load == Load::Echo { iip(arguments)? } else { String::new() };
    let subjects = subjects(arguments);
    let comparison = comparison(arguments.load, &subjects);
    comparison.run(options, |subject| read(arguments, &subjects[subject], &iip))
}

/// Path of the program, which is built if necessary.
fn iip(arguments: &Arguments) -> Result<String> {
    let folder = arguments.iip.clone().unwrap_or_else(|| command::target().join("iip"));
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let folder = folder.canonicalize()?;
    let program = command::output(Command::new("bash").args(["-c", IIP]).env("FOLDER", &folder));
    let program = program.with_context(|| {
        format!(
            "iip is not built; unpack its three repositories in {} if they cannot be fetched",
            folder.display()
        )
    })?;
    Ok(program.trim().to_owned())
}

/// The subjects: the kernel's have no ring and are measured once for each number of connections.
fn subjects(arguments: &Arguments) -> Vec<Subject> {
    let rings: Vec<_> = arguments.rings.iter().map(word).collect();
    let rings = if rings.is_empty() { vec!["split".to_owned(), "packed-inorder".to_owned()] } else { rings };
    let connections = &arguments.connections;
    let connections = if connections.is_empty() { &[1, 16, 64, 256][..] } else { connections };
    let mut subjects = Vec::new();
    for connections in connections.iter().copied() {
        for ring in &rings {
            let has_iip = arguments.load == Load::Echo;
            let ends = (0..KERNEL).filter(|ends| has_iip || *ends == OURS);
            subjects.extend(ends.map(|ends| Subject { ends, ring: ring.clone(), connections }));
        }
        subjects.push(Subject { ends: KERNEL, ring: "-".to_owned(), connections });
    }
    subjects
}

fn comparison(load: Load, subjects: &[Subject]) -> Comparison {
    let labels = |subject: &Subject| {
        let (client, server) = ENDS[subject.ends];
        let (client, server) = (format!("{client} client"), format!("{server} server"));
        vec![client, server, subject.ring.clone(), subject.connections.to_string()]
    };
    let find = |ends: usize, like: &Subject| {
        subjects.iter().position(|other| {
            other.ends == ends
                && other.connections == like.connections
                && (ends == KERNEL || other.ring == like.ring)
        })
    };
    let mut pairs = Vec::new();
    for (ours, subject) in subjects.iter().enumerate().filter(|(_, subject)| subject.ends < BOTH_IIP) {
        let goals = goals(load, subject);
        let pair = |(ends, column, goal)| Some(Pair { ours, theirs: find(ends, subject)?, column, goal });
        pairs.extend(goals.into_iter().filter_map(pair));
    }
    Comparison {
        title: "TCP of linerate beside iip and the kernel: ratios of requests per second and of medians",
        labels: &["client", "server", "ring", "connections"],
        columns: &COLUMNS,
        subjects: subjects.iter().map(labels).collect(),
        pairs,
        huge_pages: if load == Load::Echo { HUGE_PAGES } else { 0 },
    }
}

/// What a subject of ours is compared with: number in [`ENDS`], column and goal.
fn goals(load: Load, subject: &Subject) -> Vec<(usize, usize, Option<Goal>)> {
    let kernel = (KERNEL, 0, Some(Goal::AtLeast(10.0)));
    match (load, subject.ends, subject.connections) {
        (Load::Short, ..) => vec![kernel],
        (Load::Echo, OURS, 1) => vec![(BOTH_IIP, 1, Some(Goal::AtMost(0.9))), (BOTH_IIP, 0, None), kernel],
        (Load::Echo, OURS, _) => vec![(BOTH_IIP, 0, Some(Goal::AtLeast(1.5))), kernel],
        (Load::Echo, ..) => vec![(BOTH_IIP, 0, Some(Goal::AtLeast(1.1)))],
    }
}

fn read(arguments: &Arguments, subject: &Subject, iip: &str) -> Result<Values> {
    let (client, server) = ENDS[subject.ends];
    let sockets = command::target().join("release/sockets").display().to_string();
    let connections = subject.connections.to_string();
    let per_connection = if arguments.load == Load::Short { "1" } else { "0" };
    let variables = [
        ("CLIENT", client),
        ("SERVER", server),
        ("RING", &subject.ring),
        ("CONNECTIONS", &connections),
        ("SIZE", SIZE),
        ("PER_CONNECTION", per_connection),
        ("IIP", iip),
        ("SOCKETS", &sockets),
    ];
    let said = script::run(&arguments.options, SCRIPT, &variables)?;
    parse(&said).with_context(|| format!("the script printed {said:?}"))
}

/// Parses a report of `linerate load`, or one in its form. Returns `None` if it has another one.
fn parse(said: &str) -> Option<Values> {
    let report: Value = serde_json::from_str(said).ok()?;
    let rate = report["rounds"][0]["replies_per_second"].as_f64()?;
    let micros = |name: &str| report["latency_ns"][name].as_f64().map(|ns| ns / 1e3);
    Some(vec![Some(rate), micros("p50"), micros("p99")])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(load: Load) -> Arguments {
        let options = Options::of_test(1);
        Arguments { options, rings: vec![Ring::Split], connections: vec![1, 16], load, iip: None }
    }

    #[test]
    fn a_report_is_read() {
        let report =
            r#"{"rounds": [{"replies_per_second": 2.5e6}], "latency_ns": {"p50": 7000, "p99": 9500}}"#;
        assert_eq!(parse(report), Some(vec![Some(2.5e6), Some(7.0), Some(9.5)]));
        assert_eq!(parse("no server\n"), None);
    }

    #[test]
    fn each_end_of_ours_is_compared_at_the_same_ring_and_connections() {
        let names = |load| {
            let comparison = comparison(load, &subjects(&arguments(load)));
            comparison.pairs.iter().map(|pair| comparison.pair_name(pair)).collect::<Vec<_>>()
        };
        let echo = names(Load::Echo);
        assert_eq!(echo.len(), 3 + 2 + 2 + 2);
        assert_eq!(echo[0], "linerate client linerate server split 1 over iip client iip server");
        assert_eq!(echo[3], "iip client linerate server split 1 over iip server");
        assert_eq!(names(Load::Short).len(), 2);
    }
}
