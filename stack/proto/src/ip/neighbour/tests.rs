use super::*;
use core::time::Duration;
use proptest::prelude::*;
use std::prelude::v1::*;
use std::vec;

const MAC: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 7]);
const OTHER: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 8]);

fn key(last: u8) -> (InterfaceId, Address) {
    (InterfaceId(0), Address::v4([10, 0, 0, last]))
}

fn cache(neighbours: u32) -> Neighbours<u32> {
    let limits = Limits { neighbours, neighbour_queue: 2, ..Limits::default() };
    Neighbours::new(&limits, Keyed([0; 16]), Random::new(&[0; 16], "neighbours", 0), Time(0))
}

fn at(seconds: u64) -> Time {
    Time(0).after(Duration::from_secs(seconds))
}

fn news(mac: MacAddress) -> News {
    News { mac: Some(mac), solicited: false, overrides: true, may_create: false }
}

fn answer(mac: MacAddress) -> News {
    News { solicited: true, ..news(mac) }
}

fn request(mac: MacAddress) -> News {
    News { may_create: true, ..news(mac) }
}

/// Looks up without a known entry.
fn lookup(cache: &mut Neighbours<u32>, last: u8, now: Time) -> Lookup {
    cache.lookup(&mut { NeighbourId::NONE }, key(last), now)
}

fn probe(mac: Option<MacAddress>) -> Solicitation {
    Solicitation { interface: InterfaceId(0), target: key(1).1, mac }
}

#[test]
fn three_requests_a_second_apart_and_then_the_packets_are_dropped() {
    let (mut cache, mut id) = (cache(8), NeighbourId::NONE);
    assert_eq!(cache.lookup(&mut id, key(1), at(0)), Lookup::Ask(probe(None)));
    (0..3).for_each(|packet| cache.enqueue(id, packet));
    assert_eq!((cache.take_failed(), cache.expire(at(0))), (1, None));
    assert_eq!(cache.lookup(&mut id, key(1), at(0)), Lookup::Waiting);
    for second in [2, 4] {
        assert!(cache.deadline() <= at(second));
        assert_eq!((cache.expire(at(second)), cache.expire(at(second))), (Some(probe(None)), None));
    }
    assert_eq!((cache.expire(at(6)), cache.take_failed(), cache.len()), (None, 2, 0));
    assert_eq!(cache.deadline(), Time::NEVER);
    assert!(matches!(cache.lookup(&mut id, key(1), at(6)), Lookup::Ask(_)), "tried again");
}

#[test]
fn an_answer_releases_the_newest_packets() {
    let (mut cache, mut id) = (cache(8), NeighbourId::NONE);
    cache.lookup(&mut id, key(1), at(0));
    assert!(cache.is_awaited(key(1)) && !cache.is_awaited(key(2)));
    (0..3).for_each(|packet| cache.enqueue(id, packet));
    let no_address = News { mac: None, ..answer(MAC) };
    assert!(cache.learn(key(1), no_address, at(0)).is_none());
    assert_eq!(cache.learn(key(1), answer(MAC), at(0)), Some((MAC, vec![1, 2].into())));
    assert_eq!(cache.lookup(&mut id, key(1), at(0)), Lookup::Ready(MAC));
    assert!(!cache.is_awaited(key(1)) && cache.expire(at(1000)).is_none());
}

#[test]
fn a_used_neighbour_is_probed_after_its_time_and_removed_if_it_does_not_answer() {
    let mut cache = cache(8);
    lookup(&mut cache, 1, at(0));
    cache.learn(key(1), answer(MAC), at(0));
    assert_eq!(lookup(&mut cache, 1, at(14)), Lookup::Ready(MAC));
    assert_eq!((cache.expire(at(14)), cache.deadline()), (None, Time::NEVER));
    assert_eq!(lookup(&mut cache, 1, at(46)), Lookup::Ready(MAC));
    assert_eq!(cache.expire(at(50)), None);
    for second in [52, 54, 56] {
        assert_eq!((cache.expire(at(second)), cache.expire(at(second))), (Some(probe(Some(MAC))), None));
        assert_eq!(lookup(&mut cache, 1, at(second)), Lookup::Ready(MAC), "used while it is probed");
    }
    assert_eq!((cache.expire(at(58)), cache.len()), (None, 0));
}

/// RFC 4861 section 6.3.2: half to one and a half times 30 s, and not the same for all.
#[test]
fn reachable_times_are_varied() {
    let mut cache = cache(64);
    let times: Vec<_> = (1..=32)
        .map(|last| {
            lookup(&mut cache, last, at(0));
            cache.learn(key(last), answer(MAC), at(0));
            let index = cache.index[&key(last)];
            cache.slab.get(index).unwrap().fresh
        })
        .collect();
    assert!(times.iter().all(|time| (at(15)..=at(45)).contains(time)));
    assert!(times.iter().any(|time| *time < at(25)) && times.iter().any(|time| *time > at(35)));
}

