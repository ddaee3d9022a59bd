//! `linerate queues ...`

use super::unsaved;
use crate::api::client::{Client, quote};
use crate::api::model::PortReport;
use crate::api::queue_report::QueueReport;
use crate::api::queues::QueueRates;
use crate::args::queues::QueuesCommand;
use crate::settings::wrappers::rate::BitRate;
use console::{Diagnostic, table};

/// Runs the command.
pub(crate) fn run(client: &Client, command: &QueuesCommand) -> anyhow::Result<()> {
    match command {
        QueuesCommand::Show(args) => {
            let mut queues: Vec<QueueReport> = client.get("/v1/queues")?;
            if let Some(port) = &args.port {
                queues.retain(|queue| queue.port == *port);
                if queues.is_empty() {
                    // An error if there is no such port.
                    client.get::<PortReport>(&format!("/v1/ports/{}", quote(port)))?;
                    let place = format!("port \"{port}\"");
                    return Err(
                        Diagnostic::bad(place, "it has no queues", "see `linerate queues show`").into()
                    );
                }
            }
            console::print(&queues, args.show.output, |queues| list(queues))
        }
        QueuesCommand::Set(args) => {
            let text = |rate: Option<BitRate>| rate.map(String::from);
            let (rate, ceil) = (text(args.rate), text(args.ceil));
            let rates = QueueRates { port: args.port.clone(), queue: args.queue, rate, ceil };
            let path = format!("/v1/queues/{}", quote(&args.port));
            let queues: Vec<QueueReport> = client.patch(&path, &serde_json::to_value(rates)?)?;
            console::print(&queues, args.show.output, |queues| list(queues))?;
            unsaved::not_written();
            Ok(())
        }
    }
}

fn list(queues: &[QueueReport]) -> String {
    let rows = queues.iter().map(|queue| {
        let counts = [
            queue.packets,
            queue.bytes,
            queue.backlog,
            queue.backlog_bytes,
            queue.full,
            queue.codel,
            queue.marked,
        ];
        let mut row = vec![
            queue.port.clone(),
            queue.queue.to_string(),
            queue.parent.map_or_else(|| "-".to_owned(), |parent| parent.to_string()),
            BitRate(queue.rate).to_string(),
            BitRate(queue.ceil).to_string(),
            queue.priority.to_string(),
        ];
        row.extend(counts.map(|count| count.to_string()));
        row
    });
    let titles = [
        "PORT",
        ">QUEUE",
        ">PARENT",
        ">RATE",
        ">CEIL",
        ">PRIORITY",
        ">PACKETS",
        ">BYTES",
        ">WAIT",
        ">WAIT BYTES",
        ">FULL",
        ">CODEL",
        ">MARKED",
    ];
    table(&titles, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_rows_with_rates_and_counters() {
        let queue = QueueReport {
            port: "red".to_owned(),
            queue: 1,
            rate: 100_000_000,
            ceil: 1_000_000_000,
            priority: 3,
            packets: 7,
            bytes: 420,
            codel: 2,
            ..QueueReport::default()
        };
        let text = list(&[queue]);
        let last: Vec<_> = text.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(last, ["red", "1", "-", "100Mbit/s", "1Gbit/s", "3", "7", "420", "0", "0", "0", "2", "0"]);
    }
}
