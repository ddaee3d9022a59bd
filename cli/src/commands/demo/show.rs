//! Output of measurements: a live table while frames circulate, and a summary.

use super::reading::{PortReading, Reading, Report};
use crate::args::guest::FrameSize;
use console::Output;
use console::table;
use measure::distance::Class;
use std::io::Write;
use std::time::Duration;

/// The live table: redrawn in place on a terminal, one line per update elsewhere, disabled with JSON output.
pub(super) struct Live {
    silent: bool,
    redraws: bool,
    /// Text currently drawn on the terminal.
    drawn: String,
}

impl Live {
    pub(super) fn new(output: Output) -> Self {
        let redraws = console::is_screen(&std::io::stderr());
        Self { silent: output == Output::Json || console::is_quiet(), redraws, drawn: String::new() }
    }

    /// Reports activity before the first measurement, if it can be overwritten later.
    pub(super) fn announce(&mut self, size: FrameSize) {
        if !self.silent && self.redraws {
            self.redraw(&format!("size {size}: guests connect and frames start to circulate\n"));
        }
    }

    pub(super) fn update(&mut self, reading: &Reading, left: Duration) {
        if self.silent {
        } else if self.redraws {
            let (totals, ports) = (totals([reading].into_iter()), ports(reading));
            self.redraw(&format!("{totals}\n\n{ports}\n\n{:.0} s left\n", left.as_secs_f64()));
        } else {
            let Reading { size, mpps, gbit_per_second, cycles_per_packet, .. } = reading;
            eprintln!(
                "size {size}: {mpps:.2} Mpps, {gbit_per_second:.2} Gbit/s, {cycles_per_packet:.0} cycles/packet"
            );
        }
    }

    /// Redraws the table. Write errors are ignored: a closed terminal does not stop the measurement.
    fn redraw(&mut self, text: &str) {
        let (columns, _) = ratatui::crossterm::terminal::size().unwrap_or((80, 24));
        // The cursor moves up by rows; a line wider than the window takes several.
        let up = rows(&self.drawn, columns.into());
        let back = if up > 0 { format!("\x1b[{up}A\r") } else { String::new() };
        let clipped =
            |line: &str| line.chars().take(usize::from(columns.saturating_sub(1))).collect::<String>();
        let text: String = text.lines().map(|line| clipped(line) + "\n").collect();
        // Overwrites lines before clearing the rest, to avoid flicker.
        let lines = text.replace('\n', "\x1b[K\n");
        let _ = write!(std::io::stderr(), "{back}{lines}\x1b[J");
        self.drawn = text;
    }

    /// Clears the table.
    pub(super) fn end(&mut self) {
        if self.redraws && !self.drawn.is_empty() {
            self.redraw("");
        }
    }
}

/// Number of terminal rows of these lines.
fn rows(text: &str, columns: usize) -> usize {
    text.lines().map(|line| line.chars().count().div_ceil(columns.max(1)).max(1)).sum()
}

fn totals<'a>(readings: impl Iterator<Item = &'a Reading>) -> String {
    let titles = ["SIZE", ">Mpps", ">Gbit/s", ">CYCLES/PACKET", ">PACKETS/BURST", ">EMPTY POLLS", ">DROPPED"];
    let row = |r: &Reading| {
        let dropped: u64 = r.ports.iter().flat_map(|port| port.drops.values()).sum();
        vec![
            format!("{:<5}", r.size),
            format!("{:7.2}", r.mpps),
            format!("{:7.2}", r.gbit_per_second),
            format!("{:.0}", r.cycles_per_packet),
            format!("{:.1}", r.packets_per_burst),
            format!("{:.0} %", r.empty_polls * 100.0),
            dropped.to_string(),
        ]
    };
    table(&titles, readings.map(row))
}

fn ports(reading: &Reading) -> String {
    let titles = ["PORT", ">RX Mpps", ">TX Mpps", ">RX Gbit/s", ">TX Gbit/s", "DROPS"];
    let row = |p: &PortReading| {
        vec![
            p.name.clone(),
            format!("{:.2}", p.rx_mpps),
            format!("{:.2}", p.tx_mpps),
            format!("{:.2}", p.rx_gbit_per_second),
            format!("{:.2}", p.tx_gbit_per_second),
            drops(p),
        ]
    };
    table(&titles, reading.ports.iter().map(row))
}

/// The greatest distance, because rates at different distances are not comparable.
fn distance(reading: &Reading) -> String {
    match reading.distances_ns.iter().copied().reduce(f64::max) {
        None => "distance of the CPUs: not measured".to_owned(),
        Some(ns) => format!("distance of the CPUs: at most {ns:.0} ns ({})", Class::of(ns).name()),
    }
}

fn drops(port: &PortReading) -> String {
    if port.drops.is_empty() {
        return "none".to_owned();
    }
    port.drops.iter().map(|(reason, n)| format!("{reason} {n}")).collect::<Vec<_>>().join(", ")
}

/// Prints the summary: measurements and environment.
pub(super) fn summary(output: Output, report: &Report) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if output == Output::Json {
        writeln!(out, "{}", serde_json::to_string_pretty(report)?)?;
        return Ok(());
    }
    writeln!(out, "{}", totals(report.runs.iter()))?;
    for reading in &report.runs {
        writeln!(out, "\nsize {}:\n{}\n{}", reading.size, ports(reading), distance(reading))?;
    }
    let cpu = |cpu: Option<usize>| cpu.map_or("any CPU".to_owned(), |cpu| format!("CPU {cpu}"));
    let guests: Vec<_> = report.guest_cpus.iter().map(|c| cpu(*c)).collect();
    let kernel = report.runs.first().map_or("none", |run| &run.kernel);
    writeln!(
        out,
        "\nMeasured on {}:\n\
         switch  learning bridge, one worker on {}, copy kernel {kernel}\n\
         guests  two with {} rings ({} descriptors) on {}, {} frames in circulation\n\
         A frame counts once, when it has left the switch. Rates depend on the\n\
         machine, its load and the distance of its CPUs: compare only runs on the\n\
         same idle machine at the same distance.",
        report.processor,
        cpu(report.switch_cpu),
        report.ring,
        report.descriptors,
        guests.join(" and "),
        report.frames_in_circulation,
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_wider_than_the_window_takes_more_than_one_row() {
        assert_eq!(rows("12345\n\n1234567890\n12345678901\n", 10), 1 + 1 + 1 + 2);
        assert_eq!(rows("", 10), 0);
    }

    #[test]
    fn columns_stay_where_they_are_when_figures_grow() {
        let reading = |mpps| Reading {
            size: "64".to_owned(),
            seconds: 1.0,
            packets: 1,
            mpps,
            gbit_per_second: mpps,
            cycles_per_packet: 99.0,
            empty_polls: 0.0,
            packets_per_burst: 64.0,
            kernel: String::new(),
            distances_ns: Vec::new(),
            ports: Vec::new(),
        };
        let end = |mpps| totals([&reading(mpps)].into_iter()).lines().nth(1).unwrap().find(" 99").unwrap();
        assert_eq!(end(0.01), end(1234.56));
    }
}
