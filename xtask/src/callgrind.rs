//! Instruction-count regression test of the fast path: callgrind counts instructions per packet, independent of the
//! machine. Counted is one round of the engine's worker over two vhost-user ports, without the simulated guests, and
//! one round of a TCP server behind a vhost-user port, without its client.
//!
//! A count depends on the sources, their compiler and nothing else. `cargo xtask callgrind` counts every case and
//! records the fingerprint of the sources, and `cargo xtask test` counts only if the sources differ from those
//! recorded.
//!
//! Valgrind 3.19 does not support AVX-512, so the AVX2 copy kernel is always used.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::command::{self, BUILD, cargo};
use crate::fingerprint;
use crate::steps::Outcome;

/// The counted program, with one copy kernel, which shortens its build.
const PROGRAM: [&str; 6] = ["build", "--release", "--package", PACKAGE, "--features", "mem/only-avx2"];
const PACKAGE: &str = "linerate-counted";
/// File with the limits, beside the program.
const LIMITS: &str = "limits.toml";
/// File with the fingerprint of the sources for which every case was counted.
const RECORD: &str = "counted-sources";
const RINGS: [&str; 4] = ["split", "split-inorder", "packed", "packed-inorder"];
const SIZES: [&str; 2] = ["64", "1514"];
const TRAFFIC: [&str; 12] =
    ["pair", "many", "flood", "vlan", "merge", "staged", FLOW, MATCH, MATCHES, "uplink", "downlink", ECHO];
/// Requests to a TCP server, of 64 bytes by 16 connections; counted per request.
const ECHO: &str = "echo";
/// One flow for each port in place of the learning bridge.
const FLOW: &str = "flow";
/// One flow for each destination address.
const MATCH: &str = "match";
/// The same with 1,024 addresses.
const MATCHES: &str = "matches";
/// The functions whose instructions are counted, including their callees.
const COUNTED: &str = "--toggle-collect=*counted*_part*";
/// Margin of a limit over the measured count, for other compiler releases.
const SLACK: f64 = 1.05;
/// Margin for traffic of many flows, whose slots in the flow cache depend on a random secret.
const SLACK_OF_MANY: f64 = 1.15;

/// Arguments of `cargo xtask callgrind`.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct CallgrindArguments {
    /// Write the current counts plus a margin as the new limits
    #[arg(long)]
    update: bool,
}

/// Maximum instructions per packet, by ring, frame size and traffic.
type Limits = BTreeMap<String, BTreeMap<String, BTreeMap<String, f64>>>;

/// Ring, bytes of a frame, traffic.
type Case = (&'static str, &'static str, &'static str);

struct Row {
    ring: &'static str,
    size: &'static str,
    traffic: &'static str,
    measured: f64,
    limit: Option<f64>,
}

/// Counts every case, prints the table, and compares it with the limits or updates them. Records what was counted.
pub(crate) fn run(arguments: CallgrindArguments) -> Result<Outcome> {
    let limits = if arguments.update { Limits::new() } else { limits()? };
    let sources = sources()?;
    let outcome = count_cases(&limits, &cases(true), |rows| {
        if !arguments.update {
            return validate(rows);
        }
        std::fs::write(file(LIMITS), text(rows)).context("cannot write the limits")?;
        println!("wrote {}", file(LIMITS).display());
        Ok(())
    })?;
    if outcome == Outcome::Passed {
        ensure!(
            sources == self::sources()?,
            "sources were changed while they were counted; count them again"
        );
        std::fs::write(file(RECORD), fingerprint()? + "\n").context("cannot record what was counted")?;
    }
    Ok(outcome)
}

/// Compares the counts of every case with the limits, or those of a sample if the sources were not counted yet.
pub(crate) fn check(all: bool) -> Result<Outcome> {
    let recorded = std::fs::read_to_string(file(RECORD)).unwrap_or_default();
    if !all && recorded.trim() == fingerprint()? {
        println!("every case was counted for these sources: {}", file(RECORD).display());
        return Ok(Outcome::Passed);
    }
    count_cases(&limits()?, &cases(all), validate)
}

/// Fingerprint of what is counted and of the limits.
fn fingerprint() -> Result<String> {
    fingerprint::of(PACKAGE, &[counter(), file(LIMITS)])
}

/// Fingerprint of what is counted.
fn sources() -> Result<String> {
    fingerprint::of(PACKAGE, &[counter()])
}

/// This file, which decides what is counted.
fn counter() -> PathBuf {
    command::root().join("xtask/src/callgrind.rs")
}

fn count_cases(
    limits: &Limits,
    cases: &[Case],
    check_rows: impl FnOnce(&[Row]) -> Result<()>,
) -> Result<Outcome> {
    if !command::exists("valgrind") {
        return Ok(Outcome::Skipped("valgrind is not installed; as root: apt-get install valgrind".into()));
    }
    command::run(&cargo(&PROGRAM), BUILD)?;
    let rows = rows(limits, cases)?;
    print!("{}", table(&rows));
    check_rows(&rows).map(|()| Outcome::Passed)
}

/// Counts cases, one per CPU at a time; counts do not depend on the load of the machine.
fn rows(limits: &Limits, cases: &[Case]) -> Result<Vec<Row>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let row = |&(ring, size, traffic): &Case| {
        let limit = limits.get(ring).and_then(|sizes| sizes.get(size)?.get(traffic).copied());
        Ok(Row { ring, size, traffic, measured: count(ring, size, traffic)?, limit })
    };
    std::thread::scope(|scope| {
        let chunks = cases.chunks(cases.len().div_ceil(threads));
        let parts: Vec<_> =
            chunks.map(|chunk| scope.spawn(move || chunk.iter().map(row).collect::<Vec<_>>())).collect();
        let joined = |part: std::thread::ScopedJoinHandle<'_, Vec<Result<Row>>>| {
            part.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        parts.into_iter().flat_map(joined).collect()
    })
}

