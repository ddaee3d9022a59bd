//! Text and number formatting for readers.

use figure::text::{count, kind};
use measure::provenance::Provenance;
use studies::results::Results;

/// Provenance line of every figure.
pub(crate) fn provenance(results: &Results) -> String {
    let on = if results.processor.is_empty() { "unknown processor" } else { &results.processor };
    let packets = count(results.packets);
    let packets = match &results.trial {
        Some(record) => format!("{} rounds, {packets} packets in a slice of the base", record.rounds.len()),
        None => format!("{packets} packets each"),
    };
    format!("{}: {on}, {packets}", kind(results.memory))
}

/// The build, and the profile or machine.
pub(crate) fn provenance_line(results: &Results) -> String {
    let Provenance { build, profile, machine } = &results.provenance;
    let profile = profile.as_ref().map(|id| format!("; profile {}, fingerprint {}", id.name, id.fingerprint));
    let machine =
        machine.as_ref().map(|at| format!("; {} with {} CPUs, {}", at.processor, at.cpus, at.pinning));
    let (profile, machine) = (profile.unwrap_or_default(), machine.unwrap_or_default());
    format!("Made by linerate {build}{profile}{machine}")
}

/// Display name of a thread.
pub(crate) fn thread(name: &str) -> &str {
    match name {
        "rx" => "Rx",
        "guest" => "Guest",
        "tx" => "Tx",
        other => other,
    }
}
