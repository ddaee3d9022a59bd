//! `linerate import`: writes the configuration of another switch as a configuration file.
//!
//! `source` reads the database of Open vSwitch (`journal`: its file) into the rows of `database`, which record the
//! columns that are read. `plan` gives names and decides which bridges have flow tables. The other modules translate
//! rows to sections of a `document`, and report every setting that they leave out (`findings`; reasons are in `known`).
//! Settings that no module reads are reported at the end, so that none is lost silently. The result is validated like
//! the file of a switch.

mod bonds;
mod bridges;
mod controllers;
mod database;
mod document;
mod export;
mod findings;
mod interfaces;
mod journal;
mod known;
mod links;
mod mirrors;
mod names;
mod numbers;
mod plan;
mod queues;
mod source;
mod switch;
#[cfg(test)]
mod tests;
mod tunnels;
mod vlan;

use crate::args::import::{Cards, ImportCommand, ImportOvsArgs};
use crate::host::Host;
use crate::settings::config;
use bridges::Shared;
use console::Diagnostic;
use database::Database;
use document::{Document, Section};
use findings::{Finding, Findings};
use interfaces::{CardKind, Place};
use plan::Plan;
use source::Source;
use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Runs the command.
pub(crate) fn run(command: &ImportCommand) -> anyhow::Result<()> {
    let ImportCommand::Ovs(args) = command;
    let source = source(args)?;
    let database = source::read(&source)?;
    let cards = match args.cards {
        Cards::AfXdp => CardKind::AfXdp,
        Cards::AfPacket => CardKind::AfPacket,
    };
    let result = translate(&database, cards, &Host::here());
    match &args.out {
        Some(path) => write(path, &result.text)?,
        None => console::raw(result.text.as_bytes())?,
    }
    report(&result);
    Ok(())
}

/// The database that the arguments name.
fn source(args: &ImportOvsArgs) -> Result<Source, Diagnostic> {
    let Some(path) = &args.file else {
        let path = args.db.strip_prefix("unix:").filter(|path| !path.is_empty());
        let remedy = "write unix: and the path of a socket, such as unix:/run/openvswitch/db.sock";
        let wrong =
            || Diagnostic::bad(format!("--db {}", args.db), "only Unix sockets are supported", remedy);
        return path.map(|path| Source::Socket(PathBuf::from(path))).ok_or_else(wrong);
    };
    Ok(Source::File(path.clone()))
}

/// Writes a new file.
fn write(path: &Path, text: &str) -> Result<(), Diagnostic> {
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| {
        Diagnostic::bad(
            format!("--out {}", path.display()),
            error,
            "name a new file in a directory that exists",
        )
    })
}

/// Prints the settings that were not translated, and errors of the file on this machine.
fn report(result: &Translation) {
    for finding in &result.findings {
        console::warn(&format!("linerate: {}", finding.diagnostic()));
    }
    for error in &result.errors {
        console::warn(&format!("linerate: on this machine, `linerate check` refuses line {error}"));
    }
    let settings =
        if result.findings.len() == 1 { "setting differs or is" } else { "settings differ or are" };
    console::note(&format!("linerate: {} {settings} not translated", result.findings.len()));
}

/// A configuration file, with the settings that it lacks.
struct Translation {
    text: String,
    findings: Vec<Finding>,
    /// Errors that depend on this machine, each with its line.
    errors: Vec<String>,
}

/// Comments at the start of the file.
const HEAD: [&str; 3] = [
    "Configuration of Open vSwitch, by `linerate import ovs`. Comments before a section name settings that were not \
     translated.",
    "Flows that were added with ovs-ofctl are not in the database: see `ovs-ofctl dump-flows BRIDGE`.",
    "mac_moves = \"free\" is how Open vSwitch learns; without it, addresses are guarded (docs/guide/port-security.md).",
];

fn translate(database: &Database, cards: CardKind, host: &Host) -> Translation {
    let plan = Plan::new(database);
    let mut findings = Findings::default();
    let mut sections = switch::write(database, &plan, host, &mut findings);
    let mut shared = Shared { database, mirrors: names::Names::default(), domains: BTreeSet::new() };
    for bridge in 0..plan.bridges.len() {
        let place = Place { database, plan: &plan, bridge, cards };
        sections.extend(bridges::write(&mut shared, &place, &mut findings));
    }
    unused(database, &mut sections, &mut findings);
    let mut document = Document { head: HEAD.map(str::to_owned).into(), sections };
    settle(&mut document, host, &mut findings);
    numbers::compare(&plan, &mut document, &mut findings);
    let errors = errors(&document, host);
    Translation { text: document.text(), findings: findings.list, errors }
}

/// Reports rows that nothing refers to.
fn unused(database: &Database, sections: &mut [Section], findings: &mut Findings) {
    let Some(section) = sections.first_mut() else { return };
    for row in database.unused().filter(|row| row.table != "Open_vSwitch") {
        let reason = "no bridge or port that was translated refers to the row";
        findings.add(section, (row, "(row)"), reason, "nothing is needed unless flows refer to it");
    }
}

/// Disables tunnels, patch ports and mirrors that are not valid in the whole.
fn settle(document: &mut Document, host: &Host, findings: &mut Findings) {
    loop {
        let Err(errors) = config::parse(&document.text(), host, None) else { return };
        let mut has_changed = false;
        for error in errors.iter().rev() {
            let section = error.line.and_then(|line| document.section_at(line));
            if let Some(section) = section.filter(|section| !section.is_disabled && section.is_optional()) {
                section.is_disabled = true;
                section.comment(&format!("{}: {}", error.reason, error.remedy));
                findings.list.push(Finding::of(error));
                has_changed = true;
            }
        }
        if !has_changed {
            return;
        }
    }
}

/// Errors of the file that depend on this machine, such as directories of sockets.
fn errors(document: &Document, host: &Host) -> Vec<String> {
    let line = |error: &Diagnostic| error.line.map_or_else(String::new, |line| format!("{line}: "));
    let errors = config::parse(&document.text(), host, None).err().unwrap_or_default();
    errors.iter().map(|error| format!("{}{error}", line(error))).collect()
}
