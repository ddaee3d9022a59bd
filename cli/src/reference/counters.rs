//! `counters.md` and `drop-reasons.md`.

use super::schema::Schemas;
use crate::api::{metrics, routes};
use console::markdown;
use host::{DistributorCounts, Report};
use port::{DropReason, PortDetail};
use serve::http::Http;
use serve::{Kv, Server};

const SHARED: &str = "For each worker `rss_received + rss_copied = rss_kept + handed_over + handoff_full`. The sum \
    of `handed_over` is that of `taken_over`, except for packets in a queue at the end.";

/// Name and meaning of a counter.
type Meaning = (&'static str, &'static str);

/// Schemas of the counters, with a heading and the command that prints them.
const COUNTERS: [(&str, &str, &str); 7] = [
    ("PortSnapshot", "A port", "`linerate ports show NAME -o json`, in `live`: sums over all workers."),
    ("QueueSnapshot", "A queue pair of a port", "In `queues` of a port."),
    ("Traffic", "All ports", "`linerate status -o json`, in `traffic`."),
    ("BridgePort", "A port of a bridge", "`linerate bridges show -o json`, in `ports`."),
    ("WorkerSnapshot", "A worker", "`linerate workers show -o json`, in `workers`."),
    ("PoolSnapshot", "The buffers of a pipeline stage", "In `pool` of a worker."),
    ("BudgetSnapshot", "The budget of a turn", "`linerate workers show -o json`, in `budget`."),
];

/// The page of counters.
pub(super) fn counters() -> anyhow::Result<String> {
    let schemas = Schemas::new(&routes::document(), super::API)?;
    let about = "Counters and states that the control API and `-o json` return. While no burst is in flight, over all \
        ports: received + replicated = sent + dropped + punted. The states of a port are explained in \
        [troubleshooting](../guide/troubleshooting.md).";
    let mut page = super::page("Counters", about);
    for (schema, title, place) in COUNTERS {
        markdown::section(&mut page, &format!("## {title}"), place);
        markdown::table(&mut page, ["field", "type", "meaning"], schemas.fields(schema)?);
    }
    details(&mut page);
    of_metrics(&mut page);
    of_stack(&mut page);
    Ok(markdown::finish(&page))
}

/// Metrics for Prometheus.
fn of_metrics(page: &mut String) {
    let about = "`GET /metrics` of the control socket, in the text format of Prometheus. A metric without samples is left \
        out: `linerate_bond_*` are there only with a bond.";
    markdown::section(page, "## Metrics", about);
    let rows =
        metrics::meanings().into_iter().map(|[name, kind, meaning]| [format!("`{name}`"), kind, meaning]);
    markdown::table(page, ["metric", "type", "meaning"], rows);
}

/// Counters of programs with a stack, with a heading and the programs that have them.
fn of_stack(page: &mut String) {
    let about = "`linerate stack counters` and `GET /v1/stack/counters` have all counters except those of a server. \
        `counters` of the [results](results.md) of `linerate serve` and `linerate load` omits those that are zero. A \
        counter has Linux's name (`nstat`) if Linux has it.";
    markdown::section(page, "## Programs with a stack", about);
    let sets: [(&str, &str, Vec<Meaning>); 5] = [
        ("The TCP/IP stack", "Frames and packets by result.", stack::Counters::meanings().collect()),
        ("The loop of a worker", "Rounds of the thread, and its ports.", Report::loop_meanings().collect()),
        ("A port of several workers", SHARED, DistributorCounts::meanings().collect()),
        ("`serve http`", "Counters of the server, in its results only.", Http::meanings()),
        ("`serve kv`", "Counters of the server, in its results only.", Kv::meanings()),
    ];
    for (title, about, meanings) in sets {
        markdown::section(page, &format!("### {title}"), about);
        let rows = meanings.into_iter().map(|(name, meaning)| [format!("`{name}`"), meaning.to_owned()]);
        markdown::table(page, ["counter", "meaning"], rows);
    }
}

fn details(page: &mut String) {
    let about = "In `details` of a port. `missed` is present while the interface is open; the faults and `unwritten` \
        are omitted while they are zero.";
    markdown::section(page, "## Details of a port", about);
    let rows = PortDetail::ALL
        .map(|detail| [format!("`{}`", detail.name()), detail.at().to_owned(), detail.meaning().to_owned()]);
    markdown::table(page, ["name", "reported by", "meaning"], rows);
}

/// The page of drop reasons.
pub(super) fn drop_reasons() -> String {
    let about = "Reasons of `drops` in `linerate ports show NAME -o json`, of `linerate top` and of `linerate status`. \
        *At* names the port that counts the drop: the source of the packet, or its output.";
    let mut page = super::page("Drop reasons", about);
    let rows = DropReason::ALL
        .map(|reason| [format!("`{}`", reason.name()), reason.at().to_owned(), reason.meaning().to_owned()]);
    markdown::table(&mut page, ["reason", "at", "meaning"], rows);
    markdown::finish(&page)
}
