//! Completion of names of the running switch: ports, bridges, bonds and mirrors in arguments of any command.

use crate::api::client::Client;
use crate::api::model::PortReport;
use crate::args;
use clap::{Arg, Command};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use serde_json::Value;
use std::path::PathBuf;

/// The definition of the command line, with candidates for names.
pub(crate) fn command() -> Command {
    with_names(args::command())
}

fn with_names(command: Command) -> Command {
    command.mut_args(with_candidates).mut_subcommands(with_names)
}

fn with_candidates(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "port" | "in_port" | "members" | "source_ports" | "destination_ports" | "output_port" => {
            arg.add(ArgValueCandidates::new(ports))
        }
        "bridge" => arg.add(ArgValueCandidates::new(|| named("/v1/bridges"))),
        "bond" => arg.add(ArgValueCandidates::new(|| named("/v1/bonds"))),
        "mirror" => arg.add(ArgValueCandidates::new(|| named("/v1/mirrors"))),
        _ => arg,
    }
}

fn ports() -> Vec<CompletionCandidate> {
    // Without a running switch, there is no name to complete.
    let ports: Vec<PortReport> = client().get("/v1/ports").unwrap_or_default();
    ports.into_iter().map(|port| CompletionCandidate::new(port.settings.name)).collect()
}

/// Names of the objects of a list.
fn named(list: &str) -> Vec<CompletionCandidate> {
    let objects: Vec<Value> = client().get(list).unwrap_or_default();
    objects.iter().filter_map(|object| object["name"].as_str()).map(CompletionCandidate::new).collect()
}

/// The switch of `--control` in the words to complete, of the environment, or at the default path.
fn client() -> Client {
    let words: Vec<String> = std::env::args().collect();
    let value = |i: usize| match words[i].strip_prefix("--control") {
        Some("") => words.get(i + 1).cloned(),
        Some(value) => value.strip_prefix('=').map(str::to_owned),
        None => None,
    };
    let given = (0..words.len()).find_map(value).map(PathBuf::from);
    let socket = given.or_else(|| std::env::var_os(args::CONTROL_VARIABLE).map(PathBuf::from));
    Client::new(socket.as_deref())
}
