//! linerate's path beside DPDK's in the simulator: predicted rates and what moves between the cores.

use lab::cache::experiment::Length;
use lab::cache::paths::{Change, Path, RingKind, Scheme, simulate};
use lab::cache::simulated::{Profile, Stuck};

fn main() -> Result<(), Stuck> {
    let profile = std::env::args().nth(2).map_or_else(Profile::study, |file| Profile::parse(&std::fs::read_to_string(file).expect("f")).expect("p"));
    let only = std::env::args().nth(1);
    let length = Length { packets: 20_000, warm_up: 40_000 };
    println!("simulated, {}: per packet", profile.name);
    for (ring, frame) in
        [(RingKind::Split, 64), (RingKind::Split, 1514), (RingKind::Packed, 64), (RingKind::Packed, 1514)]
    {
        if only.as_ref().is_some_and(|only| !format!("{ring:?}{frame}").contains(only)) { continue; }
        for scheme in [Scheme::Linerate, Scheme::Dpdk] {
            let mut cases: Vec<Option<Change>> = vec![None];
            if scheme == Scheme::Linerate && only.is_some() { cases.extend(Change::ALL.map(Some)); }
            for change in cases {
            let path = Path { change, ..Path::new(scheme, ring, frame) };
            let outcome = simulate(&profile, &path, length)?;
            let (switch, guest) = (&outcome.switch, &outcome.guest);
            println!(
                "{ring:?} {frame:5} {scheme:8?} {change:?} {:6.2} Mpps, moved {:.2}, empty {:.2} {:.2}, cycles {:.0} instr {:.0} {:.0} L2miss {:.2} {:.2} rfo {:.1} {:.1}",
                outcome.mpps,
                outcome.lines_moved(), outcome.switch_polls.empty_share(), outcome.guest_polls.empty_share(),
                switch.cycles_per_packet(switch.counters.time),
                switch.per_packet(switch.counters.instructions), guest.per_packet(guest.counters.instructions),
                switch.per_packet(switch.counters.l2_misses),
                guest.per_packet(guest.counters.l2_misses),
                switch.cycles_per_packet(switch.counters.rfo_time), guest.cycles_per_packet(guest.counters.rfo_time),
            );
            if change.is_none() { for part in &outcome.parts {
                println!("    {:14} {:22} switch {:.3} {:.3} {:.3}  guest {:.3} {:.3} {:.3}", part.way, part.part,
                part.switch.read, part.switch.owned, part.switch.raised, part.guest.read, part.guest.owned, part.guest.raised);
            }}
            }
        }
    }
    Ok(())
}
