//! Commands for a running switch: each sends one request and prints the response.

use crate::api::client::{Client, query, quote};
use crate::api::model::{
    FdbReport, FlowReport, FlowsChanged, Flushed, PlacementReport, RebalanceRequest, Status, WorkerReport,
    WorkerRequest, WorkersReport,
};
use crate::args::config::KeysArgs;
use crate::args::switch::{
    ExportCommand, FdbAddArgs, FdbCommand, FdbRemoveArgs, FdbSelection, FdbShowArgs, FlowsCommand, FlushArgs,
    NeighborsCommand, OffloadCommand, PlacementCommand, RebalanceArgs, WorkersAddArgs, WorkersCommand,
};
use crate::commands::show::{self, flows, links, offload, placing, tables};
use crate::commands::unsaved;
use crate::dataplane::export_report::ExportReport;
use crate::dataplane::link_report::NeighborsReport;
use crate::dataplane::offload_report::OffloadReport;
use crate::dataplane::report::{FdbEntry, FlowRequest, Origin};
use crate::settings::section;
use crate::settings::topology::StaticEntry;
use console::Diagnostic;
use console::Output;
use engine::balance::Balance;
use engine::machine::Machine;
use serde_json::{Map, Value, json};
use std::time::{Duration, Instant};

/// Maximum wait of `stop` for the switch to exit.
const TIMEOUT: Duration = Duration::from_secs(10);

/// `linerate status`
pub(crate) fn status(client: &Client, output: Output) -> anyhow::Result<()> {
    console::print(&client.get::<Status>("/v1/status")?, output, tables::status)
}

/// `linerate offload ...`
pub(crate) fn kernel_fast_path(client: &Client, command: &OffloadCommand) -> anyhow::Result<()> {
    let OffloadCommand::Show(args) = command;
    console::print(&client.get::<OffloadReport>("/v1/offload")?, args.output, offload::table)
}

/// `linerate neighbors ...`
pub(crate) fn neighbors(client: &Client, command: &NeighborsCommand) -> anyhow::Result<()> {
    let NeighborsCommand::Show(args) = command;
    let mut report: NeighborsReport = client.get("/v1/neighbors")?;
    let Some(name) = &args.name else {
        return console::print(&report, args.show.output, links::neighbors);
    };
    report.ports.retain(|port| port.port == *name);
    report.neighbors.retain(|neighbor| neighbor.port == *name);
    if report.ports.is_empty() {
        let remedy =
            "see the ports in `linerate ports show`, and write lldp = true in the section of the port";
        return Err(
            Diagnostic::bad(format!("port \"{name}\""), "there is no such port with LLDP", remedy).into()
        );
    }
    console::print(&report, args.show.output, links::port)
}

/// `linerate workers ...`
pub(crate) fn workers(client: &Client, command: &WorkersCommand) -> anyhow::Result<()> {
    match command {
        WorkersCommand::Show(args) => {
            console::print(&client.get::<WorkersReport>("/v1/workers")?, args.output, tables::workers)
        }
        WorkersCommand::Add(args) => add_worker(client, args),
        WorkersCommand::Set(args) => {
            let path = format!("/v1/workers/{}", args.index);
            let set = client.patch::<WorkerReport>(&path, &changes(&args.keys)?)?;
            console::print(&set, args.show.output, |worker| told("set", worker))?;
            unsaved::changed(client, args.save)
        }
        WorkersCommand::Remove(args) => {
            let removed = client.delete::<WorkerReport>(&format!("/v1/workers/{}", args.index))?;
            console::print(&removed, args.show.output, |worker| told("removed", worker))?;
            unsaved::removed(client, args.save, "worker")
        }
    }
}

fn add_worker(client: &Client, args: &WorkersAddArgs) -> anyhow::Result<()> {
    let WorkersAddArgs { role, cpu, polling, queue_full, .. } = args;
    let (role, polling, queue_full) = (role.clone(), polling.clone(), queue_full.clone());
    let body = serde_json::to_value(WorkerRequest { role, cpu: *cpu, polling, queue_full })?;
    let added: WorkerReport = client.post("/v1/workers", &body)?;
    console::print(&added, args.show.output, |worker| told("added", worker))?;
    unsaved::changed(client, args.save)
}

/// What was done to a worker, in a line.
fn told(done: &str, WorkerReport { index, role, cpu }: &WorkerReport) -> String {
    let place = cpu.map_or("any cpu".to_owned(), |cpu| format!("cpu {cpu}"));
    format!("{done} worker {index}: {role}, {place}")
}

/// A request body with the settings of `KEY=VALUE`.
pub(super) fn with_settings(
    mut body: Map<String, Value>,
    set: &[(String, String)],
) -> Result<Value, Diagnostic> {
    for (key, value) in set {
        add_setting(&mut body, key, value)?;
    }
    Ok(body.into())
}

