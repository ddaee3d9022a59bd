use super::buffer::BufMeta;
use super::depot::MAGAZINE;
use super::*;
use crate::scale::scale;
use proptest::prelude::*;
use std::collections::HashSet;
use std::sync::mpsc;

fn pool(buffers: u32, size: u16) -> Arc<Pool> {
    Pool::new(PoolSpec { buffers, size, pages: Pages::Ordinary }).unwrap()
}

/// Start address of an empty buffer without headroom.
fn start(buffer: &Buffer) -> usize {
    buffer.data().as_ptr().addr()
}

fn drain(cache: &mut Cache) -> Vec<Buffer> {
    std::iter::from_fn(|| cache.alloc()).collect()
}

fn free_all(cache: &mut Cache, buffers: impl IntoIterator<Item = Buffer>) {
    for buffer in buffers {
        cache.free(buffer);
    }
}

#[test]
fn each_buffer_is_allocated_once_until_empty() {
    let pool = pool(100, 2048);
    let mut cache = pool.cache();
    let buffers = drain(&mut cache);
    let starts: HashSet<_> = buffers.iter().map(start).collect();
    assert_eq!((buffers.len(), starts.len()), (100, 100));
    assert_eq!(cache.counters(), Counters { hits: 96, refills: 4, empty: 1, ..Counters::default() });
    free_all(&mut cache, buffers);
    assert_eq!(drain(&mut cache).len(), 100);
}

#[test]
fn buffers_do_not_overlap_and_have_the_requested_size() {
    for size in [1, 64, 127, 128, 129, 2048, scale(u16::MAX, 300)] {
        let pool = pool(3, size);
        let mut cache = pool.cache();
        let mut buffers = drain(&mut cache);
        for (value, buffer) in buffers.iter_mut().enumerate() {
            assert_eq!(buffer.capacity(), usize::from(size));
            assert!(start(buffer).is_multiple_of(128));
            buffer.append(size.into()).unwrap().fill(value as u8);
            assert!(buffer.append(1).is_none());
        }
        for (value, buffer) in buffers.iter().enumerate() {
            assert!(buffer.data().iter().all(|&byte| byte == value as u8));
        }
        free_all(&mut cache, buffers);
    }
}

#[test]
fn first_lines_use_all_cache_sets() {
    for size in [128, 1500, 2048, 4096, 9216] {
        let sets: HashSet<usize> = (0..32).map(|i| i * stride(size) % 4096).collect();
        assert_eq!(sets.len(), 32, "{size}");
        assert!(stride(size) >= usize::from(size));
    }
}

#[test]
fn headroom_data_and_tailroom_share_the_buffer() {
    let pool = pool(1, 100);
    let mut cache = pool.cache();
    let mut buffer = cache.alloc().unwrap();
    buffer.reset(20);
    buffer.append(50).unwrap().copy_from_slice(&[5; 50]);
    buffer.prepend(10).unwrap().copy_from_slice(&[1; 10]);
    assert!(buffer.prepend(11).is_none());
    assert_eq!((buffer.headroom(), buffer.len(), buffer.tailroom()), (10, 60, 30));
    buffer.advance(9);
    buffer.truncate(2);
    assert_eq!(buffer.data(), [1, 5]);
    buffer.advance(99);
    assert!(buffer.is_empty());
    buffer.set_tag(7);
    assert_eq!(buffer.tag(), 7);
    cache.free(buffer);
    let again = cache.alloc().unwrap();
    assert_eq!((again.tag(), again.len(), again.headroom()), (0, 0, 0), "a handle begins anew");
    cache.free(again);
}

