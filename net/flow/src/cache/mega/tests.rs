use super::*;
use crate::field::Field;
use proptest::prelude::*;
use std::collections::HashMap;

const SECRET: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03];

fn key(port: u128, source: u128, destination: u128) -> Key {
    let mut key = Key::ZERO;
    key.set(Field::InPort, port);
    key.set(Field::Ipv4Src, source);
    key.set(Field::Ipv4Dst, destination);
    key
}

fn mask(fields: &[Field]) -> Key {
    let mut mask = Key::ZERO;
    for field in fields {
        mask.set(*field, field.full());
    }
    mask
}

fn add(cache: &mut MegaflowCache<u32>, key: &Key, mask: &Key, value: u32) -> (MegaflowId, Vec<u32>) {
    let mut removed = vec![];
    let id = cache.insert((key, mask), value, 0, Now(0), &mut |megaflow| removed.push(megaflow.value));
    (id, removed)
}

#[test]
fn bits_outside_of_the_mask_are_not_compared() {
    let mut cache = MegaflowCache::new(10, SECRET);
    let by_source = mask(&[Field::InPort, Field::Ipv4Src]);
    let (id, _) = add(&mut cache, &key(1, 2, 3), &by_source, 7);
    assert_eq!(cache.find(&key(1, 2, 99)), Some(id));
    assert_eq!(cache.find(&key(1, 3, 3)), None);
    assert_eq!(cache.find_exactly((&key(1, 2, 4), &by_source)), Some(id));
    assert_eq!(cache.find_exactly((&key(1, 2, 4), &mask(&[Field::InPort]))), None);
    assert_eq!(cache.remove(id).map(|megaflow| megaflow.value), Some(7));
    assert_eq!((cache.find(&key(1, 2, 3)), cache.len(), cache.masks()), (None, 0, 0));
    assert!(cache.get(id).is_none() && cache.remove(id).is_none());
}

#[test]
fn an_identifier_does_not_name_a_later_megaflow_of_its_slot() {
    let mut cache = MegaflowCache::new(10, SECRET);
    let all = mask(&[Field::Ipv4Src]);
    let (first, _) = add(&mut cache, &key(0, 1, 0), &all, 1);
    cache.remove(first);
    let (second, _) = add(&mut cache, &key(0, 2, 0), &all, 2);
    assert_eq!(first.slot, second.slot);
    assert!(cache.get(first).is_none() && cache.get(second).is_some());
}

#[test]
fn a_full_cache_replaces_what_was_not_used() {
    let mut cache = MegaflowCache::new(3, SECRET);
    let all = mask(&[Field::Ipv4Src]);
    let ids: Vec<_> = (0..3).map(|n| add(&mut cache, &key(0, n, 0), &all, n as u32).0).collect();
    // The first insertion takes the marks of all away, and removes the one visited first again.
    assert_eq!(add(&mut cache, &key(0, 10, 0), &all, 10).1, [0]);
    cache.get(ids[1]).unwrap().count(1, 60, Now(5));
    assert_eq!(add(&mut cache, &key(0, 11, 0), &all, 11).1, [2]);
    assert_eq!(cache.len(), 3);
}

#[test]
fn masks_are_limited_and_a_rare_one_is_still_found_by_its_mask() {
    let mut cache = MegaflowCache::new(10_000, SECRET);
    let source = |bits: u32| {
        let mut mask = mask(&[Field::InPort]);
        mask.set(Field::Ipv6Src, u128::from(bits));
        mask
    };
    for bits in 1..=MAX_SUBTABLES as u32 {
        assert!(add(&mut cache, &key(1, 2, 3), &source(bits), bits).1.is_empty());
    }
    let last = source(MAX_SUBTABLES as u32);
    assert!(cache.find_exactly((&key(1, 2, 3), &last)).is_some());
    assert_eq!(add(&mut cache, &key(1, 2, 3), &source(0), 0).1, [MAX_SUBTABLES as u32]);
    assert_eq!(cache.masks(), MAX_SUBTABLES);
}

#[test]
fn hostile_masks_cost_a_bounded_number_of_probes_and_are_evicted() {
    let mut cache = MegaflowCache::new(10_000, SECRET);
    let usual = mask(&[Field::InPort]);
    add(&mut cache, &key(1, 0, 0), &usual, 0);
    for bits in 1..=4 * MAX_SUBTABLES as u32 {
        let mut hostile = mask(&[Field::InPort, Field::Ipv4Src]);
        hostile.set(Field::Ipv4Dst, u128::from(bits));
        add(&mut cache, &key(2, 9, 0), &hostile, bits);
        cache.find(&key(1, 0, 0)).expect("the mask with hits stays");
        cache.take_effort();
        assert_eq!(cache.find(&key(3, 0, 0)), None);
        let probed = cache.masks().min(MAX_PROBES) as u64;
        assert_eq!(cache.take_effort().probes, probed);
        if bits % 100 == 0 {
            cache.rank();
        }
    }
    assert_eq!((cache.masks(), cache.len()), (MAX_SUBTABLES, MAX_SUBTABLES));
    cache.find(&key(1, 0, 0)).unwrap();
    assert_eq!(cache.take_effort().probes, 1, "it is the first");
}

