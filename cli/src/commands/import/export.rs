//! Export of a bridge: `sflow`, `ipfix` and `netflow`.

use super::database::{Database, Row};
use super::document::{Section, collector, list, seconds, table};
use super::findings::Findings;
use std::collections::BTreeSet;
use std::net::IpAddr;
use toml::Value;

/// Collectors of a bridge for a protocol.
const MAX_COLLECTORS: usize = 8;
const SAMPLING: std::ops::RangeInclusive<i64> = 1..=16_777_215;
const HOUR: i64 = 3600;

/// Writes the export of a bridge. `domains` are those of earlier bridges.
pub(super) fn write(
    section: &mut Section,
    database: &Database,
    bridge: &Row,
    domains: &mut BTreeSet<i64>,
    findings: &mut Findings,
) {
    for row in database.referred(bridge, "sflow", "sFlow") {
        sflow(section, row, findings);
        findings.rest(section, row);
    }
    for row in database.referred(bridge, "ipfix", "IPFIX") {
        ipfix(section, row, domains, findings);
        findings.rest(section, row);
    }
    for row in database.referred(bridge, "netflow", "NetFlow") {
        let remedy = format!(
            "write `ipfix` for a collector that accepts it, instead of {}",
            row.texts("targets").join(" ")
        );
        findings.add(section, (bridge, "netflow"), "NetFlow version 5 is not supported", remedy);
    }
}

/// The collectors of a row. Names of hosts are not resolved.
fn collectors(section: &mut Section, row: &Row, findings: &mut Findings) -> Option<Value> {
    let targets = row.texts("targets");
    let valid: BTreeSet<String> = targets.iter().filter_map(|target| collector(target)).collect();
    if valid.len() < targets.len() || valid.len() > MAX_COLLECTORS {
        let reason = format!("collectors are at most {MAX_COLLECTORS} different IP addresses with ports");
        findings.add(section, (row, "targets"), reason, format!("write `collectors`: {}", targets.join(" ")));
    }
    let valid: Vec<String> = valid.into_iter().take(MAX_COLLECTORS).collect();
    (!valid.is_empty()).then(|| list(valid))
}

fn sflow(section: &mut Section, row: &Row, findings: &mut Findings) {
    let agent = row.text("agent");
    let address = agent.parse().ok().filter(|address: &IpAddr| !address.is_unspecified());
    if !agent.is_empty() && address.is_none() {
        let reason = format!("the agent is an address, and not the interface {agent}");
        findings.add(section, (row, "agent"), reason, "write `agent` with the address of the interface");
    }
    let (polling, header) = (row.integer("polling"), row.integer("header"));
    let sampling = row.integer("sampling").map(|rate| rate.clamp(*SAMPLING.start(), *SAMPLING.end()));
    let Some(collectors) = collectors(section, row, findings) else { return };
    let settings = table([
        ("collectors", Some(collectors)),
        ("sampling", sampling.map(Into::into)),
        ("polling", polling.map(|time| seconds(time.clamp(1, HOUR)))),
        ("header", header.map(|bytes| bytes.clamp(64, 256).into())),
        ("agent", address.map(|address| address.to_string().into())),
    ]);
    section.set("sflow", settings);
}

fn ipfix(section: &mut Section, row: &Row, domains: &mut BTreeSet<i64>, findings: &mut Findings) {
    let domain = row.integer("obs_domain_id").unwrap_or(0);
    let is_new = domains.insert(domain);
    if !is_new {
        let reason = format!("observation domain {domain} is that of another bridge already");
        findings.add(section, (row, "obs_domain_id"), reason, "tell the collector the domains of the file");
    }
    let (active, flows) = (row.integer("cache_active_timeout"), row.integer("cache_max_flows"));
    // Without either of them, Open vSwitch sends a record for each sampled packet.
    let is_cached = active.is_some_and(|time| time > 0) && flows.is_some_and(|flows| flows > 0);
    let flows = if is_cached { flows.unwrap_or(0).min(1_000_000) } else { 0 };
    let sampling = row.integer("sampling").map(|rate| rate.clamp(*SAMPLING.start(), *SAMPLING.end()));
    let point = row.integer("obs_point_id").unwrap_or(0);
    let Some(collectors) = collectors(section, row, findings) else { return };
    let settings = table([
        ("collectors", Some(collectors)),
        ("sampling", sampling.map(Into::into)),
        ("domain", is_new.then(|| domain.into())),
        ("point", Some(point.into())),
        ("cache_active_timeout", active.filter(|_| is_cached).map(|time| seconds(time.clamp(1, HOUR)))),
        ("cache_max_flows", Some(flows.into())),
    ]);
    section.set("ipfix", settings);
}