#[test]
fn cache_holds_four_magazines_and_spills_more() {
    let pool = pool(256, 64);
    let (mut one, mut other) = (pool.cache(), pool.cache());
    let buffers = drain(&mut one);
    free_all(&mut one, buffers);
    assert_eq!(one.counters().spills, 4);
    assert_eq!(drain(&mut other).len(), 128, "the other cache gets what was spilled");
    let magazine: Vec<_> = (0..MAGAZINE).map(|_| one.alloc().unwrap()).collect();
    let depot_visits = one.counters();
    free_all(&mut one, magazine);
    assert_eq!(one.counters().spills, depot_visits.spills, "around an edge nothing moves");
    drop(one);
    assert_eq!(drain(&mut other).len(), 128, "a cache gives back what it held");
}

#[test]
fn foreign_buffer_is_counted_and_not_reused() {
    let (ours, theirs) = (pool(1, 64), pool(1, 64));
    let (mut cache, mut other) = (ours.cache(), theirs.cache());
    let stray = other.alloc().unwrap();
    cache.free(stray);
    assert_eq!(cache.counters().strays, 1);
    let own = cache.alloc().unwrap();
    assert_eq!(start(&own), ours.memory.start().addr().get());
    assert!(cache.alloc().is_none());
    cache.free(own);
}

#[test]
fn bulk_allocation_counts_like_single_allocations() {
    let (pool, twin) = (pool(100, 64), pool(100, 64));
    let (mut cache, mut single) = (pool.cache(), twin.cache());
    let (mut buffers, mut singles) = (vec![], vec![]);
    for (wanted, got) in [(0, 0), (70, 70), (50, 30)] {
        assert_eq!(cache.alloc_bulk(&mut buffers, wanted), got);
        singles.extend((0..wanted).filter_map(|_| single.alloc()));
        assert_eq!(cache.counters(), single.counters(), "{wanted}");
    }
    assert_eq!(cache.counters(), Counters { hits: 96, refills: 4, empty: 20, ..Counters::default() });
    assert_eq!(buffers.iter().map(start).collect::<HashSet<_>>().len(), 100);
    cache.free_bulk(&mut buffers);
    free_all(&mut single, singles);
    assert!(buffers.is_empty());
    assert_eq!((cache.counters(), cache.counters().spills), (single.counters(), 0));
    drop(cache);
    assert_eq!(drain(&mut pool.cache()).len(), 100);
}

#[test]
fn foreign_buffers_in_bulk_free_are_counted() {
    let (ours, theirs) = (pool(40, 64), pool(3, 64));
    let (mut cache, mut other) = (ours.cache(), theirs.cache());
    for by_vector in [true, false] {
        let mut buffers = drain(&mut cache);
        let own = buffers.len() as u64;
        buffers.insert(0, other.alloc().unwrap());
        if by_vector {
            buffers.push(other.alloc().unwrap());
        }
        let (strays, before) = (buffers.len() as u64 - own, cache.counters());
        if by_vector {
            cache.free_bulk(&mut buffers);
        } else {
            cache.free_all(buffers);
        }
        let now = cache.counters();
        assert_eq!((now.frees - before.frees, now.strays - before.strays), (own, strays));
        assert_eq!(own, 40);
    }
}

#[test]
fn pool_recognizes_its_own_buffers() {
    for (start, len) in [(4096, 4096), (1 << 20, 128), (0x7f12_3456_7000, 17 << 20)] {
        let home = PoolRange { start, len };
        let near =
            [start - 1, start, start + 1, start + len / 2, start + len - 1, start + len, start + len + 1];
        for address in near.into_iter().chain([1, 1 << 47, usize::MAX >> 1, usize::MAX]) {
            let address = NonNull::without_provenance(address.try_into().unwrap());
            let first = NonNull::without_provenance(start.try_into().unwrap());
            for (len, at) in (1..10).step_by(scale(1, 4)).flat_map(|len| (0..len).map(move |at| (len, at))) {
                let mut starts = vec![first; len];
                starts[at] = address;
                let mut places = vec![first; len];
                let owned = many::part(&made(&starts), home, &mut places);
                assert_eq!(owned, home.owns(address), "{address:?} of {home:?}, {at} of {len}");
                let [mut came, mut went] =
                    [places, starts].map(|all| all.into_iter().map(NonNull::addr).collect::<Vec<_>>());
                came.sort_unstable();
                went.sort_unstable();
                assert_eq!(came, went);
            }
        }
        assert!(many::part(&[], home, &mut []));
    }
}

