//! `counters.md`, `drop-reasons.md` and `exit-codes.md`.

use super::schema::Schemas;
use console::markdown;
use port::{DropReason, PortDetail};

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

/// Commands that run until a signal, with their exit codes after one.
const SIGNALLED: [(&str, &str, &str); 5] = [
    ("`run`", "0", "The switch stops and removes its sockets."),
    ("`serve`", "0", "The server closes its port and prints the summary."),
    ("`stack capture`", "0", "The capture ends, and its file is complete."),
    ("`guest`, `top`", "0", "They run until a signal by default; `guest` prints its results."),
    (
        "`gen`, `load`, `bench`, `demo`, `linerate-lab`",
        "1",
        "The result is partial; the results so far are printed or kept.",
    ),
];

/// The page of counters.
pub(super) fn counters() -> anyhow::Result<String> {
    let schemas = Schemas::new()?;
    let about = "Counters and states that the control API and `-o json` return. While no burst is in flight, over all \
        ports: received + replicated = sent + dropped + punted. The states of a port are explained in \
        [troubleshooting](../guide/troubleshooting.md).";
    let mut page = super::page("Counters", about);
    for (schema, title, place) in COUNTERS {
        markdown::section(&mut page, &format!("## {title}"), place);
        markdown::table(&mut page, ["field", "type", "meaning"], schemas.fields(schema)?);
    }
    details(&mut page);
    of_stack(&mut page);
    Ok(markdown::finish(&page))
}

fn of_stack(page: &mut String) {
    let about = "In `counters` of the summaries of `linerate serve` and `linerate load`, which omit those that are zero. \
        The names are those of Linux where it has the counter.";
    markdown::section(page, "## The TCP/IP stack", about);
    let rows = stack::Counters::meanings()
        .map(|(name, meaning)| [format!("`{name}`"), "integer".to_owned(), meaning.to_owned()]);
    markdown::table(page, ["field", "type", "meaning"], rows);
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

/// The page of exit codes.
pub(super) fn exit_codes() -> String {
    let mut page = super::page("Exit codes", "Of every command of `linerate` and `linerate-lab`.");
    let rows = console::EXIT_CODES.map(|(code, meaning)| [code.to_string(), meaning.to_owned()]);
    markdown::table(&mut page, ["code", "meaning"], rows);
    let about = "The first signal ends a command in order. A second one ends it at once, with exit code 1.";
    markdown::section(&mut page, "## One SIGINT or SIGTERM", about);
    let rows = SIGNALLED.map(|(commands, code, meaning)| [commands, code, meaning].map(str::to_owned));
    markdown::table(&mut page, ["command", "code", "meaning"], rows);
    markdown::finish(&page)
}
