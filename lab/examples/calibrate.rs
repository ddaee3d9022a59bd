//! Measures this processor's caches and prints a simulator's profile: `calibrate [ROUNDS] [DIRECTORY]`.
//!
//! With a directory the profile is stored there under the processor's name, if the figures are plausible.

use std::path::Path;

use lab::cache::calibrate::{profile, run};
use lab::cache::results::Estimate;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let rounds = arguments.next().map_or(Ok(15), |text| text.parse())?;
    let mut progress = |done: usize, of: usize, _: &str| eprint!("\r{done}/{of}");
    let found = run(rounds, 1, &mut progress)?;
    eprintln!();
    let show = |value: Estimate| format!("{:8.2} ({:.2} to {:.2})", value.median, value.low, value.high);
    for measured in &found.measured {
        println!("{:22} {} {}", measured.name, show(measured.value), measured.unit);
    }
    for (bytes, value) in &found.chase {
        println!("chase {:9} KiB {} ns", bytes / 1024, show(*value));
    }
    for (many, value) in &found.misses {
        println!("{many:3} misses at once {} ns", show(*value));
    }
    let text = profile::write(&found, &profile::day(std::time::SystemTime::now()));
    println!("\n{text}");
    let doubts = found.implausible();
    match arguments.next() {
        Some(directory) if doubts.is_empty() => {
            let file = Path::new(&directory).join(profile::file_name(&found.processor));
            std::fs::write(&file, text)?;
            println!("stored as {}", file.display());
        }
        Some(_) => println!("not stored: {}", doubts.join("; ")),
        None => {}
    }
    Ok(())
}