/// A request body with the changes of `set`.
pub(super) fn changes(args: &KeysArgs) -> Result<Value, Diagnostic> {
    let defaults = args.unset.iter().map(|key| (key.clone(), Value::Null));
    with_settings(defaults.collect(), &args.set)
}

/// Adds a setting of `KEY=VALUE`.
pub(super) fn add_setting(body: &mut Map<String, Value>, key: &str, value: &str) -> Result<(), Diagnostic> {
    let place = || format!("{key}={value}");
    if is_open(value) {
        let reason = format!("`{key}` has an unterminated quote");
        let remedy = "close it, or remove the quotes; most shells remove one pair";
        return Err(Diagnostic::bad(place(), reason, remedy));
    }
    if body.insert(key.to_owned(), read_value(value)).is_some() {
        return Err(Diagnostic::bad(place(), format!("`{key}` is given twice"), "give it once"));
    }
    Ok(())
}

/// Whether `text` begins as a quoted string but does not end as one.
fn is_open(text: &str) -> bool {
    let text = text.trim();
    text.starts_with(['"', '\'']) && text.parse::<toml::Value>().is_err()
}

/// Parses `text` as a TOML value; invalid values and dates are strings.
pub(crate) fn read_value(text: &str) -> Value {
    let read = text.parse::<toml::Value>().ok().filter(|value| !value.is_datetime());
    let json = read.and_then(|value| serde_json::to_value(value).ok());
    json.filter(|value| !value.is_null()).unwrap_or_else(|| text.into())
}

/// `linerate fdb ...`
pub(crate) fn fdb(client: &Client, command: &FdbCommand) -> anyhow::Result<()> {
    match command {
        FdbCommand::Show(args) => show_fdb(client, args),
        FdbCommand::Add(args) => add_address(client, args),
        FdbCommand::Remove(args) => remove_address(client, args),
        FdbCommand::Flush(args) => flush(client, args),
    }
}

fn remove_address(client: &Client, args: &FdbRemoveArgs) -> anyhow::Result<()> {
    let path = format!("/v1/fdb/{}?{}", quote(&args.mac), filter(&args.selection));
    let entry: FdbEntry = client.delete(&path)?;
    console::print(&entry, args.show.output, |FdbEntry { bridge, mac, vlan, port, origin, .. }| {
        let kind = if *origin == Origin::Static { "static" } else { "learned" };
        let vlan = if *vlan == 0 { String::new() } else { format!(", VLAN {vlan}") };
        format!("removed {kind} {mac} at port {port}, bridge {bridge}{vlan}")
    })?;
    if entry.origin == Origin::Static {
        unsaved::removed(client, args.save, "static entry")?;
    }
    Ok(())
}

fn flush(client: &Client, args: &FlushArgs) -> anyhow::Result<()> {
    let flushed: Flushed = client.delete(&format!("/v1/fdb?{}", filter(&args.selection)))?;
    console::print(&flushed, args.show.output, |Flushed { flushed }| {
        format!("removed {flushed} learned addresses")
    })
}

fn show_fdb(client: &Client, args: &FdbShowArgs) -> anyhow::Result<()> {
    let filter = filter(&args.selection);
    let report: FdbReport = client.get(&format!("/v1/fdb?limit={}&{filter}", args.limit))?;
    console::print(&report, args.show.output, tables::fdb)
}

fn add_address(client: &Client, args: &FdbAddArgs) -> anyhow::Result<()> {
    let body = json!({ "mac": args.mac, "port": args.port, "vlan": args.vlan });
    let added: StaticEntry = client.post("/v1/fdb", &body)?;
    let place = ", below the section of its bridge";
    let section = unsaved::section(args.save, "static entry", place, &section::static_entry(&added)?);
    console::print(&added, args.show.output, |entry| format!("added {entry}{section}"))?;
    unsaved::added(client, args.save)
}

pub(super) fn filter(selection: &FdbSelection) -> String {
    let FdbSelection { bridge, port, vlan } = selection;
    let vlan = vlan.map(|vlan| vlan.to_string());
    query([("bridge", bridge.as_ref()), ("port", port.as_ref()), ("vlan", vlan.as_ref())])
}

