//! Controllers of a bridge with flow tables, and its files for TLS.

use super::database::{Database, Row};
use super::document::{Section, list, milliseconds, seconds};
use super::findings::Findings;
use super::plan::{BridgePlan, Plan};
use crate::settings::openflow::Target;

/// Most controllers of a bridge.
const MOST: usize = 16;
/// Range of times in milliseconds.
const TIMES: std::ops::RangeInclusive<i64> = 1000..=3_600_000;

/// Writes the controllers of a bridge. Returns the section `[bridge.tls]` if one of them needs it.
pub(super) fn write(
    section: &mut Section,
    database: &Database,
    (plan, bridge): (&Plan<'_>, &BridgePlan<'_>),
    findings: &mut Findings,
) -> Option<Section> {
    let tls = plan.switch.and_then(|row| database.referred(row, "ssl", "SSL").into_iter().next());
    let mut targets: Vec<Target> = Vec::new();
    for row in &bridge.controllers {
        match target(row, tls.is_some()) {
            Ok(target) if !targets.contains(&target) && targets.len() < MOST => targets.push(target),
            Ok(_) => findings.add(
                section,
                (row, "target"),
                format!("at most {MOST} different controllers"),
                "remove one",
            ),
            Err(reason) => findings.add(section, (row, "target"), reason, "write `controllers`"),
        }
        mode(section, row, findings);
        findings.rest(section, row);
    }
    if !targets.is_empty() {
        section.set("controllers", list(targets.iter().map(ToString::to_string)));
    }
    let is_connecting = targets.iter().any(Target::is_active);
    let is_standalone = bridge.row.text("fail_mode") != "secure" && is_connecting;
    section.set_some("fail_mode", is_standalone.then_some("standalone"));
    times(section, &bridge.controllers, findings);
    tls.filter(|_| targets.iter().any(Target::uses_tls)).map(|row| files(row, findings))
}

/// A target of the file, or why there is none.
fn target(row: &Row, has_tls: bool) -> Result<Target, String> {
    let text = row.text("target");
    let target: Target = text
        .parse()
        .map_err(|error: String| error.strip_prefix("`controllers` lists ").unwrap_or(&error).to_owned())?;
    if target.uses_tls() && !has_tls {
        return Err(format!("{text} needs certificates, and the table SSL is empty"));
    }
    Ok(target)
}

fn mode(section: &mut Section, row: &Row, findings: &mut Findings) {
    if row.text("connection_mode") == "in-band" {
        let reason = "controllers are always out of band: packets of the switch do not pass its bridge";
        let remedy = "reach the controller by the TAP interface of the bridge, with a flow for its packets";
        findings.add(section, (row, "connection_mode"), reason, remedy);
    }
    if row.text("type") == "service" {
        let reason = "a controller that the bridge connects to is always a primary one";
        findings.add(section, (row, "type"), reason, "write its target with ptcp, pssl or punix");
    }
}

/// Times, which are those of all controllers of a bridge.
fn times(section: &mut Section, controllers: &[&Row], findings: &mut Findings) {
    for (column, key) in [("inactivity_probe", "probe_interval"), ("max_backoff", "max_backoff")] {
        let all: Vec<_> = controllers.iter().map(|row| row.integer(column)).collect();
        let Some(first) = all.iter().flatten().next().copied() else { continue };
        section.set(key, milliseconds(first.clamp(*TIMES.start(), *TIMES.end())));
        if first == 0 {
            let reason = "controllers are always probed";
            findings.add(
                section,
                (controllers[0], column),
                reason,
                format!("write {key} = {}", seconds(3600)),
            );
        } else if all.iter().any(|other| *other != Some(first)) {
            let reason = format!("all controllers of a bridge have one {key}");
            findings.add(section, (controllers[0], column), reason, format!("write `{key}`"));
        }
    }
}

fn files(row: &Row, findings: &mut Findings) -> Section {
    let mut section = Section::new("[bridge.tls]");
    for (column, key) in
        [("private_key", "private_key"), ("certificate", "certificate"), ("ca_cert", "ca_certificate")]
    {
        section.set(key, row.text(column));
    }
    findings.rest(&mut section, row);
    section
}
