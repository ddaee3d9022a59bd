//! Measures scaling of the switch: cost per packet by ports and addresses, memory per port, start-up time, idle CPU,
//! and wake-up time of a sleeping switch. It prints readings and applies no limits.
//!
//! Costs are measured in this process on one thread, so that they contain only the switch's own code and caches. All
//! other readings use a switch in a separate process: `linerate run`, or with `--library` the same engine and bridge
//! without configuration file and control API.

mod cost;
mod process;
mod readings;
mod serve;
mod table;
mod wake;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand, ValueEnum};

use process::SwitchUnderTest;
use serde_json::Value;

/// Tables to measure, and CPUs.
#[derive(Debug, Parser)]
struct Arguments {
    /// Measure only these tables [default: all]
    #[arg(long = "only", value_enum)]
    only: Vec<Measurement>,
    /// Program to measure
    #[arg(long, env = "LINERATE_BIN", default_value = "target/release/linerate", value_name = "FILE")]
    linerate: PathBuf,
    /// Measure engine and bridge as a library in a separate process instead of the program
    #[arg(long)]
    library: bool,
    /// CPU of the switch
    #[arg(long, default_value_t = 0)]
    switch_cpu: usize,
    /// CPU of the guests
    #[arg(long, default_value_t = 1)]
    guest_cpu: usize,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    #[command(subcommand)]
    hidden: Option<HiddenCommand>,
}

#[derive(Debug, Subcommand)]
enum HiddenCommand {
    /// Run the switch of `--library`
    #[command(hide = true)]
    Serve(serve::ServeArguments),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Measurement {
    /// Cost per packet
    Cost,
    /// Memory per port
    Memory,
    /// Start-up time
    Start,
    /// CPU usage of a switch with idle guests
    Idle,
    /// Latency of one packet through a sleeping switch
    Wake,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Aligned text
    #[default]
    Table,
    /// JSON
    Json,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match &arguments.hidden {
        Some(HiddenCommand::Serve(serve)) => serve::run(serve),
        None => run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("scale: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let which = SwitchUnderTest {
        program: (!arguments.library).then(|| arguments.linerate.clone()),
        cpu: arguments.switch_cpu,
        guest_cpu: arguments.guest_cpu,
    };
    let mut tables = Vec::new();
    for part in Measurement::value_variants() {
        if !arguments.only.is_empty() && !arguments.only.contains(part) {
            continue;
        }
        eprintln!("measuring: {part:?}");
        tables.push(match part {
            Measurement::Cost => process::pinned(which.guest_cpu, cost::table)?,
            Measurement::Memory => readings::memory(&which)?,
            Measurement::Start => readings::start(&which)?,
            Measurement::Idle => readings::idle(&which)?,
            Measurement::Wake => wake::table(&which)?,
        });
    }
    match arguments.output {
        Output::Table => tables.iter().for_each(|table| println!("{}", table.text())),
        Output::Json => {
            println!("{:#}", Value::Object(tables.iter().map(table::Table::json).collect()));
        }
    }
    Ok(())
}
