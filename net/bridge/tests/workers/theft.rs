//! A guest can take over another's address after that port has lost its peer, and not before.

use crate::guest::{Behavior, Guest};
use crate::rig::Rig;
use ring::driver::Split;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(30);

fn plug_in(rig: &Rig, name: &str, number: u8) -> Guest<Split> {
    // Sequence numbers of two guests with one address are not in order.
    let behavior = Behavior { careless: true, ..Behavior::default() };
    Guest::plug_in(&rig.socket(name), number, false).with(behavior)
}

fn refused(rig: &Rig) -> u64 {
    rig.port("thief").and_then(|port| port.drops.get("mac-move-refused").copied()).unwrap_or(0)
}

/// Steps `guest`, sending to `peers`, until `done`.
fn until(guest: &mut Guest<Split>, peers: &[u8], done: impl Fn() -> bool) {
    let end = Instant::now() + LIMIT;
    while !done() {
        assert!(Instant::now() < end, "nothing of what was awaited has happened");
        guest.step(peers);
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn address_moves_only_after_its_guest_disconnects() {
    let rig = Rig::new();
    for name in ["victim", "calm", "thief"] {
        rig.add(name);
    }
    let mut calm = plug_in(&rig, "calm", 1);
    let mut victim = plug_in(&rig, "victim", 0);
    let arrived = |name| rig.port(name).map_or(0, |port| port.tx_packets);
    until(&mut victim, &[1], || arrived("calm") > 100);
    let mut thief = plug_in(&rig, "thief", 0);
    until(&mut thief, &[1], || refused(&rig) > 100);
    let before = arrived("thief");
    let there = arrived("victim");
    until(&mut calm, &[0], || arrived("victim") > there + 100);
    assert_eq!(arrived("thief"), before, "not one frame was stolen");

    drop(victim);
    rig.wait("victim", "its peer to be gone", |port| port.state != "connected");
    let moved = || {
        let stations = rig.stations();
        let mut own = stations.iter().filter(|(mac, _)| mac.starts_with("02:00:00:00:00:"));
        own.all(|(_, port)| port == "thief")
    };
    until(&mut thief, &[1], moved);
    let there = arrived("thief");
    until(&mut calm, &[0], || arrived("thief") > there + 100);
}
