//! `linerate doctor`: known causes of ports that are down, slow or lose packets.
//!
//! `collect` reads the control API twice, and `/proc` and `/sys` for the process of the switch, as evidence of the checks
//! of `crate::causes`.

mod collect;

use crate::api::client::Client;
use crate::api::model::ConfinementReport;
use crate::args::doctor::DoctorArgs;
use crate::causes::checks;
use crate::causes::evidence::{Evidence, Worker};
use crate::causes::findings::Finding;
use crate::dataplane::bond_report::BondState;
use collect::Collected;
use console::{Diagnostic, table};
use serde::Serialize;
use std::path::Path;

/// Output of `-o json`.
#[derive(Debug, Serialize)]
struct Report {
    /// Seconds between the two readings.
    seconds: f64,
    findings: Vec<Finding>,
    /// Confinement of the switch; null if it is not confined.
    confinement: Option<ConfinementReport>,
    /// Evidence that could not be read, so that some causes are unknown.
    unread: Vec<String>,
}

/// Runs the command. Findings are exit code 1.
pub(crate) fn run(args: &DoctorArgs, client: &Client) -> anyhow::Result<()> {
    let ended = console::stop_on_signals()?;
    let collected = collect::collect(client, Path::new("/"), args.interval.0, &ended)?;
    let Collected { evidence, confinement, unread } = collected;
    let mut findings = checks::all(&evidence);
    if let Some(name) = &args.port {
        let subjects = subjects(&evidence, name)?;
        findings.retain(|finding| subjects.contains(&finding.subject));
    }
    let report = Report { seconds: evidence.seconds, findings, confinement, unread };
    console::print(&report, args.show.output, shown)?;
    for what in &report.unread {
        console::warn(&format!("linerate: not read: {what}"));
    }
    match report.findings.len() {
        0 => Ok(()),
        count => {
            let causes = if count == 1 { "1 cause".to_owned() } else { format!("{count} causes") };
            Err(Diagnostic::failed(
                "doctor",
                format!("found {causes}"),
                "apply the remedies, and run it again",
            )
            .into())
        }
    }
}

/// Subjects of findings about a port: itself, its bond, its bridge, and the workers that serve it.
fn subjects(evidence: &Evidence, name: &str) -> Result<Vec<String>, Diagnostic> {
    let port = evidence.ports.iter().find(|port| port.name() == name).ok_or_else(|| {
        let remedy = "see `linerate ports show`";
        Diagnostic::bad(format!("port \"{name}\""), "there is no such port", remedy)
    })?;
    let is_member = |bond: &BondState| bond.members.iter().any(|member| member.port == name);
    let bonds = evidence.bonds.iter().filter(|(_, bond)| is_member(bond));
    let serves = |worker: &&Worker| worker.ports.iter().any(|port| port == name);
    // A port without receive queues can be sent to by every worker.
    let any = !evidence.workers.iter().any(|worker| serves(&worker));
    let workers = evidence.workers.iter().filter(|worker| any || serves(worker));
    let mut subjects = vec![format!("port {name}"), format!("bridge {}", port.settings.bridge)];
    subjects.extend(bonds.map(|(bond, _)| format!("bond {bond}")));
    subjects.extend(workers.map(|worker| format!("worker {}", worker.now.index)));
    Ok(subjects)
}

/// The findings as text: a table of causes, then evidence and remedy of each.
fn shown(report: &Report) -> String {
    let seconds = report.seconds;
    let confinement = report.confinement.as_ref().map_or_else(|| "off".to_owned(), ToString::to_string);
    if report.findings.is_empty() {
        return format!("no known cause was found in {seconds:.1} s\nconfinement: {confinement}");
    }
    let row = |finding: &Finding| {
        let (effect, check) = (finding.effect.name().to_owned(), finding.check.to_owned());
        vec![effect, finding.subject.clone(), check, finding.cause.clone()]
    };
    let titles = ["EFFECT", "SUBJECT", "CHECK", "CAUSE"];
    let details = report.findings.iter().map(|finding| {
        let evidence = finding.evidence.iter().map(|line| format!("    evidence: {line}\n"));
        let evidence: String = evidence.collect();
        format!("\n{}, {}\n{evidence}    remedy: {}\n", finding.subject, finding.check, finding.remedy)
    });
    let causes = table(&titles, report.findings.iter().map(row));
    format!("{causes}\n{}\nconfinement: {confinement}\n", details.collect::<String>())
}
