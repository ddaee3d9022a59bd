//! `cargo xtask bench stack`: TCP between two CPUs by our stack, iip and the kernel, and servers on our stack beside
//! nginx and memcached. `rows` defines what is compared with what; a script (`stack.sh`) takes one reading.
//!
//! Ours and iip speak over a vhost-user socket. Clients that use the kernel's TCP reach our servers over a TAP
//! interface, and all others over a veth pair.

mod reading;
mod rows;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use super::comparison::Comparison;
use super::{Options, Ring, word};
use crate::command::{self, cargo};
use crate::packages::{self, Need};
use rows::{Subject, pairs, subjects};

const IIP_SCRIPT: &str = include_str!("iip.sh");
const BUILD: Duration = Duration::from_mins(30);
/// Huge pages of iip's two ends.
const HUGE_PAGES: u64 = 640;

/// Measurement parameters.
#[derive(Args, Clone, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    options: Options,
    /// Rows of the comparison [default: all]
    #[arg(long = "row", value_enum, value_delimiter = ',')]
    rows: Vec<Row>,
    /// Rings of the clients of rows echo and short [default: split and packed-inorder]
    #[arg(long = "ring", value_enum, value_delimiter = ',')]
    rings: Vec<Ring>,
    /// Numbers of connections [default: 1, 16, 64 and 256; row connections: 10, 1000, 100000 and 1000000]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    connections: Vec<u32>,
    /// Folder with the sources of iip, iip-dpdk and bench-iip; fetched if they are missing [default: below target]
    #[arg(long, value_name = "FOLDER")]
    iip: Option<PathBuf>,
}

/// Rows and options of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Row {
    /// One request after the other on each connection, beside iip and the kernel
    Echo,
    /// One request on each connection, beside the kernel
    Short,
    /// One stream with and without segmentation offload, beside iip and the kernel
    Bulk,
    /// Files of 1 KiB by HTTP, beside nginx, with wrk as the client
    Http,
    /// Values of 100 bytes, 95 % get, beside memcached, with memcaslap as the client
    Kv,
    /// Echo with up to a million connections, beside few
    Connections,
}

impl Row {
    /// Tools that the row needs besides those of every row.
    fn needs(self) -> &'static [Need] {
        match self {
            Row::Bulk => packages::BULK,
            Row::Http => packages::HTTP,
            Row::Kv => packages::KV,
            Row::Echo | Row::Short | Row::Connections => &[],
        }
    }
}

/// Programs of this repository and of iip.
struct Programs {
    sockets: PathBuf,
    bulk: PathBuf,
    /// `None` if iip cannot be built here.
    iip: Option<String>,
}

/// Measures the rows whose tools are available.
pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let options = &arguments.options;
    options.validate()?;
    if !command::is_root() {
        bail!("network namespaces and TAP interfaces need root: run this as root");
    }
    packages::ensure(packages::STACK)?;
    let rows = available(&arguments.rows)?;
    let programs = programs(arguments, &rows)?;
    let subjects = subjects(arguments, &rows, programs.iip.is_some());
    let comparison = comparison(&subjects);
    comparison.run(options, |subject| reading::take(options, &subjects[subject], &programs))
}

/// The wanted rows whose tools can be installed. Reports the others.
fn available(wanted: &[Row]) -> Result<Vec<Row>> {
    let wanted = if wanted.is_empty() { Row::value_variants() } else { wanted };
    let is_available = |row: &Row| match packages::ensure(row.needs()) {
        Ok(_) => true,
        Err(error) => {
            eprintln!("row {} is skipped: {error:#}", word(row));
            false
        }
    };
    let rows: Vec<_> = wanted.iter().copied().filter(is_available).collect();
    if rows.is_empty() {
        bail!("no row can be measured: see the messages above");
    }
    Ok(rows)
}

/// Builds all programs. Without iip, the subjects with it are skipped.
fn programs(arguments: &Arguments, rows: &[Row]) -> Result<Programs> {
    command::build_linerate()?;
    let own = ["build", "--release", "--package", "linerate-benches", "--bin", "sockets", "--bin", "bulk"];
    command::run(&cargo(&own), BUILD)?;
    let iip = if rows.iter().any(|row| matches!(row, Row::Echo | Row::Bulk)) {
        packages::ensure(packages::IIP).and_then(|_| iip(arguments))
    } else {
        return Ok(Programs { sockets: built("sockets"), bulk: built("bulk"), iip: None });
    };
    let iip = iip.inspect_err(|error| eprintln!("subjects with iip are skipped: {error:#}")).ok();
    Ok(Programs { sockets: built("sockets"), bulk: built("bulk"), iip })
}

fn built(name: &str) -> PathBuf {
    command::target().join("release").join(name)
}

/// Path of the program, which is built if necessary.
fn iip(arguments: &Arguments) -> Result<String> {
    let folder = arguments.iip.clone().unwrap_or_else(|| command::target().join("iip"));
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let folder = folder.canonicalize()?;
    let program = command::output(Command::new("bash").args(["-c", IIP_SCRIPT]).env("FOLDER", &folder));
    let program = program.with_context(|| {
        format!(
            "iip is not built; unpack its three repositories in {} if they cannot be fetched",
            folder.display()
        )
    })?;
    Ok(program.trim().to_owned())
}

fn comparison(subjects: &[Subject]) -> Comparison {
    let has_iip = subjects.iter().any(Subject::has_iip);
    Comparison {
        title: "TCP of linerate beside iip, the kernel, nginx and memcached: ratios",
        labels: &["row", "client", "server", "setting", "connections"],
        columns: &reading::COLUMNS,
        subjects: subjects.iter().map(Subject::labels).collect(),
        pairs: pairs(subjects),
        huge_pages: if has_iip { HUGE_PAGES } else { 0 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_without_tools_are_left_out_and_none_is_an_error() {
        assert_eq!(available(&[Row::Echo, Row::Connections]).unwrap(), [Row::Echo, Row::Connections]);
        assert!(Row::value_variants().iter().all(|row| !word(row).is_empty()));
    }
}