#[test]
fn confirmations_keep_a_neighbour_reachable_without_probes() {
    let (mut cache, mut id) = (cache(8), NeighbourId::NONE);
    cache.lookup(&mut id, key(1), at(0));
    cache.confirm(id, at(0));
    assert_eq!(cache.lookup(&mut id, key(1), at(0)), Lookup::Waiting, "no address to confirm");
    cache.learn(key(1), answer(MAC), at(0));
    for second in (0..300).step_by(20) {
        assert_eq!((lookup(&mut cache, 1, at(second)), cache.expire(at(second))), (Lookup::Ready(MAC), None));
        cache.confirm(id, at(second));
    }
    lookup(&mut cache, 1, at(350));
    cache.confirm(id, at(351));
    assert_eq!(cache.expire(at(370)), None, "a delayed probe is not sent");
}

#[test]
fn announcements_change_entries_but_do_not_create_them() {
    let mut cache = cache(8);
    assert!(cache.learn(key(1), news(MAC), at(0)).is_none());
    assert_eq!(cache.len(), 0);
    lookup(&mut cache, 1, at(0));
    cache.learn(key(1), answer(MAC), at(0));
    let weak = News { overrides: false, ..answer(OTHER) };
    cache.learn(key(1), weak, at(0));
    assert_eq!(lookup(&mut cache, 1, at(0)), Lookup::Ready(MAC), "stale, but not replaced");
    cache.learn(key(1), news(OTHER), at(1));
    assert_eq!((lookup(&mut cache, 1, at(1)), cache.expire(at(2))), (Lookup::Ready(OTHER), None));
    assert_eq!(cache.expire(at(7)), Some(probe(Some(OTHER))), "the new address is verified");
}

#[test]
fn configured_neighbours_do_not_change() {
    let mut cache = cache(8);
    lookup(&mut cache, 1, at(0));
    assert!(cache.add_static(key(1), MAC, at(0)));
    cache.learn(key(1), answer(OTHER), at(0));
    assert_eq!((lookup(&mut cache, 1, at(9999)), cache.len()), (Lookup::Ready(MAC), 1));
    assert!((2..9).all(|last| cache.add_static(key(last), MAC, at(0))));
    assert!(!cache.add_static(key(9), MAC, at(0)));
    assert_eq!(lookup(&mut cache, 9, at(0)), Lookup::Full);
}

#[test]
fn peers_do_not_replace_neighbours_in_use() {
    let mut cache = cache(8);
    for last in 1..=6 {
        lookup(&mut cache, last, at(0));
        cache.learn(key(last), answer(MAC), at(0));
    }
    for last in 10..200 {
        cache.learn(key(last), request(OTHER), at(1));
        lookup(&mut cache, last.wrapping_add(100), at(1));
        assert!(cache.len() <= 8);
    }
    assert!((1..=6).all(|last| lookup(&mut cache, last, at(1)) == Lookup::Ready(MAC)));
    (10..20).for_each(|last| drop(cache.learn(key(last), request(OTHER), at(100))));
    let left = (1..=6).filter(|last| cache.index.contains_key(&key(*last))).count();
    assert_eq!((left, cache.len()), (4, 8), "unused ones are replaced up to half of the table");
}

#[test]
fn a_removed_entry_is_not_taken_for_a_later_one() {
    let (mut cache, mut id) = (cache(2), NeighbourId::NONE);
    cache.lookup(&mut id, key(1), at(0));
    let old = id;
    lookup(&mut cache, 2, at(0));
    cache.learn(key(2), answer(MAC), at(0));
    assert_eq!(cache.index.get(&key(1)), None);
    cache.enqueue(old, 5);
    assert_eq!(cache.take_failed(), 1);
    assert!(matches!(cache.lookup(&mut id, key(1), at(0)), Lookup::Ask(_)) && id != old);
}

proptest! {
    #[test]
    fn limits_hold_for_every_sequence(
        limit in 0_u32..6,
        script in prop::collection::vec((0_u8..7, 0_u8..9, 0_u64..8), 0..150),
    ) {
        let (mut cache, mut now, mut id) = (cache(limit), at(0), NeighbourId::NONE);
        for (action, last, seconds) in script {
            match action {
                0 => {
                    cache.lookup(&mut id, key(last), now);
                }
                1 => drop(cache.learn(key(last), answer(MAC), now)),
                2 => drop(cache.learn(key(last), request(OTHER), now)),
                3 => drop(cache.learn(key(last), news(OTHER), now)),
                4 => cache.enqueue(id, 0),
                5 => cache.confirm(id, now),
                _ => {
                    now = now.after(Duration::from_secs(seconds));
                    while cache.expire(now).is_some() {}
                }
            }
            if action == 0 && last == 8 {
                cache.add_static(key(last), MAC, now);
            }
            let statics = cache.slab.iter().filter(|(_, entry)| entry.state == State::Static).count();
            prop_assert!(cache.len() <= limit as usize);
            prop_assert_eq!(cache.index.len(), cache.len());
            prop_assert_eq!(cache.proved.len() + cache.unproved.len() + statics, cache.len());
            prop_assert!(cache.slab.iter().all(|(_, entry)| entry.queue.len() <= 2));
            prop_assert!(cache.slab.iter().all(|(at, entry)| cache.wheel.scheduled(at) <= entry.due.after_micros(200)));
        }
    }
}
