//! linerate's path beside DPDK's in the simulator, as a library call: what moves between the cores for a packet.

use lab::cache::paths::study::{CASES, case};
use lab::cache::simulated::{Profile, Stuck};

fn main() -> Result<(), Stuck> {
    let profile = Profile::study();
    println!("simulated, {}: linerate, DPDK", profile.name);
    for one in CASES {
        let case = case(&profile, one, 20_000, false)?;
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
    }
    Ok(())
}
