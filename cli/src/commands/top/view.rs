//! Rates as a screen and as text. Both have the same cells, except that the screen lists drop reasons below its
//! tables, with the full width.

use super::rates::{BridgeRate, PortRate, Rates, StepRate, WorkerRate};
use super::sparkline::sparkline;
use console::units::{nanoseconds, scaled};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Row, Table};
use std::path::Path;

/// One column of a table on the screen. If not all fit, those with the highest rank are removed first.
#[derive(Clone, Copy, Debug)]
struct Column {
    title: &'static str,
    width: u16,
    rank: u8,
}

const fn column(title: &'static str, width: u16, rank: u8) -> Column {
    Column { title, width, rank }
}

/// The first column takes the remaining width.
const PORTS: [Column; 10] = [
    column("PORT", 8, 0),
    column("STATE", 9, 2),
    column(">IN Mpps", 8, 0),
    column(">IN Gbit/s", 9, 1),
    column(">OUT Mpps", 8, 0),
    column(">OUT Gbit/s", 10, 1),
    column(">LOST/s", 7, 0),
    column(">P50", 9, 6),
    column(">P99", 9, 5),
    column("LAST 5 MINUTES", SPARKS as u16, 4),
];
/// Blocks of a history.
const SPARKS: usize = 30;
const WORKERS: [Column; 12] = [
    column(">WORKER", 6, 0),
    column(">CPU", 4, 0),
    column("ROLE", 4, 3),
    column("STATE", 7, 3),
    column(">Mpps", 8, 0),
    column(">BUSY %", 6, 0),
    column(">EMPTY POLLS %", 13, 2),
    column(">CYCLES/PACKET", 13, 0),
    column(">WAKES/s", 8, 1),
    column(">RECEIVE", 7, 4),
    column(">PIPELINE", 8, 4),
    column(">TRANSMIT", 8, 4),
];
const BRIDGES: [Column; 5] = [
    column("BRIDGE", 8, 0),
    column(">FLOWS", 8, 0),
    column(">HEAD CACHE/s", 12, 0),
    column(">MEGAFLOW CACHE/s", 16, 0),
    column(">TABLES/s", 9, 0),
];
/// Maximum number of lines for drop reasons.
const REASONS: usize = 4;

/// Draws the screen. `first` is the index of the first port, which is clamped.
pub(crate) fn draw(frame: &mut Frame<'_>, rates: &Rates, socket: &Path, first: &mut usize) {
    let losses = losses(rates, REASONS);
    let areas = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(rates.workers.len() as u16 + 2),
        Constraint::Length(bridge_lines(rates)),
        Constraint::Min(2),
        Constraint::Length(losses.len() as u16),
    ]);
    let [head, workers, bridges, ports, below] = areas.areas(frame.area());
    let rows = usize::from(ports.height.saturating_sub(1));
    *first = (*first).min(rates.ports.len().saturating_sub(rows));
    let last = (*first + rows).min(rates.ports.len());
    frame.render_widget(Line::from(title(rates, socket, *first, last)).style(Modifier::BOLD), head);
    grid(frame, workers, &WORKERS, rates.workers.iter().map(worker_cells));
    if !rates.bridges.is_empty() {
        grid(frame, bridges, &BRIDGES, rates.bridges.iter().map(bridge_cells));
    }
    grid(frame, ports, &PORTS, rates.ports[*first..last].iter().map(port_cells));
    for (line, row) in losses.into_iter().zip(below.rows()) {
        frame.render_widget(Line::from(line), row);
    }
}

/// Lines of the table of bridges with flow tables; 0 if there are none.
fn bridge_lines(rates: &Rates) -> u16 {
    if rates.bridges.is_empty() { 0 } else { rates.bridges.len() as u16 + 2 }
}

fn title(rates: &Rates, socket: &Path, first: usize, last: usize) -> String {
    let ports = match rates.ports.len() {
        all if last - first < all => format!("   ports {} to {last} of {all}, arrow keys", first + 1),
        _ => String::new(),
    };
    format!("linerate   q quits{ports}   over {:.1} s   {}", rates.seconds, socket.display())
}

/// Drops per second by port and reason, in at most `most` lines.
fn losses(rates: &Rates, most: usize) -> Vec<String> {
    let losing = rates.ports.iter().filter(|port| !port.drops.is_empty());
    let mut lines: Vec<String> =
        losing.map(|port| format!("lost per second at {}: {}", port.name, reasons(port))).collect();
    if lines.len() > most {
        let more = lines.len() - (most - 1);
        lines.truncate(most - 1);
        lines.push(format!("... and at {more} more ports"));
    }
    lines
}

