//! Line transfers of a burst in closed form, and invariants of every path.

use super::*;

fn outcome(path: &Path, packets: u64) -> Outcome {
    simulate(&Profile::study(), path, Length { packets, warm_up: packets }).expect("frames circulate")
}

fn path(scheme: Scheme, ring: RingKind) -> Path {
    Path { entries: 256, frames: 64, ..Path::new(scheme, ring, 64) }
}

fn moved(outcome: &Outcome, way: &str, part: &str) -> [Taken; 2] {
    let found = outcome.parts.iter().find(|found| found.way == way && found.part == part);
    found.map_or_else(Default::default, |found| [found.switch, found.guest])
}

fn near(what: &str, found: f64, wanted: f64, within: f64) {
    assert!((found - wanted).abs() <= within, "{what}: {found} and not {wanted}");
}

#[test]
fn every_frame_still_circulates() {
    for (scheme, ring) in [(Scheme::Linerate, RingKind::Split), (Scheme::Dpdk, RingKind::Packed)] {
        let outcome = outcome(&path(scheme, ring), 1000);
        assert!(outcome.switch.packets >= 1000, "{outcome:?}");
    }
}

#[test]
fn each_frames_line_goes_to_the_switch_and_back_to_the_guest_once() {
    for scheme in [Scheme::Linerate, Scheme::Dpdk] {
        let outcome = outcome(&path(scheme, RingKind::Split), 4000);
        let [switch, guest] = moved(&outcome, "frame", "first line");
        // The guest writes both addresses, so the switch must read them; the guest takes ownership of lines that the
        // switch wrote.
        near("read by the switch", switch.read, 1.0, 0.03);
        near("owned by the guest", guest.owned + guest.raised, 1.0, 0.05);
    }
}

#[test]
fn indices_of_split_rings_move_once_a_burst_and_descriptors_once_for_four() {
    let outcome = outcome(&path(Scheme::Dpdk, RingKind::Split), 4000);
    let bursts = 1.0 / BURST as f64;
    for way in ["to the switch", "to the guest"] {
        let [switch, guest] = moved(&outcome, way, "used index");
        near("used index written", switch.owned + switch.raised, bursts, bursts / 4.0);
        near("used index read", guest.read, bursts, bursts / 4.0);
    }
    let [switch, _] = moved(&outcome, "to the switch", "available index");
    near("available index read", switch.read, bursts, bursts / 4.0);
    let [switch, _] = moved(&outcome, "to the switch", "descriptors");
    near("descriptors read", switch.read, 0.25, 0.02);
}

#[test]
fn a_driver_that_uses_a_ring_in_order_rewrites_no_available_entry_and_linerate_no_used_element() {
    let outcome = outcome(&path(Scheme::Linerate, RingKind::Split), 4000);
    for way in ["to the switch", "to the guest"] {
        let [_, guest] = moved(&outcome, way, "available entries");
        near("available entries written", guest.owned + guest.raised, 0.0, 0.001);
    }
    let [switch, _] = moved(&outcome, "to the guest", "used elements");
    near("used elements written", switch.owned + switch.raised, 0.0, 0.001);
}

#[test]
fn each_thread_executes_the_counted_instructions() {
    let path = path(Scheme::Dpdk, RingKind::Split);
    let outcome = outcome(&path, 4000);
    let counts = Counts::of(&path);
    // The switch's empty polls are subtracted; the guest's do not count per packet.
    let polls = outcome.switch_polls.empty as f64 * counts.empty_poll as f64 / outcome.switch.packets as f64;
    let switch = outcome.switch.per_packet(outcome.switch.counters.instructions) - polls;
    near("instructions of the switch", switch, counts.switch, counts.switch * 0.03);
}

#[test]
fn moves_per_line_add_up_to_the_reported_sum() {
    let outcome = outcome(&path(Scheme::Linerate, RingKind::Packed), 2000);
    let sum: f64 = outcome.parts.iter().map(|part| part.switch.sum() + part.guest.sum()).sum();
    near("lines", outcome.lines_moved(), sum, 1e-9);
    assert!(
        outcome.parts.iter().all(|part| part.way != "switch"),
        "its own memory moves nowhere: {:?}",
        outcome.parts
    );
}
