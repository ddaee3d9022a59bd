//! Closed forms of the micro-benchmarks, computed from the profile's constants alone. Times are virtual, so they are
//! compared exactly.

use std::cell::RefCell;
use std::rc::Rc;

use crate::Prefetchers;
use crate::memory::{LINE, Memory, Width};
use crate::micro::{
    Side, chain, consume, increments, independent_misses, ping_pong, pointer_chase, produce, stores, stream,
    stream_past,
};
use crate::run::Body;
use crate::{Counters, Machine, Profile, Simulated, TICKS, Time, run};

const NONE: Prefetchers = Prefetchers { stream: false, adjacent: false };
const ARENA: u64 = 1 << 24;

fn machine(cores: usize) -> Machine {
    Machine::new(&Profile::study(), cores, ARENA, NONE)
}

/// Two cores of a processor on which a changed line that is read moves to the reader (`moves`) or is shared.
fn two_cores(moves: bool) -> Machine {
    let mut profile = Profile::study();
    profile.migratory.value = f64::from(u8::from(moves));
    Machine::new(&profile, 2, ARENA, NONE)
}

/// The profile's constants in ticks, by name.
struct Ticks(Profile);

impl Ticks {
    fn study() -> Ticks {
        Ticks(Profile::study())
    }

    fn of(&self, name: &str) -> Time {
        let constants = self.0.constants();
        let constant = constants.iter().find(|(other, _)| *other == name).expect("a constant's name").1;
        if name.starts_with("transfer.") { self.0.nanoseconds(constant) } else { Profile::cycles(constant) }
    }

    fn issue(&self) -> Time {
        TICKS / self.0.core.width.value as Time
    }

    fn count(&self, name: &str) -> u64 {
        self.of(name) / TICKS
    }
}

type Times = Rc<RefCell<Vec<Counters>>>;

