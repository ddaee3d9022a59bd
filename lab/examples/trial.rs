//! A trial on real memory: `trial [--counted] [--rounds N] [--milliseconds N] [--json FILE] [CONFIGURATION...]`.

use std::process::ExitCode;

use lab::cache::factors::find;
use lab::cache::results::Results;
use lab::cache::trial::{Plan, estimate, run};

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let (mut plan, mut json) = (Plan::default(), None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--counted" => plan.counted = true,
            "--rounds" => plan.rounds = arguments.next().ok_or("how many rounds?")?.parse()?,
            "--milliseconds" => {
                let text = arguments.next().ok_or("how long a slice?")?;
                plan.slice = std::time::Duration::from_millis(text.parse()?);
            }
            "--json" => json = arguments.next(),
            name => plan.configurations.push(find(name)?),
        }
    }
    eprintln!("about {:.0} s", estimate(&plan, 0).as_secs_f64());
    let mut progress = |done: usize, of: usize, next: &str| eprint!("\r{done}/{of} {next:20}");
    let results = match run(&plan, &mut progress) {
        Ok(results) => results,
        Err(error) => {
            eprintln!("{error}");
            return Ok(ExitCode::from(2));
        }
    };
    eprintln!();
    print(&results);
    if let Some(file) = json {
        std::fs::write(file, serde_json::to_string_pretty(&results)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print(results: &Results) {
    for row in &results.rows {
        let ratio = row.ratio.map_or(String::new(), |ratio| {
            format!("{:6.3} ({:.3} to {:.3})", ratio.median, ratio.low, ratio.high)
        });
        println!("{:16} {:7.2} Mpps {ratio}", row.name, row.mpps);
        for event in &row.events {
            println!("    {:6} {:52} {:9.3} a packet", event.thread, event.event, event.per_packet);
        }
    }
    for note in &results.notes {
        println!("- {note}");
    }
}