fn reasons(port: &PortRate) -> String {
    let each = port.drops.iter().map(|(reason, rate)| format!("{reason} {}", scaled(*rate)));
    each.collect::<Vec<_>>().join(", ")
}

/// The columns that fit into `width` with their widths, and the space between them. A narrow screen has fewer
/// columns, a wide one a wider first column and more space.
fn fitted(columns: &[Column], width: u16, longest: u16) -> (Vec<(usize, u16)>, u16) {
    let mut chosen: Vec<usize> = (0..columns.len()).collect();
    let taken = |chosen: &[usize]| chosen.iter().map(|i| columns[*i].width + 1).sum::<u16>() - 1;
    while taken(&chosen) > width {
        match chosen.iter().copied().filter(|i| columns[*i].rank > 0).max_by_key(|i| columns[*i].rank) {
            Some(least) => chosen.retain(|i| *i != least),
            None => break,
        }
    }
    let spare = width.saturating_sub(taken(&chosen));
    let first = columns[0].width.max(longest.min(columns[0].width + spare));
    let gaps = chosen.len() as u16 - 1;
    let roomy = longest <= first && spare >= gaps + (first - columns[0].width);
    let width = |i: usize| if i == 0 { first } else { columns[i].width };
    (chosen.iter().map(|i| (*i, width(*i))).collect(), if roomy { 2 } else { 1 })
}

fn grid(frame: &mut Frame<'_>, area: Rect, columns: &[Column], rows: impl Iterator<Item = Vec<String>>) {
    let rows: Vec<Vec<String>> = rows.collect();
    let longest = rows.iter().map(|cells| cells[0].chars().count()).max().unwrap_or(0) as u16;
    let (fitted, spacing) = fitted(columns, area.width, longest);
    let aligned = |cells: &[String]| {
        Row::new(fitted.iter().map(|(i, width)| {
            let line = Line::from(shortened(&cells[*i], *width));
            if columns[*i].title.starts_with('>') { line.right_aligned() } else { line }
        }))
    };
    let titles: Vec<String> =
        columns.iter().map(|column| column.title.trim_start_matches('>').to_owned()).collect();
    let header = aligned(&titles).style(Style::new().add_modifier(Modifier::REVERSED));
    let widths = fitted.iter().map(|(_, width)| Constraint::Length(*width));
    let table =
        Table::new(rows.iter().map(|cells| aligned(cells)), widths).header(header).column_spacing(spacing);
    frame.render_widget(table, area);
}