/// `linerate flows ...`
pub(crate) fn flows(client: &Client, command: &FlowsCommand) -> anyhow::Result<()> {
    match command {
        FlowsCommand::Show(args) => {
            let filter = flow_filter(args.bridge.as_ref(), args.matching.as_ref(), false);
            let interval = args.hot.then(|| format!("&interval={}", quote(&args.interval.to_string())));
            let interval = interval.unwrap_or_default();
            let path = format!("/v1/flows?limit={}{interval}&{filter}", args.limit);
            console::print(&client.patient().get::<FlowReport>(&path)?, args.show.output, flows::flows)
        }
        FlowsCommand::Add(args) => {
            let request = FlowRequest { bridge: args.bridge.clone(), flows: args.flows.clone() };
            let added: FlowsChanged = client.post("/v1/flows", &serde_json::to_value(request)?)?;
            console::print(&added, args.show.output, |added| format!("added {} flows", added.changed))?;
            unsaved::not_written();
            Ok(())
        }
        FlowsCommand::Remove(args) => {
            let filter = flow_filter(args.bridge.as_ref(), Some(&args.matching), args.strict);
            let removed: FlowsChanged = client.delete(&format!("/v1/flows?{filter}"))?;
            console::print(&removed, args.show.output, |removed| format!("removed {} flows", removed.changed))
        }
    }
}

fn flow_filter(bridge: Option<&String>, flow: Option<&String>, strict: bool) -> String {
    let strict = strict.to_string();
    query([("bridge", bridge), ("flow", flow), ("strict", Some(&strict))])
}

/// `linerate export ...`
pub(crate) fn export(client: &Client, command: &ExportCommand) -> anyhow::Result<()> {
    let ExportCommand::Show(args) = command;
    let report: ExportReport = client.get("/v1/export")?;
    console::print(&report, args.show.output, show::export::export)
}

/// `linerate placement ...`
pub(crate) fn placement(client: &Client, command: &PlacementCommand) -> anyhow::Result<()> {
    match command {
        PlacementCommand::Machine(args) => console::print(&Machine::here(), args.output, placing::machine),
        PlacementCommand::Show(args) => {
            let report = client.get::<PlacementReport>("/v1/placement")?;
            console::print(&report, args.output, placing::placement)
        }
    }
}

/// `linerate rebalance`
pub(crate) fn rebalance(client: &Client, args: &RebalanceArgs) -> anyhow::Result<()> {
    let threshold = args.threshold.map(finite).transpose()?;
    let wanted = RebalanceRequest { dry_run: args.dry_run, duration: args.duration, threshold };
    let found: Balance = client.post("/v1/rebalance", &serde_json::to_value(wanted)?)?;
    console::print(&found, args.show.output, placing::balance)?;
    let failed = found.moves.iter().filter(|step| step.failure.is_some()).count();
    if failed > 0 {
        let reason = format!("{failed} queues were not moved, see the reasons above");
        return Err(
            Diagnostic::failed("rebalance", reason, "see `linerate placement show`, and try again").into()
        );
    }
    Ok(())
}

/// A number that JSON can represent; it would encode others as null. The switch checks the range.
fn finite(threshold: f64) -> Result<f64, Diagnostic> {
    if threshold.is_finite() {
        return Ok(threshold);
    }
    let reason = format!("invalid value {threshold} for --threshold");
    Err(Diagnostic::bad("--threshold", reason, "give 0.01 to 1, a share of a core"))
}

/// `linerate stop`: returns when the switch has exited.
pub(crate) fn stop(client: &Client) -> anyhow::Result<()> {
    client.order("/v1/shutdown")?;
    let until = Instant::now() + TIMEOUT;
    while client.socket().exists() {
        if Instant::now() > until {
            let place = format!("the switch at {}", client.socket().display());
            let remedy = "check its process; SIGKILL ends it, and its sockets are replaced at the next start";
            return Err(Diagnostic::failed(place, "it has not ended within 10 seconds", remedy).into());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    console::line("stopped")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_that_is_no_number_is_refused_as_bad_input() {
        for threshold in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let refused = finite(threshold).unwrap_err();
            assert_eq!((refused.code, refused.place.as_str()), (console::BAD_INPUT, "--threshold"));
        }
        assert_eq!(finite(0.5), Ok(0.5));
    }

    #[test]
    fn unterminated_quote_is_detected() {
        for open in ["\"x", "'x", "\"x\\\"", " \"x"] {
            assert!(is_open(open), "{open}");
        }
        for sound in ["x", "\"x\"", "'x'", "x\"", "[\"x\"]", "7", ""] {
            assert!(!is_open(sound), "{sound}");
        }
    }

    #[test]
    fn value_is_parsed_as_toml_or_kept_as_a_string() {
        for (text, expected) in [
            ("vm0", json!("vm0")),
            ("\"7\"", json!("7")),
            ("7", json!(7)),
            ("true", json!(true)),
            ("[1, 2]", json!([1, 2])),
            ("{ trunk = [10] }", json!({ "trunk": [10] })),
            ("127.0.0.1:5555", json!("127.0.0.1:5555")),
            ("02:00:00:00:00:01", json!("02:00:00:00:00:01")),
            ("2001-01-01", json!("2001-01-01")),
            ("inf", json!("inf")),
            ("a = 1\nb = 2", json!("a = 1\nb = 2")),
            ("", json!("")),
        ] {
            assert_eq!(read_value(text), expected, "{text}");
        }
    }
}