/// Handles for arbitrary addresses. They have zero capacity and must not be accessed.
fn made(starts: &[NonNull<u8>]) -> Vec<Buffer> {
    let mut buffers = Vec::with_capacity(starts.len());
    // SAFETY: handles with zero capacity are valid for every address.
    unsafe { many::make(starts, BufMeta::empty(0), &mut buffers.spare_capacity_mut()[..starts.len()]) };
    // SAFETY: `make` initialised `starts.len()` elements.
    unsafe { buffers.set_len(starts.len()) };
    buffers
}

#[test]
fn bulk_handles_equal_single_handles() {
    let pool = pool(20, 64);
    let mut cache = pool.cache();
    for count in 0..20 {
        let mut together = Vec::new();
        assert_eq!(cache.alloc_bulk(&mut together, count), count);
        for buffer in &mut together {
            assert_eq!((buffer.capacity(), buffer.len(), buffer.headroom(), buffer.tag()), (64, 0, 0, 0));
            buffer.set_tag(7);
            buffer.append(3).unwrap().fill(1);
        }
        cache.free_bulk(&mut together);
        let alone = cache.alloc().unwrap();
        assert_eq!((alone.capacity(), alone.len(), alone.headroom(), alone.tag()), (64, 0, 0, 0));
        cache.free(alone);
    }
}

#[test]
#[cfg_attr(miri, ignore = "leaks by design")]
fn handle_outlives_its_pool() {
    let pool = pool(4, 64);
    let mut cache = pool.cache();
    let mut buffer = cache.alloc().unwrap();
    drop((cache, pool));
    buffer.append(64).unwrap().fill(3);
    assert_eq!(buffer.data(), [3; 64]);
}

/// Whether `/proc/self/maps` lists a mapping that holds `address`.
fn is_mapped(address: usize) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let hex = |text| usize::from_str_radix(text, 16).unwrap();
    maps.lines().any(|line| {
        let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
        (hex(start)..hex(end)).contains(&address)
    })
}

#[test]
#[cfg_attr(miri, ignore = "needs the kernel")]
fn pool_without_outstanding_buffers_is_unmapped() {
    let goes = || {
        let pool = pool(1000, 64000);
        let mut cache = pool.cache();
        let buffer = cache.alloc().unwrap();
        let middle = pool.memory.start().addr().get() + pool.memory.len() / 2;
        cache.free(buffer);
        drop(pool);
        assert!(is_mapped(middle), "the cache holds the pool");
        drop(cache);
        !is_mapped(middle)
    };
    // Another test in this process may map the same address in between, but not in every attempt.
    assert!((0..10).any(|_| goes()));
}

#[test]
#[cfg_attr(miri, ignore = "needs the kernel")]
fn huge_pages_are_optional() {
    let spec = PoolSpec { buffers: 1000, size: 2048, pages: Pages::Huge };
    let pool = Pool::new(spec).unwrap();
    let mut cache = pool.cache();
    let mut buffers = drain(&mut cache);
    assert_eq!(buffers.len(), 1000);
    for buffer in &mut buffers {
        buffer.append(2048).unwrap().fill(1);
    }
    free_all(&mut cache, buffers);
    let small = Pool::new(PoolSpec { buffers: 1, ..spec }).unwrap();
    assert_eq!(small.spec().pages, Pages::Ordinary, "one buffer is not worth a huge page");
}

#[test]
fn invalid_pool_is_rejected() {
    let spec = |buffers, size| PoolSpec { buffers, size, pages: Pages::Ordinary };
    assert!(matches!(Pool::new(spec(0, 64)), Err(PoolError::Empty)));
    assert!(matches!(Pool::new(spec(64, 0)), Err(PoolError::Empty)));
    assert!(matches!(Pool::new(spec(u32::MAX, 64)), Err(PoolError::TooLarge(u32::MAX, 64))));
}

