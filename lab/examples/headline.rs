//! The study's headline cases in the simulator, beside the published rates, and where the guest's cycles went.

use std::error::Error;

use lab::cache::experiment::{Length, simulate};
use lab::cache::factors::find;
use lab::cache::simulated::Profile;

/// Configurations and what the study measured of them, in millions of packets a second.
const CASES: [(&str, Option<f64>); 10] = [
    ("base", Some(13.5)),
    ("a", Some(17.8)),
    ("d", Some(20.8)),
    ("a+d", Some(37.5)),
    ("header-not-written", Some(20.8)),
    ("header-prefetched", Some(17.3)),
    ("pool-1024", None),
    ("b", None),
    ("a+b+d", None),
    ("a+b+c+d+e+f", None),
];

fn main() -> Result<(), Box<dyn Error>> {
    let profile = Profile::study();
    println!("simulated, {}; the guest's core, per packet", profile.name);
    println!(
        "{:20} {:>6} {:>6} {:>8} {:>8} {:>8} {:>8}",
        "", "Mpps", "study", "cycles", "RFO", "stores", "L1 miss"
    );
    for (name, study) in CASES {
        let outcome = simulate(&profile, &find(name)?.config, Length::default())?;
        let guest = &outcome.threads[1];
        println!(
            "{name:20} {:6.2} {:>6} {:8.1} {:8.1} {:8.1} {:8.2}",
            outcome.mpps,
            study.map_or_else(String::new, |mpps| mpps.to_string()),
            guest.cycles_per_packet(guest.counters.time),
            guest.cycles_per_packet(guest.counters.rfo_time),
            guest.cycles_per_packet(guest.counters.stall_stores),
            guest.per_packet(guest.counters.l1_misses),
        );
    }
    Ok(())
}
