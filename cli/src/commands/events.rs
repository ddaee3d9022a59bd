//! `linerate events`: the last events of the running switch, and further ones as they happen.

use crate::api::client::{Client, query};
use crate::args::events::EventsArgs;
use crate::event_log::{Event, EventsReport, plain};
use console::Output;
use serde_json::json;
use std::fmt::Write;
use std::time::{Duration, Instant};

/// Wait of one request, shorter than the timeout of a client.
const WAIT: &str = "5s";
/// Shortest time between two answers without events: the switch answers at once if too many clients wait.
const PAUSE: Duration = Duration::from_secs(1);

/// Prints events until there are no more, or with `--follow` without end.
pub(crate) fn run(args: &EventsArgs, client: &Client) -> anyhow::Result<()> {
    let limit = Some(args.limit.to_string());
    let first: EventsReport = client.get(&format!("/v1/events?{}", query([("limit", limit)])))?;
    print(&first.events, args.show.output)?;
    let (mut start, mut last) = (first.start, first.last);
    if !args.follow {
        return Ok(());
    }
    loop {
        let asked = Instant::now();
        let next: EventsReport = client.get(&format!("/v1/events?{}", later(start, last)))?;
        if next.lost > 0 {
            console::raw(gap(next.lost, args.show.output).as_bytes())?;
        }
        print(&next.events, args.show.output)?;
        (start, last) = (next.start, next.last);
        if next.events.is_empty() {
            std::thread::sleep(PAUSE.saturating_sub(asked.elapsed()));
        }
    }
}

/// The parameters for the events after those of a report.
fn later(start: u64, last: u64) -> String {
    let start = (start > 0).then(|| start.to_string());
    let numbers = [("after", Some(last.to_string())), ("start", start)];
    query(numbers.into_iter().chain([("wait", Some(WAIT.to_owned()))]))
}

fn print(events: &[Event], output: Output) -> anyhow::Result<()> {
    let mut text = String::new();
    for event in events {
        let line = match output {
            Output::Table => line(event),
            Output::Json => serde_json::to_string(event)?,
        };
        text += &line;
        text.push('\n');
    }
    console::raw(text.as_bytes())
}

/// Stands for events that the switch no longer had when they were asked for.
fn gap(lost: u64, output: Output) -> String {
    match output {
        Output::Table => format!("({lost} events are missing)\n"),
        Output::Json => format!("{}\n", json!({ "lost": lost })),
    }
}

fn line(event: &Event) -> String {
    let Event { timestamp, level, subject, message, fields, .. } = event;
    let mut line = format!("{timestamp} {level:>5} ");
    let named = subject.as_deref().unwrap_or_default();
    if !named.is_empty() {
        line = line + named + ": ";
    }
    line += message;
    let is_subject = |name: &str, value: &str| named == format!("{name} {value}");
    for (name, value) in fields.iter().map(|(name, value)| (name, plain(value))) {
        if !is_subject(name, &value) {
            // Writing to a String cannot fail.
            let _ = if value.contains(' ') {
                write!(line, " {name}={value:?}")
            } else {
                write!(line, " {name}={}", value.escape_debug())
            };
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_the_subject_once_and_escapes_values() {
        let event = json!({
            "number": 3, "timestamp": "2026-01-02T03:04:05.000006Z", "level": "WARN", "subject": "port red",
            "message": "stopped", "port": "red", "bridge": "lan", "reason": "the peer\nleft",
        });
        let event: Event = serde_json::from_value(event).unwrap();
        let expected =
            "2026-01-02T03:04:05.000006Z  WARN port red: stopped bridge=lan reason=\"the peer\\nleft\"";
        assert_eq!(line(&event), expected);
        assert_eq!(gap(7, Output::Json), "{\"lost\":7}\n");
    }
}
