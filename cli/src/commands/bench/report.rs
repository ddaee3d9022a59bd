//! Results as text: one table per test.

use rfc2544::{Environment, Figure, Latency, LossRow, Results, SizeResults};

/// All tables, and a footer.
pub(super) fn text(results: &Results) -> String {
    let tables = [throughput(results), latency(results), loss(results)];
    let mut parts: Vec<String> = tables.into_iter().flatten().collect();
    parts.push(footer(results));
    parts.join("\n\n")
}

/// A number that may be only a lower bound.
pub(super) fn bounded(value: &str, at_least: bool) -> String {
    if at_least { format!(">= {value}") } else { value.to_owned() }
}

fn mega(figure: Option<Figure>, times: f64, digits: usize) -> String {
    let shown = |figure: Figure| bounded(&format!("{:.digits$}", figure.value * times), figure.at_least);
    figure.map_or_else(String::new, shown)
}

/// [`mega`], with a remark if the search was not finished.
fn searched(figure: Option<Figure>, times: f64, digits: usize) -> String {
    mega(figure, times, digits) + figure.map_or("", |figure| figure.suffix())
}

fn throughput(results: &Results) -> Option<String> {
    let any = |size: &SizeResults| size.ndr().is_some() || size.burst().is_some();
    let row = |size: &SizeResults| {
        let bits = size.bits(1.0);
        vec![
            size.size.clone(),
            searched(size.ndr(), 1e-6, 4),
            mega(size.ndr(), bits / 1e9, 3),
            searched(size.pdr(), 1e-6, 4),
            mega(size.pdr(), bits / 1e9, 3),
            searched(size.burst(), 1.0, 0),
            size.ceiling_pps.map_or_else(String::new, |ceiling| format!("{:.4}", ceiling / 1e6)),
            size.rounds.len().to_string(),
        ]
    };
    let pdr = format!(">PDR {}% Mpps", results.plan.loss * 100.0);
    let titles =
        ["SIZE", ">NDR Mpps", ">Gbit/s", pdr.as_str(), ">Gbit/s", ">BURST", ">CEILING Mpps", ">ROUNDS"];
    results.sizes.iter().any(any).then(|| console::table(&titles, results.sizes.iter().map(row)))
}

fn micro(nanoseconds: f64) -> String {
    format!("{:.1}", nanoseconds / 1e3)
}

fn latency(results: &Results) -> Option<String> {
    let row = |size: &SizeResults, at: &Latency| {
        let mut row = vec![size.size.clone(), format!("{} %", at.load), bounded_load(at)];
        row.extend(at.percentiles.map(micro));
        row.extend([at.jitter, at.ipdv].map(micro));
        let baseline = at.baseline.map(|baseline| baseline.map(micro));
        row.extend(baseline.unwrap_or_default());
        row.push(if at.loss > 0.0 { format!("{:.4}", at.loss * 100.0) } else { "0".to_owned() });
        row
    };
    let rows: Vec<_> = results
        .sizes
        .iter()
        .flat_map(|size| size.latency().iter().map(|at| row(size, at)).collect::<Vec<_>>())
        .collect();
    let titles = [
        "SIZE",
        ">LOAD",
        ">Mpps",
        ">p50 us",
        ">p90",
        ">p99",
        ">p99.9",
        ">MAX",
        ">JITTER",
        ">IPDV p99",
        ">BASE p50",
        ">BASE p99",
        ">LOSS %",
    ];
    (!rows.is_empty()).then(|| console::table(&titles, rows))
}

fn bounded_load(at: &Latency) -> String {
    let mpps = format!("{:.4}", at.pps / 1e6);
    if at.short { format!("< {mpps}") } else { mpps }
}

fn loss(results: &Results) -> Option<String> {
    let rows = results.sizes.iter().flat_map(|size| {
        let row = |LossRow { percent, offered_pps, short, loss }: LossRow| {
            let less = if short { "the generator offered less" } else { "" };
            vec![
                size.size.clone(),
                format!("{percent} %"),
                format!("{:.4}", offered_pps / 1e6),
                format!("{:.4}", loss * 100.0),
                less.to_owned(),
            ]
        };
        size.loss().into_iter().rev().map(row).collect::<Vec<_>>()
    });
    let rows: Vec<_> = rows.collect();
    (!rows.is_empty()).then(|| console::table(&["SIZE", ">OF CEILING", ">OFFERED Mpps", ">LOSS %", ""], rows))
}

