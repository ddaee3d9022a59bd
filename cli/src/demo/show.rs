//! How readings look: a live table while frames circulate, and a summary.

use super::reading::{PortReading, Reading, Report};
use crate::args::Output;
use crate::show::table;
use std::io::{IsTerminal, Write};
use std::time::Duration;

/// The live table: redrawn in place on a terminal, one line per update elsewhere, nothing beside JSON.
pub(super) struct Live {
    silent: bool,
    redraws: bool,
    lines: usize,
}

impl Live {
    pub(super) fn new(output: Output) -> Self {
        Self { silent: output == Output::Json, redraws: std::io::stderr().is_terminal(), lines: 0 }
    }

    pub(super) fn update(&mut self, reading: &Reading, left: Duration) {
        if self.silent {
            return;
        }
        let mut err = std::io::stderr().lock();
        // A terminal that has gone away is no reason to stop measuring.
        let _ = if self.redraws { self.redraw(&mut err, reading, left) } else { line(&mut err, reading) };
    }

    fn redraw(&mut self, err: &mut impl Write, reading: &Reading, left: Duration) -> std::io::Result<()> {
        let text = format!(
            "{}\n{}\n{:.0} s left\n",
            totals([reading].into_iter()),
            ports(reading),
            left.as_secs_f64()
        );
        if self.lines > 0 {
            write!(err, "\x1b[{}A\x1b[J", self.lines)?;
        }
        self.lines = text.lines().count();
        write!(err, "{text}")
    }

    /// Leaves the terminal as it was.
    pub(super) fn end(&mut self) {
        if self.lines > 0 {
            let _ = write!(std::io::stderr(), "\x1b[{}A\x1b[J", self.lines);
        }
        self.lines = 0;
    }
}

fn line(err: &mut impl Write, r: &Reading) -> std::io::Result<()> {
    let Reading { size, mpps, gbit_per_second, cycles_per_packet, .. } = r;
    writeln!(
        err,
        "size {size}: {mpps:.2} Mpps, {gbit_per_second:.2} Gbit/s, {cycles_per_packet:.0} cycles/packet"
    )
}

fn totals<'a>(readings: impl Iterator<Item = &'a Reading>) -> String {
    let titles = ["SIZE", ">Mpps", ">Gbit/s", ">CYCLES/PACKET", ">PACKETS/BURST", ">EMPTY POLLS", ">DROPPED"];
    let row = |r: &Reading| {
        let dropped: u64 = r.ports.iter().flat_map(|port| port.drops.values()).sum();
        vec![
            r.size.clone(),
            format!("{:.2}", r.mpps),
            format!("{:.2}", r.gbit_per_second),
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

fn drops(port: &PortReading) -> String {
    if port.drops.is_empty() {
        return "none".to_owned();
    }
    port.drops.iter().map(|(reason, n)| format!("{reason} {n}")).collect::<Vec<_>>().join(", ")
}

/// The end: what was measured, and on what.
pub(super) fn summary(output: Output, report: &Report) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if output == Output::Json {
        writeln!(out, "{}", serde_json::to_string_pretty(report)?)?;
        return Ok(());
    }
    writeln!(out, "{}", totals(report.runs.iter()))?;
    for reading in &report.runs {
        writeln!(out, "\nsize {}:\n{}", reading.size, ports(reading))?;
    }
    let cpu = |cpu: Option<usize>| cpu.map_or("any CPU".to_owned(), |cpu| format!("CPU {cpu}"));
    let guests: Vec<_> = report.guest_cpus.iter().map(|c| cpu(*c)).collect();
    let kernel = report.runs.first().map_or("none", |run| &run.kernel);
    writeln!(
        out,
        "\nMeasured on {}: learning bridge with one worker on {}, two guests ({} ring) on {}, {} frames in \
         circulation, copy kernel {kernel}. A frame counts once, when it has left the switch. Rates of one \
         machine at one moment: compare only what ran side by side.",
        report.processor,
        cpu(report.switch_cpu),
        report.ring,
        guests.join(" and "),
        report.frames_in_circulation,
    )?;
    Ok(())
}
