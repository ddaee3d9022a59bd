//! Tests of the study's orders in the simulator. Orders that the simulator does not show are asserted as such, with the
//! reason.

use std::num::NonZeroUsize;
use std::sync::OnceLock;

use super::{
    BASE_AGAIN, Direction, Finding, OrderStatus, Results, SIZES, Selection, Setting, SimulationError,
    VARIANTS, orders, simulate, simulate_all,
};
use measure::store::{encode, parse};
use sim::Profile;

use Direction::{Both, GuestToHost, HostToGuest};

/// The whole study in the simulator, run once for all tests.
fn study() -> &'static Results {
    static STUDY: OnceLock<Results> = OnceLock::new();
    STUDY.get_or_init(|| selected(&Profile::two_sockets(), &Selection::default()))
}

fn selected(profile: &Profile, selection: &Selection) -> Results {
    let two = NonZeroUsize::MIN.saturating_add(1);
    simulate_all(profile, selection, two, &mut |_: usize, _: usize, _: &str| ()).expect("it runs")
}

fn finding(claim: &str, direction: Direction) -> Finding {
    let all = orders(study());
    all.into_iter().find(|found| found.claim == claim && found.direction == direction).expect("it is listed")
}

fn holds(claim: &str, direction: Direction, at: &[u64]) {
    let found = finding(claim, direction);
    let held = found.at(OrderStatus::Holds);
    assert!(at.iter().all(|size| held.contains(size)), "{claim}, {}: {}", direction.name(), found.words());
}

/// Asserts a higher cost without the noise band, for differences near it.
fn more_than_base(variant: &str, direction: Direction, at: &[u64]) {
    let cost = |name, size| study().cost(name, direction, size).expect("a row");
    for size in at {
        assert!(cost(variant, *size) > cost("base", *size), "{variant}, {}, {size}", direction.name());
    }
}

#[test]
#[ignore = "slow; run by `cargo xtask test --all`"]
fn an_edited_packet_costs_more_than_one_that_is_only_read() {
    holds("edited > read-only", Both, &SIZES);
    holds("edited > read-only", GuestToHost, &SIZES);
}

/// In the host-to-guest copy both are stores that miss: an edited line comes from the guest's core, a read-only one is
/// taken from it. The two latencies (50.3 and 45 ns) differ by less than stores hide.
#[test]
#[ignore = "slow; run by `cargo xtask test --all`"]
fn into_the_guest_edited_and_read_only_differ_by_a_few_per_cent_because_stores_do_not_stall() {
    let found = finding("edited > read-only", HostToGuest);
    let (low, high) = found.range().expect("it was run");
    assert!(low > 0.95 && high < 1.05, "{low} {high}");
}

/// At 64 bytes the only line is loaded right after its prefetch, which then costs only its own instruction; beyond 512
/// bytes the first line is one of many over both copies.
#[test]
#[ignore = "slow; run by `cargo xtask test --all`"]
fn no_prefetch_costs_more_where_the_host_reads_more_than_one_of_the_guests_lines() {
    holds("no prefetch > prefetch", GuestToHost, &SIZES[1..6]);
    holds("no prefetch > prefetch", Both, &SIZES[1..4]);
    more_than_base("no-prefetch", GuestToHost, &SIZES[1..]);
}

/// The store buffer requests lines ahead, so a prefetch of the first line gains no more than noise; beyond 512 bytes
/// the first line is one of many in either copy.
#[test]
#[ignore = "slow; run by `cargo xtask test --all`"]
fn into_the_guest_a_prefetch_changes_little_because_stores_ask_ahead() {
    let (low, high) = finding("no prefetch > prefetch", HostToGuest).range().expect("it was run");
    assert!(low > 0.95 && high < 1.15, "{low} {high}");
    assert_eq!(finding("no prefetch > prefetch", Both).at(OrderStatus::DoesNot), [64]);
}

#[test]
#[ignore = "slow; run by `cargo xtask test --all`"]
fn another_node_costs_much_more_in_each_direction_at_each_size() {
    for direction in Direction::ALL {
        holds("other node >> same node", direction, &SIZES);
    }
}

#[test]
#[ignore = "slow; run by `cargo xtask test --all`"]
fn half_the_width_costs_more_warm_at_each_size_and_cold_for_short_packets() {
    for direction in Direction::ALL {
        holds("128 > 256 bit, warm", direction, &SIZES);
        holds("128 > 256 bit", direction, &SIZES[..3]);
    }
}