/// Setup, environment and caveats.
fn footer(results: &Results) -> String {
    let setup = &results.setup;
    let version = setup.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
    let (topology, ports) = (setup.topology.name(), setup.ports.join(" and "));
    // A switch in the generator's thread has no named ports.
    let ports = if ports.is_empty() { ports } else { format!(", ports {ports}") };
    let mut lines = vec![format!("{topology}: switch {}{version}{ports}", setup.switch)];
    lines.extend(place(&results.environment));
    lines.push(
        ">= means at least: the generator or the ceiling was the limit, not the switch, unless the search was \
         not finished; sizes are without checksum"
            .to_owned(),
    );
    if !results.whole {
        lines.push("partial: ended before the last trial".to_owned());
    }
    lines.extend(results.notes.iter().cloned());
    lines.join("\n")
}

fn place(environment: &Environment) -> [String; 2] {
    let Environment { processor, cpus, used, kernel, virtual_machine, governor, date, build, .. } =
        environment;
    let cpu = |cpu: Option<usize>| cpu.map_or_else(|| "any".to_owned(), |cpu| cpu.to_string());
    let machine = if *virtual_machine { "a virtual machine" } else { "no virtual machine" };
    let governor = governor.as_deref().unwrap_or("unknown");
    let [generator, switch, guest] = [used.generator, used.switch, used.guest].map(cpu);
    [
        format!(
            "{processor}, {cpus} CPUs, {machine}; {kernel}; governor {governor}; {date}; linerate {build}"
        ),
        format!("CPU of the generator {generator}, of the switch {switch}, of the guest {guest}"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use rfc2544::{Bound, Plan, Round, Setup, Throughput};

    /// One size with one round, which lost a quarter at the ceiling and was interrupted during the search.
    fn results(ports: &[&str]) -> Results {
        let plan: Plan = crate::args::bench_options::BenchOptions::default().plan();
        let loss = LossRow { percent: 100.0, offered_pps: 2_345_678.0, short: false, loss: 0.25 };
        let ndr = Throughput {
            goal: 0.0,
            pps: 295_600.0,
            above_pps: Some(4e5),
            bound: Bound::Unfinished,
            trials: 9,
        };
        let round = Round { ndr: Some(ndr), loss: vec![loss], ..Round::default() };
        let size = SizeResults {
            size: "64".to_owned(),
            mean: 64.0,
            ceiling_pps: None,
            carried: true,
            rounds: vec![round],
        };
        let setup = Setup {
            switch: "linerate, inline".to_owned(),
            ports: ports.iter().map(ToString::to_string).collect(),
            ..Setup::default()
        };
        Results {
            setup,
            environment: Environment::default(),
            plan,
            whole: false,
            trials: 9,
            notes: Vec::new(),
            sizes: vec![size],
        }
    }

    #[test]
    fn loss_is_shown_with_the_offered_rate() {
        let told = text(&results(&[]));
        let lines: Vec<Vec<&str>> = told.lines().map(|line| line.split_whitespace().collect()).collect();
        assert!(lines.contains(&vec!["SIZE", "OF", "CEILING", "OFFERED", "Mpps", "LOSS", "%"]), "{told}");
        assert!(lines.contains(&vec!["64", "100", "%", "2.3457", "25.0000"]), "{told}");
    }

    #[test]
    fn ports_are_named_where_there_are_some() {
        assert!(text(&results(&[])).contains("vm-vm: switch linerate, inline\n"), "{}", text(&results(&[])));
        assert!(text(&results(&["x", "y"])).contains("switch linerate, inline, ports x and y\n"));
    }

    #[test]
    fn a_search_that_was_ended_is_no_throughput() {
        let told = text(&results(&[]));
        assert!(told.contains(">= 0.2956, search not finished"), "{told}");
    }
}