/// Two threads allocate and write buffers, the next checks and frees them, as pipeline stages do.
#[test]
fn buffers_crossing_threads_are_neither_lost_nor_shared() {
    const PACKETS: u32 = scale(50_000, 300);
    let pool = pool(256, 64);
    let (sender, receiver) = mpsc::sync_channel::<Buffer>(100);
    let mut checker = pool.cache();
    let totals: Vec<Counters> = std::thread::scope(|s| {
        let stage = |id: u32| {
            let (sender, pool) = (sender.clone(), &pool);
            s.spawn(move || {
                let mut cache = pool.cache();
                for packet in (0..PACKETS).map(|i| i * 2 + id) {
                    let mut buffer = loop {
                        match cache.alloc() {
                            Some(buffer) => break buffer,
                            None => std::thread::yield_now(),
                        }
                    };
                    buffer.append(4).unwrap().copy_from_slice(&packet.to_le_bytes());
                    sender.send(buffer).unwrap();
                }
                cache.counters()
            })
        };
        let stages = [stage(0), stage(1)];
        drop(sender);
        let mut seen = HashSet::new();
        for buffer in receiver {
            assert!(seen.insert(u32::from_le_bytes(buffer.data().try_into().unwrap())));
            checker.free(buffer);
        }
        assert_eq!(seen.len(), 2 * PACKETS as usize);
        stages.map(|stage| stage.join().unwrap()).into()
    });
    let allocated: u64 = totals.iter().map(Counters::allocations).sum();
    assert_eq!((allocated, checker.counters().frees), (2 * u64::from(PACKETS), 2 * u64::from(PACKETS)));
    drop(checker);
    let mut cache = pool.cache();
    assert_eq!(drain(&mut cache).len(), 256);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: scale(256, 4),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Two caches allocate and free at random, singly and in bulk: no buffer is allocated twice, the counters match,
    /// and at the end all buffers are present.
    #[test]
    fn random_cache_operations_keep_each_buffer_in_one_place(
        buffers in 1..200_u32,
        steps in prop::collection::vec((any::<bool>(), any::<bool>(), 0..3_u8, 0..100_usize), 0..scale(40, 12)),
    ) {
        let pool = pool(buffers, 64);
        let mut caches = [pool.cache(), pool.cache()];
        let (mut held, mut asked): (Vec<Buffer>, _) = (vec![], 0);
        for (which, alloc, how, count) in steps {
            let cache = &mut caches[usize::from(which)];
            let before = held.len();
            match (alloc, how) {
                (true, 0) => {
                    asked += count;
                    held.extend((0..count).filter_map(|_| cache.alloc()));
                }
                (true, _) => {
                    asked += count;
                    let got = cache.alloc_bulk(&mut held, count);
                    prop_assert_eq!(held.len(), before + got);
                }
                (false, 0) => free_all(cache, held.drain(..count.min(before))),
                (false, 1) => cache.free_all(held.drain(..count.min(before))),
                (false, _) => {
                    let mut some: Vec<_> = held.drain(..count.min(before)).collect();
                    cache.free_bulk(&mut some);
                    prop_assert!(some.is_empty());
                }
            }
            let starts: HashSet<_> = held.iter().map(start).collect();
            prop_assert_eq!(starts.len(), held.len());
            let [one, other] = caches.each_ref().map(Cache::counters);
            let (taken, given) = (one.allocations() + other.allocations(), one.frees + other.frees);
            prop_assert_eq!(taken - given, held.len() as u64);
            prop_assert_eq!(taken + one.empty + other.empty, asked as u64);
        }
        caches[0].free_bulk(&mut held);
        drop(caches);
        prop_assert_eq!(drain(&mut pool.cache()).len(), buffers as usize);
    }
}
