//! Driver against device over all ring formats and chain shapes: the device sees the posted chains, each returns once
//! under its identifier, and a sleeping side is woken.

use crate::pair::{Counts, Form, Pair, Step, steps};
use proptest::prelude::*;
use ring::device::{self, DeviceRing};
use ring::driver::{self, DriverRing};
use ring::mock::{Shape, scale};

fn shape(packed: bool, size: u16, bits: u8) -> Shape {
    Shape { packed, size, in_order: bits & 1 != 0, event_idx: bits & 2 != 0, indirect: bits & 4 != 0 }
}

/// With `EVENT_IDX` a sleeper gets one notification; a split ring has one spurious notification per 65536 entries,
/// including the first. A polling side leaves its last event position behind and causes no others.
fn validate(shape: Shape, counts: [Counts; 2]) {
    for Counts { sleeps, notifications, entries } in counts {
        let needless = if shape.packed { 0 } else { 1 + entries / 65_536 };
        if shape.event_idx {
            assert!(notifications <= sleeps + needless, "{notifications} notifications for {sleeps} sleeps");
        }
    }
}

fn run<D: DeviceRing, V: DriverRing>(shape: Shape, steps: &[Step]) {
    let mut pair = Pair::<D, V>::new(shape);
    pair.run(steps);
    validate(shape, pair.finish());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: scale(192, 3), ..ProptestConfig::default() })]

    #[test]
    fn split_chains_arrive_as_posted_and_come_back_once(steps in steps(), log in 0u32..8, bits in 0u8..8) {
        run::<device::Split, driver::Split>(shape(false, 1 << log, bits), &steps);
    }

    #[test]
    fn packed_chains_arrive_as_posted_and_come_back_once(steps in steps(), size in 1u16..200, bits in 0u8..8) {
        run::<device::Packed, driver::Packed>(shape(true, size, bits), &steps);
    }
}

/// Chains of every length in sequence, over many wraps.
fn lengths<D: DeviceRing, V: DriverRing>(shape: Shape) {
    let mut pair = Pair::<D, V>::new(shape);
    for n in (1..=shape.size).step_by(scale(1, 21)) {
        for form in [Form::Chain, Form::Indirect, Form::Plain] {
            pair.run(&[
                Step::Post(vec![(form, n, n / 2)]),
                Step::Take(64),
                Step::Use(64, false),
                Step::Collect(64),
            ]);
        }
    }
    pair.finish();
}

#[test]
fn chains_up_to_the_ring_size_are_processed() {
    for bits in (0..8).step_by(scale(1, 7)) {
        lengths::<device::Split, driver::Split>(shape(false, 64, bits));
        for size in [1, 2, 3, 61] {
            lengths::<device::Packed, driver::Packed>(shape(true, size, bits));
        }
    }
}

/// Sleeps on each lap over the 16-bit index range, woken each time, then the same without sleeping.
fn wraps<D: DeviceRing, V: DriverRing>(shape: Shape) {
    let mut pair = Pair::<D, V>::new(shape);
    let lap = |form: Form, sleepy: bool| {
        let sleeps = [Step::DeviceSleeps, Step::DriverSleeps];
        let work = [Step::Post(vec![(form, 3, 1); 8]), Step::Take(64), Step::Take(64), Step::Use(64, false)];
        let mut all = if sleepy { sleeps.to_vec() } else { vec![] };
        all.extend(work);
        all.push(Step::Collect(64));
        all
    };
    let laps = 200_000 / 8;
    for n in 0..laps {
        let form = [Form::Plain, Form::Chain, Form::Indirect][n % 3];
        pair.run(&lap(form, n < laps / 2));
    }
    validate(shape, pair.finish());
}

#[test]
#[cfg_attr(miri, ignore = "an index wraps after 65,536 entries, which take too long")]
fn no_side_sleeps_forever_across_index_wrap() {
    for bits in [0, 2, 6, 7] {
        wraps::<device::Split, driver::Split>(shape(false, 32, bits));
        wraps::<device::Packed, driver::Packed>(shape(true, 29, bits));
    }
}