#[test]
fn a_small_subtable_of_few_hits_is_replaced() {
    let mut cache = MegaflowCache::new(100_000, SECRET);
    let masked = |bits: u128| {
        let mut mask = mask(&[Field::Ipv4Src]);
        mask.set(Field::Ipv4Dst, bits);
        mask
    };
    for bits in 0..MAX_SUBTABLES as u128 {
        let flows = if bits == 400 { 1 } else { 3 };
        for source in 0..flows {
            add(&mut cache, &key(0, source, 0), &masked(bits), bits as u32);
        }
    }
    assert_eq!(add(&mut cache, &key(0, 0, 0), &masked(1000), 0).1, [400]);
    assert_eq!(cache.take_effort().evicted_masks, 1);
}

#[test]
fn eviction_visits_a_bounded_number_of_slots() {
    let mut cache = MegaflowCache::new(1000, SECRET);
    let all = mask(&[Field::Ipv4Src]);
    for n in 0..1000 {
        add(&mut cache, &key(0, n, 0), &all, n as u32);
    }
    let last = MAX_EVICTION_STEPS as u32 - 1;
    assert_eq!(add(&mut cache, &key(0, 1000, 0), &all, 1000).1, [last], "all were used recently");
    assert_eq!(add(&mut cache, &key(0, 1001, 0), &all, 1001).1, [2 * last + 1]);
    assert_eq!(cache.take_effort().evicted, 2);
}

#[test]
fn subtables_with_hits_are_probed_first() {
    let mut cache = MegaflowCache::new(1000, SECRET);
    for bits in 0..MAX_PROBES as u32 {
        let mut mask = mask(&[Field::InPort]);
        mask.set(Field::Ipv4Dst, u128::from(bits));
        add(&mut cache, &key(1, 0, 0), &mask, bits);
    }
    let by_source = mask(&[Field::Ipv4Src]);
    let (id, _) = add(&mut cache, &key(2, 5, 0), &by_source, 99);
    assert_eq!(cache.find(&key(2, 5, 0)), None, "not within the first ones");
    assert_eq!(cache.find_exactly((&key(2, 5, 0), &by_source)), Some(id));
    cache.rank();
    assert_eq!(cache.find(&key(2, 5, 0)), Some(id));
}

#[test]
fn a_sweep_removes_idle_megaflows_and_those_that_are_not_kept() {
    let mut cache = MegaflowCache::new(10, SECRET);
    let all = mask(&[Field::Ipv4Src]);
    let ids: Vec<_> = (0..4).map(|n| add(&mut cache, &key(0, n, 0), &all, n as u32).0).collect();
    let late = Now(IDLE + 1);
    for id in &ids[1..] {
        cache.get(*id).unwrap().count(1, 60, late);
    }
    let mut removed = vec![];
    cache.sweep(1, late, |megaflow| megaflow.value != 3, &mut |megaflow| removed.push(megaflow.value));
    assert_eq!((removed, cache.len()), (vec![0, 3], 2));
}

proptest! {
    /// Against a list of (key, mask, value) in which masks are disjoint alternatives.
    #[test]
    fn agrees_with_a_map(steps in prop::collection::vec((0..3_usize, 0..4_u128, 0..4_u128, any::<bool>()), 1..60)) {
        let masks = [mask(&[Field::Ipv4Src]), mask(&[Field::Ipv4Dst]), mask(&[Field::Ipv4Src, Field::Ipv4Dst])];
        let (mut cache, mut model) = (MegaflowCache::new(1000, SECRET), HashMap::new());
        for (n, source, destination, removes) in steps {
            let (key, mask) = (key(0, source, destination), masks[n]);
            let masked = (n, key.and(&mask));
            if removes {
                let found = cache.find_exactly((&key, &mask));
                let value = found.and_then(|id| cache.remove(id)).map(|megaflow| megaflow.value);
                prop_assert_eq!(value, model.remove(&masked));
            } else if !model.contains_key(&masked) {
                let value = model.len() as u32;
                add(&mut cache, &key, &mask, value);
                model.insert(masked, value);
            }
            prop_assert_eq!(cache.len(), model.len());
        }
        for ((n, key), value) in model {
            let id = cache.find_exactly((&key, &masks[n])).unwrap();
            prop_assert_eq!(cache.get(id).unwrap().value, value);
        }
    }
}