/// Cold long packets wait for lines, not for instructions.
#[test]
#[ignore = "slow; run by `cargo xtask test --all`"]
fn cold_long_packets_cost_the_same_by_either_width_because_lines_are_waited_for() {
    for size in &SIZES[4..] {
        let cost = |variant| study().cost(variant, Both, *size).expect("a row");
        assert!((0.97..1.03).contains(&(cost("sse") / cost("base"))), "{size}");
    }
}

#[test]
#[ignore = "slow; run by `cargo xtask test --all`"]
fn a_byte_of_offset_costs_more_warm_at_each_size_and_cold_wherever_it_adds_a_line() {
    for direction in Direction::ALL {
        holds("unaligned > aligned, warm", direction, &SIZES);
        holds("unaligned > aligned", direction, &SIZES[..5]);
        // A packet of 1518 bytes leaves room in its last line for one more byte.
        more_than_base("unaligned", direction, &SIZES[..6]);
    }
}

#[test]
#[ignore = "slow; run by `cargo xtask test --all`"]
fn the_inlined_copy_costs_no_more_than_the_c_librarys_warm() {
    for direction in Direction::ALL {
        holds("rte <= libc, warm", direction, &SIZES);
    }
}

#[test]
#[ignore = "slow; run by `cargo xtask test --all`"]
fn wider_warm_copies_cost_no_more_and_cold_ones_cost_more_than_warm_ones() {
    for size in SIZES {
        let cost = |variant| study().cost(variant, Both, size).expect("a row");
        assert!(cost("warm") >= cost("warm-avx512"), "{size}");
        assert!(cost("base") > cost("warm"), "{size}");
    }
}

#[test]
#[ignore = "slow; run by `cargo xtask test --all`"]
fn results_do_not_depend_on_the_number_of_concurrent_runs() {
    let selection = Selection::of(&["sse"], &[64, 256]).expect("it is listed");
    let (profile, mut nothing) = (Profile::two_sockets(), |_: usize, _: usize, _: &str| ());
    let one = simulate_all(&profile, &selection, NonZeroUsize::MIN, &mut nothing).expect("it runs");
    assert_eq!(one, selected(&profile, &selection));
    assert!(one.rows.iter().all(|row| study().rows.contains(row)), "nor on what else runs");
}

#[test]
#[ignore = "slow; run by `cargo xtask test --all`"]
fn results_are_stored_and_read_back_and_impossible_costs_are_refused() {
    let results = study();
    assert_eq!(&parse::<Results>(&encode(results).expect("it is encoded")).expect("it is valid"), results);
    let mut wrong = results.clone();
    wrong.rows[3].cost = -1.0;
    let error = parse::<Results>(&encode(&wrong).expect("it is encoded")).expect_err("it is invalid");
    assert!(
        error.to_string().starts_with("line 5 is invalid")
            && error.to_string().contains("a cost or ratio of -1")
    );
}

#[test]
fn a_selection_includes_its_references_and_controls() {
    let names = |asked: &[&str]| {
        let selection = Selection::of(asked, &[256, 64, 256]).expect("they are listed");
        assert_eq!(selection.sizes, [64, 256]);
        selection.variants.iter().map(|variant| variant.name).collect::<Vec<_>>()
    };
    assert_eq!(names(&["sse"]), ["base", BASE_AGAIN, "sse"]);
    assert_eq!(names(&["warm-libc", "base"]), ["base", BASE_AGAIN, "warm", "warm-again", "warm-libc"]);
    assert_eq!(names(&[]).len(), VARIANTS.len());
    let error = Selection::of(&["warm-lib"], &[]).expect_err("no such variant");
    assert_eq!(error.nearest, "warm-libc");
}

#[test]
#[ignore = "slow; run by `cargo xtask test --all`"]
fn another_node_needs_a_profile_with_two_and_is_skipped_by_name_otherwise() {
    let far = Setting { far: true, ..Setting::default() };
    assert!(matches!(simulate(&Profile::study(), &far), Err(SimulationError::OneSocket(_))));
    let selection = Selection::of(&["other-node"], &[64]).expect("it is listed");
    let results = selected(&Profile::study(), &selection);
    assert_eq!(results.variants(), ["base", BASE_AGAIN]);
    assert!(results.notes.iter().any(|note| note.starts_with("other-node is left out")));
    let missing = orders(&results).into_iter().find(|found| found.claim == "other node >> same node");
    assert_eq!(missing.expect("it is told").words(), "not run");
}
