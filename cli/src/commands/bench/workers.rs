//! Workers of our own switch: one worker, or the sections of a file.

use super::validate;
use crate::args::bench_options::BenchOptions;
use crate::host::Host;
use crate::settings::config;
use console::Diagnostic;
use std::fmt::Write as _;
use std::path::Path;

/// Sections allowed in such a file; ports and bridges are generated.
const SECTIONS: [&str; 2] = ["worker", "placement"];

/// Worker sections of our switch's configuration, and the same text if it comes from a file.
pub(super) fn workers(options: &BenchOptions) -> Result<(String, Option<String>), Diagnostic> {
    let Some(path) = &options.switch_workers else { return Ok((worker(options.switch_cpu), None)) };
    let place = format!("--switch-workers {}", path.display());
    if options.switch_cpu.is_some() {
        let remedy = "name the CPUs there, and leave out --switch-cpu";
        return Err(Diagnostic::bad(place, "the file sets the CPUs of the switch", remedy));
    }
    read(path, place).map(|text| (text.clone(), Some(text)))
}

/// One worker, pinned if a CPU is given.
pub(super) fn worker(cpu: Option<usize>) -> String {
    let mut text = "[[worker]]\n".to_owned();
    if let Some(cpu) = cpu {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "cpu = {cpu}");
    }
    text
}

fn read(path: &Path, place: String) -> Result<String, Diagnostic> {
    let remedy =
        "name a file with [worker], [[worker]] and [placement] sections, as `linerate run` takes them";
    let bad = |place: String, reason: String| Diagnostic::bad(place, reason, remedy);
    let text = std::fs::read_to_string(path).map_err(|error| bad(place.clone(), error.to_string()))?;
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map(|span| text[..span.start.min(text.len())].split('\n').count());
        let file = Some(path.display().to_string().into());
        let line = line.and_then(|line| line.try_into().ok());
        Diagnostic { file, line, ..bad("syntax".to_owned(), error.message().to_owned()) }
    })?;
    match table.keys().find(|key| !SECTIONS.contains(&key.as_str())) {
        Some(key) => Err(bad(place, format!("`{key}` is set by the benchmark"))),
        None => Ok(text + "\n"),
    }
}

/// Validates the file's sections `own`, as `linerate check` does, within the whole `configuration`.
pub(super) fn validated(
    options: &BenchOptions,
    own: &str,
    configuration: &str,
    control: &str,
) -> Result<(), Diagnostic> {
    let Some(path) = &options.switch_workers else { return Ok(()) };
    let place = format!("--switch-workers {}", path.display());
    let errors = match config::parse(configuration, &Host::here(), Some(Path::new(control))) {
        Ok(topology) => {
            let shared = options.cpu.filter(|cpu| topology.workers.iter().any(|own| own.cpu == Some(*cpu)));
            return shared.map_or(Ok(()), |cpu| Err(validate::shared(&format!("--cpu {cpu} and {place}"))));
        }
        Err(errors) => errors,
    };
    let in_file = |error: Diagnostic| Diagnostic { file: Some(path.display().to_string().into()), ..error };
    // Later lines are generated.
    let lines = u32::try_from(own.lines().count()).unwrap_or(u32::MAX);
    let users = errors.into_iter().filter(|error| error.line.is_none_or(|line| line <= lines));
    let told: Vec<Diagnostic> = users.map(in_file).collect();
    if told.is_empty() { Ok(()) } else { Err(Diagnostic::all(told)) }
}