/// Truncates `text` to `width` columns and marks the truncation.
fn shortened(text: &str, width: u16) -> String {
    let width = usize::from(width);
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// All tables, for `--once` and for output without a terminal.
pub(crate) fn text(rates: &Rates) -> String {
    let titles = |columns: &[Column]| columns.iter().map(|column| column.title).collect::<Vec<_>>();
    let workers = console::table(&titles(&WORKERS), rates.workers.iter().map(worker_cells));
    let port = |port: &PortRate| [port_cells(port), vec![reasons(port)]].concat();
    let titles = [titles(&PORTS), vec!["BY REASON"]].concat();
    let ports = console::table(&titles, rates.ports.iter().map(port));
    let bridges = BRIDGES.map(|column| column.title);
    let bridges = console::table(&bridges, rates.bridges.iter().map(bridge_cells));
    let bridges = if rates.bridges.is_empty() { String::new() } else { format!("{bridges}\n\n") };
    format!("{workers}\n\n{bridges}{ports}")
}

fn bridge_cells(bridge: &BridgeRate) -> Vec<String> {
    let rates = [bridge.head, bridge.megaflow, bridge.tables].map(scaled);
    [bridge.name.clone(), bridge.flows.to_string()].into_iter().chain(rates).collect()
}

fn port_cells(port: &PortRate) -> Vec<String> {
    vec![
        port.name.clone(),
        port.state.clone(),
        format!("{:.3}", port.in_mpps),
        format!("{:.2}", port.in_gbps),
        format!("{:.3}", port.out_mpps),
        format!("{:.2}", port.out_gbps),
        scaled(port.drops.values().fold(0.0, |sum, rate| sum + rate)),
        latency(port.latency_p50_ns),
        latency(port.latency_p99_ns),
        sparkline(&port.history, SPARKS),
    ]
}

/// Cycles per packet of a step.
fn step(steps: Option<StepRate>, read: fn(&StepRate) -> f64) -> String {
    steps.map_or("-".to_owned(), |steps| format!("{:.0}", read(&steps)))
}

fn latency(ns: Option<u64>) -> String {
    ns.map_or("-".to_owned(), nanoseconds)
}

fn worker_cells(worker: &WorkerRate) -> Vec<String> {
    // A busy worker also sleeps briefly; its predominant state is shown.
    let asleep = worker.sleeping && worker.busy < 0.5;
    vec![
        worker.index.to_string(),
        worker.cpu.map_or("any".to_owned(), |cpu| cpu.to_string()),
        worker.role.clone(),
        if asleep { "asleep" } else { "polling" }.to_owned(),
        format!("{:.3}", worker.mpps),
        format!("{:.1}", worker.busy * 100.0),
        format!("{:.1}", worker.empty_polls * 100.0),
        worker.cycles_per_packet.map_or("-".to_owned(), |cycles| format!("{cycles:.0}")),
        format!("{:.0}", worker.wakes_per_second),
        step(worker.steps, |steps| steps.receive),
        step(worker.steps, |steps| steps.pipeline),
        step(worker.steps, |steps| steps.transmit),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use std::collections::BTreeMap;

    fn rates(ports: usize) -> Rates {
        let port = |number: usize| PortRate {
            name: format!("guest-with-a-long-name-{number}"),
            state: "connected".to_owned(),
            in_mpps: 101.25,
            out_gbps: 100.5,
            drops: BTreeMap::from([("queue-full".to_owned(), 1500.0)]),
            ..PortRate::default()
        };
        let worker =
            WorkerRate { cpu: Some(3), busy: 0.5, cycles_per_packet: Some(120.4), ..WorkerRate::default() };
        let bridges = Vec::new();
        Rates { seconds: 1.0, ports: (0..ports).map(port).collect(), workers: vec![worker], bridges }
    }

    fn screen(width: u16, height: u16, ports: usize, first: &mut usize) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, &rates(ports), Path::new("/tmp/c.sock"), first)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn a_usual_window_shows_every_title_and_number_whole() {
        let screen = screen(80, 24, 1, &mut 0);
        let usual = |column: &&Column| column.rank < 4;
        let titles =
            WORKERS.iter().chain(&PORTS).filter(usual).map(|column| column.title.trim_start_matches('>'));
        let values = ["/tmp/c.sock", "connected", "101.250", "100.50", "1.50 k", "50.0", "120"];
        let below = "lost per second at guest-with-a-long-name-0: queue-full 1.50 k";
        for wanted in titles.chain(values).chain([below, "guest-with-a-long-name… "]) {
            assert!(screen.contains(wanted), "{wanted} is missing in\n{screen}");
        }
    }

    #[test]
    fn narrow_terminal_drops_columns_before_figures() {
        assert!(screen(200, 50, 1, &mut 0).contains("guest-with-a-long-name-0 "));
        let narrow = screen(40, 10, 1, &mut 0);
        assert!(narrow.contains("101.250") && narrow.contains("OUT Mpps"), "{narrow}");
        assert!(!narrow.contains("Gbit/s") && !narrow.contains("STATE"), "{narrow}");
    }

    #[test]
    fn ports_that_have_no_room_are_scrolled_to_and_never_past() {
        let mut first = 1000;
        let screen = screen(150, 16, 64, &mut first);
        assert!(screen.contains("guest-with-a-long-name-63"), "{screen}");
        assert!(screen.contains(&format!("ports {} to 64 of 64", first + 1)), "{screen}");
        assert!(screen.contains("... and at 61 more ports"), "{screen}");
    }

    #[test]
    fn screen_is_drawn_in_windows_of_any_size() {
        for (width, height) in [(1, 1), (5, 3), (20, 2), (300, 1)] {
            let screen = screen(width, height, 3, &mut 0);
            assert_eq!(screen.lines().count(), usize::from(height), "{screen}");
        }
    }

    #[test]
    fn port_without_loss_shows_zero() {
        assert_eq!(port_cells(&PortRate::default())[6], "0");
    }

    #[test]
    fn bridges_with_flow_tables_are_a_table_of_their_own() {
        let bridge = BridgeRate { name: "br0".to_owned(), head: 1500.0, flows: 3, ..BridgeRate::default() };
        let rates = Rates { bridges: vec![bridge], ..rates(1) };
        assert!(text(&rates).contains("MEGAFLOW CACHE/s"), "{}", text(&rates));
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| draw(frame, &rates, Path::new("/tmp/c.sock"), &mut 0)).unwrap();
        let screen = terminal.backend().to_string();
        assert!(screen.contains("HEAD CACHE/s") && screen.contains("1.50 k"), "{screen}");
    }

    #[test]
    fn text_of_one_reading_has_two_tables() {
        let text = text(&rates(1));
        assert_eq!(text.lines().count(), 5, "{text}");
        assert!(text.lines().last().unwrap().contains("queue-full 1.50 k"), "{text}");
    }
}
