//! Connections of a scenario: what both sides send, and when they close.

use super::{START, both};
use crate::app::{After, Plan, Side};
use crate::rng::Rng;
use stack::Time;
use std::time::Duration;

/// Most calls of [`stack::Stack::send`] of one side with chunks of full length.
const MAX_CALLS: u64 = 10_000;

pub(super) fn plans(rng: &mut Rng, is_slow: bool, is_hard: bool) -> Vec<Plan> {
    let many = rng.chance(150);
    let count = if many { rng.within(30..120) } else { rng.within(1..8) };
    let top = match (many || is_slow, rng.chance(50) && !is_hard) {
        (true, _) => 4096,
        (false, false) => 400_000,
        (false, true) => 4_000_000,
    };
    let mut at = START;
    (0..count)
        .map(|_| {
            at = at.after(rng.micros(0..if many { 20_000 } else { 500_000 }));
            plan(rng, at, top)
        })
        .collect()
}

fn plan(rng: &mut Rng, at: Time, top: u64) -> Plan {
    let kind = rng.pick(&[exchange, requests, half_close, slow_reader, aborted, idle, exchange]);
    let mut plan = plan_of(kind, rng, at, top);
    plan.is_simultaneous = rng.chance(80);
    plan
}

/// A plan of one kind, with the details that do not matter to it.
pub(crate) fn plan_of(kind: fn(&mut Rng, u64) -> [Side; 2], rng: &mut Rng, at: Time, top: u64) -> Plan {
    let opener = rng.within(0..2) as usize;
    let [mut first, mut second] = kind(rng, top);
    for side in [&mut first, &mut second] {
        // Each call takes a minimum of send space ([`stack::send_cost`]), so a long stream of single bytes would take
        // hours.
        side.chunk = rng.magnitude(1..4096).max(1 + side.total() / MAX_CALLS);
        if rng.chance(200) {
            side.reading = rng.micros(0..20_000);
        }
    }
    let sides = if opener == 0 { [first, second] } else { [second, first] };
    Plan { at, opener, is_simultaneous: false, sides }
}

pub(crate) fn side(sends: Vec<(After, u64)>, close: After) -> Side {
    Side {
        sends,
        chunk: 1000,
        close,
        linger: Duration::ZERO,
        abort: None,
        pause: None,
        reading: Duration::ZERO,
    }
}

/// Bytes of each side at once; each side closes when it has sent all, or after the peer.
pub(crate) fn exchange(rng: &mut Rng, top: u64) -> [Side; 2] {
    let both = both(rng, |rng| (rng.magnitude(1..top), rng.pick(&[After::Received(0), After::Finished])));
    let close = if both[0].1 == After::Finished { After::Received(0) } else { both[1].1 };
    // The side that opened sends first: a connection from a cookie exists when its first data arrives.
    let second = side(vec![(After::Received(1), both[1].0)], close);
    [side(vec![(After::Received(0), both[0].0)], both[0].1), second]
}

/// Requests of one side, each answered by the other.
pub(crate) fn requests(rng: &mut Rng, top: u64) -> [Side; 2] {
    let (mut asks, mut answers, mut asked, mut answered) = (Vec::new(), Vec::new(), 0, 0);
    for _ in 0..rng.within(1..12) {
        asked += rng.magnitude(1..top / 8);
        asks.push((After::Received(answered), asked));
        answered += rng.magnitude(1..top / 8);
        answers.push((After::Received(asked), answered));
    }
    [side(asks, After::Received(answered)), side(answers, After::Finished)]
}

/// One side sends, closes, and receives the answer after that.
pub(crate) fn half_close(rng: &mut Rng, top: u64) -> [Side; 2] {
    let (first, second) = (rng.magnitude(1..top), rng.magnitude(1..top));
    let answer = side(vec![(After::Finished, second)], After::Finished);
    [side(vec![(After::Received(0), first)], After::Received(0)), answer]
}

/// A reader that stops for a minute, so that its window closes.
fn slow_reader(rng: &mut Rng, top: u64) -> [Side; 2] {
    let [first, mut second] = exchange(rng, top);
    second.pause = Some((first.total() / 4 + 1, rng.micros(1_000_000..60_000_000)));
    [first, second]
}

/// A connection that is idle before it is closed.
fn idle(rng: &mut Rng, top: u64) -> [Side; 2] {
    let mut sides = exchange(rng, top);
    sides[usize::from(rng.chance(500))].linger = rng.micros(10_000_000..200_000_000);
    sides
}

/// A connection that one side aborts.
fn aborted(rng: &mut Rng, top: u64) -> [Side; 2] {
    let mut sides = exchange(rng, top);
    let total = sides[0].total() + sides[1].total();
    let which = usize::from(rng.chance(500));
    sides[which].abort = Some(rng.within(0..total + 1));
    sides
}
