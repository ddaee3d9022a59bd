//! linerate's path beside DPDK's in the simulator, as a library call: what moves between the cores for a packet. With the
//! word `changes`, also what linerate would be worth with one thing done otherwise; with a profile's
//! name, on that processor.

use lab::cache::batch::profiles;
use lab::cache::paths::study::{CASES, case};
use lab::cache::simulated::{Profile, Stuck};

fn main() -> Result<(), Stuck> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let changes = words.iter().any(|word| word == "changes");
    let profile = words.iter().find_map(|word| profiles::find(word).ok()).unwrap_or_else(Profile::study);
    println!("simulated, {}: linerate, DPDK", profile.name);
    for one in CASES {
        let case = case(&profile, one, 20_000, changes)?;
        let (ours, theirs) = (&case.linerate, &case.dpdk);
        println!(
            "{:6} {:5} B: {:.2} and {:.2} Mpps, {:.2} and {:.2} lines moved a packet",
            case.ring.name(),
            case.bytes,
            ours.mpps,
            theirs.mpps,
            ours.lines_moved,
            theirs.lines_moved
        );
        for changed in &case.changes {
            let (lines, mpps) = (changed.side.lines_moved, changed.side.mpps);
            println!("    {:<56} {lines:.2} lines, {mpps:.2} Mpps", changed.change.title());
        }
    }
    Ok(())
}