/// Returns the time of `act` on one core, excluding `before`.
fn time(
    machine: Machine,
    before: fn(&mut Simulated<'_>),
    act: impl Fn(&mut Simulated<'_>) + 'static,
) -> Time {
    let times = Times::default();
    let result = Rc::clone(&times);
    let body: Body = Box::new(move |memory| {
        before(memory);
        memory.fence();
        memory.work(100_000);
        let begin = memory.counters();
        act(memory);
        memory.fence();
        result.borrow_mut().push(memory.counters().since(&begin));
    });
    run(machine, vec![body]).expect("a single core does not wait");
    let counted = times.take();
    counted[0].time
}

#[test]
fn a_chase_takes_the_latency_of_where_its_lines_are() {
    let ticks = Ticks::study();
    let chase = |lines: u64, before: fn(&mut Simulated<'_>)| {
        let mut machine = machine(1);
        for (at, next) in chain(0, lines, 3) {
            machine.poke(at, Width::Eight, next);
        }
        time(machine, before, move |memory| {
            pointer_chase(memory, 0, lines);
        })
    };
    let once = |before: fn(&mut Simulated<'_>)| before;
    let level = |name: &str, lines: u64| ticks.issue() + lines * ticks.of(name);
    assert_eq!(chase(256, once(|m| m.read(0, 256 * LINE))), level("l1.latency", 256));
    let all = once(|memory| {
        (0..2).for_each(|_| {
            pointer_chase(memory, 0, 4096);
        });
    });
    assert_eq!(chase(4096, all), level("l2.latency", 4096));
    let all = once(|memory| {
        (0..2).for_each(|_| {
            pointer_chase(memory, 0, 32768);
        });
    });
    assert_eq!(chase(32768, all), level("llc.latency", 32768));
    assert_eq!(chase(8192, once(|_| {})), level("transfer.dram", 8192));
}

#[test]
fn independent_misses_share_a_latency_as_far_as_the_fill_buffers_go() {
    let ticks = Ticks::study();
    let (issue, buffers) = (ticks.issue(), ticks.count("core.fill_buffers"));
    let misses = |lines: u64| {
        time(machine(1), |_| {}, move |memory| independent_misses(memory, |n| n * LINE, 0, lines, 1))
    };
    let (dram, interval) = (ticks.of("transfer.dram"), ticks.of("transfer.dram_interval"));
    for lines in 1..=buffers {
        assert_eq!(misses(lines), dram + issue.max((lines - 1) * interval), "{lines} misses");
    }
    for lines in buffers + 1..=2 * buffers {
        assert_eq!(misses(lines), 2 * dram + issue.max((lines - buffers - 1) * interval), "{lines} misses");
    }
}

#[test]
fn stores_take_a_turn_in_the_first_level_more_in_the_second_and_a_share_of_a_miss_beyond() {
    let ticks = Ticks::study();
    let more = |before: fn(&mut Simulated<'_>), count: u64, start: u64| {
        let took =
            |count| time(machine(1), before, move |memory| stores(memory, |n| start + n * LINE, count));
        took(2 * count) - took(count)
    };
    let first = more(|memory| memory.write(0, 512 * LINE), 200, 0);
    assert_eq!(first, 200 * ticks.of("core.store"));
    let second = more(|memory| memory.write(0, 4096 * LINE), 1000, 0);
    assert_eq!(second, 1000 * ticks.of("core.store_l2"));
    let buffers = ticks.count("core.fill_buffers");
    let beyond = more(|_| {}, 100 * buffers, 0);
    assert_eq!(beyond, 100 * ticks.of("transfer.dram"), "the buffers together take one latency");
}

#[test]
fn a_stream_past_the_caches_has_its_buffers_drained() {
    let ticks = Ticks::study();
    let buffers = ticks.count("core.fill_buffers");
    let past =
        |lines| time(machine(1), |memory| memory.read(0, LINE), move |memory| stream_past(memory, 0, lines));
    assert_eq!(past(40 * buffers) - past(20 * buffers), 20 * ticks.of("transfer.drain"));
}

#[test]
fn a_stream_without_prefetchers_takes_its_misses_a_few_at_a_time() {
    let ticks = Ticks::study();
    let buffers = ticks.count("core.fill_buffers");
    let took = |lines| time(machine(1), |_| {}, move |memory| stream(memory, 0, lines));
    assert_eq!(took(40 * buffers) - took(20 * buffers), 20 * ticks.of("transfer.dram"));
}

/// Returns the counters of two cores.
fn two(acts: [fn(&mut Simulated<'_>, u64); 2], rounds: u64) -> [Counters; 2] {
    two_on(machine(2), acts, rounds)
}

fn two_on(machine: Machine, acts: [fn(&mut Simulated<'_>, u64); 2], rounds: u64) -> [Counters; 2] {
    let times = Times::default();
    let body = |act: fn(&mut Simulated<'_>, u64)| -> Body {
        let times = Rc::clone(&times);
        Box::new(move |memory| {
            act(memory, rounds);
            memory.fence();
            times.borrow_mut().push(memory.counters());
        })
    };
    run(machine, acts.map(body).into()).expect("each waits for the other");
    let times = times.borrow();
    [times[0], times[1]]
}

#[test]
fn a_ping_pong_takes_transfers_and_holds_in_each_direction() {
    let ticks = Ticks::study();
    let sides: [fn(&mut Simulated<'_>, u64); 2] = [
        |memory, rounds| ping_pong(memory, 0, rounds, Side::First),
        |memory, rounds| ping_pong(memory, 0, rounds, Side::Second),
    ];
    let more = |moves| {
        let longest = |rounds| two_on(two_cores(moves), sides, rounds).map(|counters| counters.time);
        longest(300).into_iter().max().expect("two") - longest(200).into_iter().max().expect("two")
    };
    let (transfer, hold) = (ticks.of("transfer.core_modified"), ticks.of("transfer.hold"));
    // A side requests ownership, which the other side shares since its poll; the line stays for a hold; then the bytes
    // move, and the waiting core takes a misprediction, loads once more and stores when that load has retired.
    let shared = ticks.of("transfer.upgrade") + hold + transfer;
    assert_eq!(
        more(false),
        100 * 2 * (shared + ticks.of("core.mispredict") + ticks.issue() + ticks.of("l1.latency"))
    );
    // A polling side gets the line exclusively and may write at once; the other side gets it back after that.
    assert_eq!(more(true), 100 * 2 * (transfer + hold));
}

#[test]
fn places_on_two_lines_cost_a_store_each_and_on_one_line_transfers() {
    let ticks = Ticks::study();
    let both: [fn(&mut Simulated<'_>, u64); 2] =
        [|memory, rounds| increments(memory, 0, rounds), |memory, rounds| increments(memory, 8, rounds)];
    let split: [fn(&mut Simulated<'_>, u64); 2] =
        [|memory, rounds| increments(memory, 0, rounds), |memory, rounds| increments(memory, 64, rounds)];
    let more = |acts| two(acts, 2000)[0].time - two(acts, 1000)[0].time;
    let alone = ticks.issue() + ticks.of("l1.latency");
    assert_eq!(more(split), 1000 * alone, "a load, and a store that waits for it");
    let [first, second] = two(both, 2000);
    assert!(more(both) > 10 * 1000 * alone);
    assert!(two(split, 2000).iter().all(|counters| counters.lost_lines == 0));
    // A core that loses the line gets it back after a transfer to the other core and one from there, at most two holds
    // and the load before each store later.
    let transfers = ticks.of("transfer.core_modified") + ticks.of("transfer.hold");
    let most = 2 * (transfers + ticks.of("l1.latency"));
    for counters in [first, second] {
        let lap = counters.time / counters.lost_lines;
        assert!((transfers..=most).contains(&lap), "{lap}: from {transfers} to {most}");
    }
}

#[test]
fn a_dependent_load_waits_for_its_producer_and_others_for_fill_buffers() {
    let ticks = Ticks::study();
    let acts: [fn(&mut Simulated<'_>, u64); 2] = [
        |memory, items| produce(memory, 0, items, 3999),
        |memory, items| {
            consume(memory, 0, items);
        },
    ];
    let [slow, base] = [two(acts, 200), two(acts, 100)];
    println!(
        "consumer {} ticks an item {}",
        (slow[1].time - base[1].time) as f64 / 100.0,
        4000 * ticks.issue()
    );
    let acts: [fn(&mut Simulated<'_>, u64); 2] = [
        |memory, items| produce(memory, 0, items, 0),
        |memory, items| {
            memory.work(1_000_000);
            consume(memory, 0, items);
        },
    ];
    let [slow, base] = [two(acts, 400), two(acts, 200)];
    let fetched = 200 / ticks.count("core.fill_buffers") * ticks.of("transfer.core_modified");
    assert_eq!(slow[1].time - base[1].time, fetched, "what is there is fetched a few lines at a time");
}