/// The smallest frame over every ring and the TCP server over one, or everything.
fn cases(all: bool) -> Vec<Case> {
    let sizes = if all { &SIZES[..] } else { &SIZES[..1] };
    let of_ring =
        |ring| sizes.iter().flat_map(move |size| TRAFFIC.iter().map(move |traffic| (ring, *size, *traffic)));
    // Cases that do not depend on the ring are counted with one of them.
    let is_counted = |(ring, size, traffic): &Case| match *traffic {
        ECHO => *size == SIZES[0] && (all || *ring == RINGS[0]),
        FLOW | MATCH | MATCHES => *ring == RINGS[0],
        _ => true,
    };
    RINGS.iter().flat_map(|ring| of_ring(*ring)).filter(is_counted).collect()
}

fn file(name: &str) -> PathBuf {
    command::root().join("benches/counted").join(name)
}

fn limits() -> Result<Limits> {
    let path = file(LIMITS);
    let text = std::fs::read_to_string(&path);
    let text = text.with_context(|| {
        format!("no limits in {}: `cargo xtask callgrind --update` writes them", path.display())
    })?;
    toml::from_str(&text)
        .with_context(|| format!("{} is not a valid limits file; write it with `--update`", path.display()))
}

/// Instructions per packet of one case.
fn count(ring: &str, size: &str, traffic: &str) -> Result<f64> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", COUNTED]);
    valgrind.arg(command::target().join("release/counted")).args([ring, size, traffic]);
    let output = valgrind.output().context("cannot run valgrind")?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("counting {ring}, {size} B, {traffic} ended with {}: {}", output.status, said.trim());
    }
    let packets = String::from_utf8_lossy(&output.stdout).trim().parse::<f64>();
    let packets = packets.context("the program did not print the number of packets")?;
    let instructions = collected(&said).context("callgrind did not print the instruction count")?;
    if instructions == 0.0 {
        bail!("callgrind counted nothing: no function of the release build matches {COUNTED}");
    }
    Ok(instructions / packets)
}

/// `==123== Collected : 4567`
fn collected(said: &str) -> Option<f64> {
    let line = said.lines().find(|line| line.contains("Collected :"))?;
    line.rsplit(' ').next()?.parse().ok()
}

impl Row {
    fn is_met(&self) -> bool {
        self.limit.is_some_and(|limit| self.measured <= limit)
    }
}

fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<16} {:>5}  {:<7} {:>12} {:>7}  result\n",
        "ring", "bytes", "traffic", "instructions", "limit"
    );
    for row in rows {
        let Row { ring, size, traffic, measured, .. } = row;
        let limit = row.limit.map_or("-".to_owned(), |limit| format!("{limit:.0}"));
        let result = if row.limit.is_none() {
            "-"
        } else if row.is_met() {
            "ok"
        } else {
            "EXCEEDED"
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{ring:<16} {size:>5}  {traffic:<7} {measured:>12.1} {limit:>7}  {result}");
    }
    text
}

fn validate(rows: &[Row]) -> Result<()> {
    let missed: Vec<String> = rows
        .iter()
        .filter(|row| !row.is_met())
        .map(|row| format!("{} {} B {}", row.ring, row.size, row.traffic))
        .collect();
    if missed.is_empty() {
        return Ok(());
    }
    bail!(
        "more instructions per packet than benches/counted/limits.toml allows, or no limit there: {}; make the path shorter, \
         or say in the commit why it is longer and run `cargo xtask callgrind --update`",
        missed.join(", ")
    )
}

fn text(rows: &[Row]) -> String {
    let mut text = "# Most instructions per packet of the fast path: by ring, bytes of a frame, traffic.\n\
                    # Written by `cargo xtask callgrind --update` as what was counted and five per cent more (many, matches: fifteen).\n"
        .to_owned();
    for row in rows {
        if row.traffic == TRAFFIC[0] {
            let _ = writeln!(text, "\n[{}.{}]", row.ring, row.size);
        }
        let slack = if ["many", MATCHES].contains(&row.traffic) { SLACK_OF_MANY } else { SLACK };
        let _ = writeln!(text, "{} = {:.1}", row.traffic, row.measured * slack);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(limit: Option<f64>) -> Row {
        Row { ring: "split", size: "64", traffic: "pair", measured: 100.0, limit }
    }

    #[test]
    fn instruction_count_is_read_from_callgrind_output() {
        let said = "==7== \n==7== Events    : Ir\n==7== Collected : 11372727\n==7== \n";
        assert_eq!(collected(said), Some(11_372_727.0));
        assert_eq!(collected("==7== no such line"), None);
    }

    #[test]
    fn count_above_its_limit_or_without_limit_fails() {
        assert!(validate(&[row(Some(100.0))]).is_ok());
        for bad in [row(Some(99.9)), row(None)] {
            assert!(validate(&[bad]).unwrap_err().to_string().contains("split 64 B pair"));
        }
    }

    #[test]
    fn updated_limits_parse_and_are_met() {
        let limits: Limits = toml::from_str(&text(&[row(None)])).unwrap();
        let limit = limits["split"]["64"]["pair"];
        assert!((limit - 105.0).abs() < 1e-9);
        assert!(row(Some(limit)).is_met());
    }
}
