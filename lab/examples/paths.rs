//! linerate's path beside DPDK's in the simulator: predicted rates and what moves between the cores.

use lab::cache::experiment::Length;
use lab::cache::paths::{Path, RingKind, Scheme, simulate};
use lab::cache::simulated::{Profile, Stuck};

fn main() -> Result<(), Stuck> {
    let profile = Profile::study();
    println!("simulated, {}: per packet", profile.name);
    println!("ring   bytes scheme    Mpps  lines moved  RFO cycles  L2 misses (switch guest)");
    for (ring, frame) in
        [(RingKind::Split, 64), (RingKind::Split, 1514), (RingKind::Packed, 64), (RingKind::Packed, 1514)]
    {
        let mut rates = Vec::new();
        for scheme in [Scheme::Linerate, Scheme::Dpdk] {
            let outcome = simulate(&profile, &Path::new(scheme, ring, frame), Length::default())?;
            let (switch, guest) = (&outcome.switch, &outcome.guest);
            println!(
                "{ring:?} {frame:5} {scheme:8?} {:6.2} {:9.2} {:11.1} {:9.2} {:6.2} {:5.0} {:5.0} {:?}",
                outcome.mpps,
                outcome.lines_moved(),
                switch.cycles_per_packet(switch.counters.rfo_time),
                switch.per_packet(switch.counters.l2_misses),
                guest.per_packet(guest.counters.l2_misses),
                switch.cycles_per_packet(switch.counters.time),
                guest.cycles_per_packet(guest.counters.spin),
                switch.cycles_per_packet(switch.counters.spin),
            );
            rates.push(outcome.mpps);
        }
        println!("{ring:?} {frame:5} linerate over DPDK: {:.2}", rates[0] / rates[1]);
    }
    Ok(())
}
