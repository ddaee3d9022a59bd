//! The study's orders, in the simulator. What it cannot tell apart is not asserted, and said in decision 0053.

use super::{Direction, Results, SIZES, plot, simulate, simulate_all};
use crate::cache::copystudy::{Setting, SimulationError};
use crate::cache::simulated::Profile;

const BOTH: [Direction; 2] = [Direction::HostToGuest, Direction::GuestToHost];

/// What both copies of a packet cost.
fn cost(results: &Results, variant: &str, size: u64) -> f64 {
    BOTH.map(|direction| results.cycles(variant, direction, size).expect("a row")).into_iter().sum()
}

#[test]
fn the_studys_orders_are_those_of_the_simulator() {
    let results = simulate_all(&Profile::two_sockets()).expect("it runs");
    for size in SIZES {
        let cost = |variant| cost(&results, variant, size);
        let from_guest = |variant| results.cycles(variant, Direction::GuestToHost, size).expect("a row");
        assert!(cost("base") > cost("read-only"), "edited against read-only, {size}");
        assert!(from_guest("base") > 1.2 * from_guest("read-only"), "edited, out of the guest, {size}");
        // To the guest it is stores that miss, and nobody waits for those; there the two cannot be told apart.
        assert!(from_guest("no-prefetch") > from_guest("base"), "no prefetch against prefetch, {size}");
        assert!(cost("other-node") > 1.5 * cost("base"), "another node, {size}");
        assert!(cost("warm-sse") > cost("warm"), "128 against 256 bits, {size}");
        assert!(cost("warm") >= cost("warm-avx512"), "256 against 512 bits, {size}");
        assert!(cost("warm-unaligned") > cost("warm"), "dst+1 against a line's beginning, {size}");
        assert!(cost("warm") <= cost("warm-libc"), "inlined against the C library, {size}");
        // Where lines come from somewhere else, that is what is waited for.
        assert!(cost("base") > cost("warm"));
        assert!(cost("unaligned") > 0.98 * cost("base") && cost("sse") > 0.98 * cost("base"), "{size}");
    }
}

#[test]
fn results_can_be_stored_drawn_and_read_back() {
    let rows = super::VARIANTS.iter().take(10).enumerate().map(|(n, variant)| super::Row {
        variant: variant.name.to_owned(),
        direction: Direction::HostToGuest,
        size: 64 + n as u64,
        cycles: 10.0 + n as f64,
    });
    let results = Results {
        memory: crate::cache::results::Kind::Simulated,
        processor: "one <of> mine".to_owned(),
        constants: Vec::new(),
        rows: rows.collect(),
        notes: Vec::new(),
    };
    let text = serde_json::to_string(&results).expect("it can be written");
    assert_eq!(serde_json::from_str::<Results>(&text).expect("and read"), results);
    let picture = plot(&results, Direction::HostToGuest);
    assert_eq!(picture.matches("<polyline").count(), 10);
    assert!(picture.contains("simulated, one &lt;of> mine"));
    assert!(results.table(Direction::HostToGuest).lines().count() == 11);
}

#[test]
fn another_node_needs_a_profile_that_has_one() {
    let far = Setting { far: true, ..Setting::default() };
    assert!(matches!(simulate(&Profile::study(), &far), Err(SimulationError::OneSocket(_))));
}
