//! `linerate check`: prints the topology of a file, or all errors in it.

use crate::args::CheckArgs;
use crate::host::Host;
use crate::settings::config;
use console::{Diagnostic, Output};
use serde::Serialize;
use std::path::Path;

/// Output of `-o json` for an invalid file.
#[derive(Serialize)]
struct Errors {
    errors: Vec<Diagnostic>,
}

/// Validates a file.
pub(crate) fn run(args: &CheckArgs, control: Option<&Path>) -> anyhow::Result<()> {
    match (config::read(&args.config, &Host::here(), control), args.show.output) {
        (Ok(topology), output) => console::print(&topology, output, |topology| format!("ok\n{topology}")),
        (Err(error), Output::Table) => Err(error.into()),
        (Err(error), Output::Json) => {
            let errors = Errors { errors: error.clone().into_each() };
            console::line(&serde_json::to_string_pretty(&errors)?)?;
            Err(error.into())
        }
    }
}
