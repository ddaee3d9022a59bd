//! Rates as a screen and as text. The same cells stand in both.

use super::rates::{PortRate, Rates, WorkerRate};
use crate::show;
use crate::show::units::scaled;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Row, Table};
use std::path::Path;

const PORTS: [&str; 7] =
    ["PORT", "STATE", ">IN Mpps", ">IN Gbit/s", ">OUT Mpps", ">OUT Gbit/s", "LOST PER SECOND"];
const PORT_WIDTHS: [u16; 7] = [16, 10, 9, 10, 9, 11, 0];
const WORKERS: [&str; 8] =
    [">WORKER", ">CPU", "STATE", ">Mpps", ">BUSY %", ">EMPTY POLLS %", ">CYCLES/PACKET", ">WAKES/s"];
const WORKER_WIDTHS: [u16; 8] = [6, 4, 8, 9, 7, 13, 13, 8];

/// One screen.
pub(crate) fn draw(frame: &mut Frame<'_>, rates: &Rates, socket: &Path) {
    let ports = rates.ports.len() as u16 + 2;
    let areas = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(rates.workers.len() as u16 + 2),
        Constraint::Min(ports),
    ]);
    let [head, workers, below] = areas.areas(frame.area());
    let title = format!("linerate {}   over {:.1} s   q quits", socket.display(), rates.seconds);
    frame.render_widget(Line::from(title).style(Modifier::BOLD), head);
    grid(frame, workers, &WORKERS, &WORKER_WIDTHS, rates.workers.iter().map(worker_cells));
    grid(frame, below, &PORTS, &PORT_WIDTHS, rates.ports.iter().map(port_cells));
}

fn grid(
    frame: &mut Frame<'_>,
    area: Rect,
    titles: &[&str],
    widths: &[u16],
    rows: impl Iterator<Item = Vec<String>>,
) {
    let aligned = |cells: Vec<String>| {
        Row::new(cells.into_iter().zip(titles).map(|(cell, title)| {
            let line = Line::from(cell);
            if title.starts_with('>') { line.right_aligned() } else { line }
        }))
    };
    let constraint = |width: &u16| match width {
        0 => Constraint::Min(20),
        width => Constraint::Length(*width),
    };
    let header = titles.iter().map(|title| title.trim_start_matches('>').to_owned()).collect();
    let header = aligned(header).style(Style::new().add_modifier(Modifier::REVERSED));
    let table = Table::new(rows.map(aligned), widths.iter().map(constraint)).header(header).column_spacing(2);
    frame.render_widget(table, area);
}

/// Both tables, for `--once`.
pub(crate) fn text(rates: &Rates) -> String {
    let workers = show::table(&WORKERS, rates.workers.iter().map(worker_cells));
    let ports = show::table(&PORTS, rates.ports.iter().map(port_cells));
    format!("{workers}\n\n{ports}")
}

fn port_cells(port: &PortRate) -> Vec<String> {
    let lost: Vec<String> =
        port.drops.iter().map(|(reason, rate)| format!("{reason} {}", scaled(*rate))).collect();
    vec![
        port.name.clone(),
        port.state.clone(),
        format!("{:.3}", port.in_mpps),
        format!("{:.2}", port.in_gbps),
        format!("{:.3}", port.out_mpps),
        format!("{:.2}", port.out_gbps),
        lost.join(", "),
    ]
}

fn worker_cells(worker: &WorkerRate) -> Vec<String> {
    vec![
        worker.index.to_string(),
        worker.cpu.map_or("any".to_owned(), |cpu| cpu.to_string()),
        if worker.sleeping { "asleep" } else { "polling" }.to_owned(),
        format!("{:.3}", worker.mpps),
        format!("{:.1}", worker.busy * 100.0),
        format!("{:.1}", worker.empty_polls * 100.0),
        worker.cycles_per_packet.map_or("-".to_owned(), |cycles| format!("{cycles:.0}")),
        format!("{:.0}", worker.wakes_per_second),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use std::collections::BTreeMap;

    fn rates() -> Rates {
        let port = PortRate {
            name: "guest-a".to_owned(),
            state: "connected".to_owned(),
            in_mpps: 1.25,
            out_gbps: 0.5,
            drops: BTreeMap::from([("queue-full".to_owned(), 1500.0)]),
            ..PortRate::default()
        };
        let worker =
            WorkerRate { cpu: Some(3), busy: 0.5, cycles_per_packet: Some(120.4), ..WorkerRate::default() };
        Rates { seconds: 1.0, ports: vec![port], workers: vec![worker] }
    }

    #[test]
    fn the_screen_shows_every_port_and_worker_with_their_rates() {
        let mut terminal = Terminal::new(TestBackend::new(110, 12)).unwrap();
        terminal.draw(|frame| draw(frame, &rates(), Path::new("/tmp/c.sock"))).unwrap();
        let screen = terminal.backend().to_string();
        for wanted in
            ["/tmp/c.sock", "guest-a", "connected", "1.250", "0.50", "queue-full 1.50 k", "50.0", "120"]
        {
            assert!(screen.contains(wanted), "{wanted} is missing in\n{screen}");
        }
    }

    #[test]
    fn one_reading_is_two_tables() {
        let text = text(&rates());
        assert_eq!(text.lines().count(), 5, "{text}");
        assert!(text.lines().last().unwrap().ends_with("queue-full 1.50 k"), "{text}");
    }
}
